//! One effect for one key: the answer to a call is kept with the effect, in the same transaction,
//! and given again when the call is.

use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::failure::{CallProblem, Failure, Refuse};
use crate::sources::Sources;

/// The name under which a call's `_meta` carries the key.
pub const IDEMPOTENCY_KEY: &str = "idempotencyKey";

/// How long answers are kept. A call that is repeated later than this is a new one.
pub const KEEP_KEYS: Duration = Duration::from_hours(7 * 24);

/// The longest key, in characters.
pub const MAX_KEY_LENGTH: usize = 200;

/// A migration that makes the table of answers. Files in use were made with it, so that it never
/// changes: what comes later is a migration of its own.
pub const ANSWERS_TABLE: &str = "
    -- What was answered to a call under a key, written with the effect of that call.
    CREATE TABLE answers (
        owner      TEXT NOT NULL,
        key        TEXT NOT NULL,
        tool       TEXT NOT NULL,
        arguments  BLOB NOT NULL,
        answer     TEXT NOT NULL,
        is_error   INTEGER NOT NULL,
        created_ms INTEGER NOT NULL,
        PRIMARY KEY (owner, key)
    ) STRICT;
    CREATE INDEX answers_by_age ON answers (created_ms);
";

/// What a tool answers: a result, or a refusal that belongs to the state of the data.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The result, or a refusal's code and sentence.
    pub content: Value,
    /// Whether it is a refusal.
    pub is_error: bool,
}

impl Answer {
    /// The call was carried out.
    pub fn done(content: Value) -> Self {
        Self {
            content,
            is_error: false,
        }
    }

    /// The call was turned down.
    pub fn refused(refusal: &impl Refuse) -> Self {
        Self {
            content: refusal.to_value(),
            is_error: true,
        }
    }
}

/// A call as its key identifies it.
#[derive(Debug)]
pub struct Keyed<'a> {
    owner: &'a str,
    key: &'a str,
    tool: &'static str,
    fingerprint: Vec<u8>,
}

impl<'a> Keyed<'a> {
    /// A call under a key. Keys are each owner's own: nobody can meet another's. The arguments are
    /// those that were checked, so that two spellings of one call are one call.
    pub fn new(
        owner: &'a str,
        key: &'a str,
        tool: &'static str,
        arguments: &Value,
    ) -> Result<Self, CallProblem> {
        if !(1..=MAX_KEY_LENGTH).contains(&key.chars().count()) {
            return Err(CallProblem::Key);
        }
        Ok(Self {
            owner,
            key,
            tool,
            fingerprint: Sha256::digest(arguments.to_string()).to_vec(),
        })
    }

    /// The answer that this call got before, if it was made before.
    fn earlier<R: Refuse>(&self, connection: &Connection) -> Result<Option<Answer>, Failure<R>> {
        let found = connection
            .prepare_cached(
                "SELECT tool, arguments, answer, is_error FROM answers WHERE owner = ?1 AND key = ?2",
            )?
            .query_row(params![self.owner, self.key], |row| {
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
        if tool != self.tool || arguments != self.fingerprint {
            return Err(CallProblem::KeyReused.into());
        }
        let content = serde_json::from_str(&answer)
            .map_err(|error| Failure::Corrupt(format!("an answer: {error}")))?;
        Ok(Some(Answer { content, is_error }))
    }

    /// Keeps the answer beside the effect that it reports.
    fn keep(
        &self,
        connection: &Connection,
        answer: &Answer,
        now_ms: i64,
    ) -> Result<(), rusqlite::Error> {
        connection
            .prepare_cached(
                "INSERT INTO answers (owner, key, tool, arguments, answer, is_error, created_ms)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            )?
            .execute(params![
                self.owner,
                self.key,
                self.tool,
                self.fingerprint,
                answer.content.to_string(),
                answer.is_error,
                now_ms,
            ])?;
        Ok(())
    }
}

/// Makes a change, or gives the answer that it got when it was made before under its key. A change
/// that is refused leaves nothing behind but the refusal under its key.
pub fn change_once<R: Refuse>(
    connection: &mut Connection,
    sources: Sources,
    keyed: Option<&Keyed<'_>>,
    apply: impl FnOnce(&Connection) -> Result<Value, Failure<R>>,
) -> Result<Answer, Failure<R>> {
    // The lock is taken before anything is read, so that of two calls under one key the second
    // finds the first one's answer.
    let mut transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    if let Some(keyed) = keyed
        && let Some(answer) = keyed.earlier(&transaction)?
    {
        return Ok(answer);
    }
    let change = transaction.savepoint()?;
    let answer = match apply(&change) {
        Ok(content) => {
            change.commit()?;
            Answer::done(content)
        }
        Err(Failure::Refused(refusal)) => {
            change.finish()?;
            Answer::refused(&refusal)
        }
        Err(error) => return Err(error),
    };
    if let Some(keyed) = keyed {
        keyed.keep(&transaction, &answer, (sources.now)().as_millisecond())?;
    }
    transaction.commit()?;
    Ok(answer)
}

/// Forgets the answers that are older than [`KEEP_KEYS`].
pub(crate) fn sweep(connection: &Connection, now_ms: i64) -> Result<usize, rusqlite::Error> {
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
    connection.execute("DELETE FROM answers WHERE created_ms < ?1", [before])
}

#[cfg(test)]
mod tests;
