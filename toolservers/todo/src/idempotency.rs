//! One effect for one key: the answer to a call is kept with the effect, in the same transaction,
//! and given again when the call is.

use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, Transaction, params};
use serde_json::Value;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::error::{Refusal, TodoError};
use crate::store::Answer;

/// The name under which a call's `_meta` carries the key.
pub const IDEMPOTENCY_KEY: &str = "idempotencyKey";

/// How long answers are kept. A call that is repeated later than this is a new one.
pub const KEEP_KEYS: Duration = Duration::from_hours(7 * 24);

/// The longest key, in characters.
pub const MAX_KEY_LENGTH: usize = 200;

/// A call as its key identifies it. Keys are each user's own: nobody can meet another's.
pub(crate) struct Keyed<'a> {
    pub(crate) user: Uuid,
    pub(crate) key: &'a str,
    pub(crate) tool: &'static str,
    /// The arguments after they were checked, so that two spellings of one call are one call.
    pub(crate) arguments: &'a Value,
}

impl Keyed<'_> {
    /// The answer that this call got before, if it was made before.
    pub(crate) fn earlier(
        &self,
        transaction: &Transaction<'_>,
    ) -> Result<Option<Answer>, TodoError> {
        let found = transaction
            .prepare_cached(
                "SELECT tool, arguments, answer, is_error FROM answers WHERE user_id = ?1 AND key = ?2",
            )?
            .query_row(params![self.user.to_string(), self.key], |row| {
                Ok((
                    row.get::<_, String>(0)?,
                    row.get::<_, Vec<u8>>(1)?,
                    row.get::<_, String>(2)?,
                    row.get::<_, bool>(3)?,
                ))
            })
            .optional()?;
        let Some((tool, arguments, answer, is_error)) = found else {
            return Ok(None);
        };
        if tool != self.tool || arguments != self.fingerprint() {
            return Err(Refusal::KeyReused.into());
        }
        let content = serde_json::from_str(&answer)
            .map_err(|error| TodoError::Corrupt(format!("an answer: {error}")))?;
        Ok(Some(Answer { content, is_error }))
    }

    /// Keeps the answer beside the effect that it reports.
    pub(crate) fn keep(
        &self,
        transaction: &Transaction<'_>,
        answer: &Answer,
        now_ms: i64,
    ) -> Result<(), TodoError> {
        transaction
            .prepare_cached(
                "INSERT INTO answers (user_id, key, tool, arguments, answer, is_error, created_ms)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            )?
            .execute(params![
                self.user.to_string(),
                self.key,
                self.tool,
                self.fingerprint(),
                answer.content.to_string(),
                answer.is_error,
                now_ms,
            ])?;
        Ok(())
    }

    fn fingerprint(&self) -> Vec<u8> {
        Sha256::digest(self.arguments.to_string()).to_vec()
    }
}

/// Forgets the answers that are older than [`KEEP_KEYS`].
pub(crate) fn sweep(connection: &Connection, now_ms: i64) -> Result<usize, TodoError> {
    let kept_ms = i64::try_from(KEEP_KEYS.as_millis()).unwrap_or(i64::MAX);
    let before = now_ms.saturating_sub(kept_ms);
    // Most starts find nothing to forget, and those should not wait for the lock of a writer.
    let any: bool = connection.query_row(
        "SELECT EXISTS (SELECT 1 FROM answers WHERE created_ms < ?1)",
        [before],
        |row| row.get(0),
    )?;
    if !any {
        return Ok(0);
    }
    Ok(connection.execute("DELETE FROM answers WHERE created_ms < ?1", [before])?)
}
