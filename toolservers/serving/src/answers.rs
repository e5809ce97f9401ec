//! Idempotency: the answer to a call is stored with its effect, in the same transaction, and returned
//! again when the call is repeated.

use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::failure::{CallProblem, Failure, Refuse};
use crate::sources::Sources;

/// The key of the idempotency key in a call's `_meta`.
pub const IDEMPOTENCY_KEY: &str = "idempotencyKey";

/// How long answers are kept. A call repeated later counts as new.
pub const KEY_LIFETIME: Duration = Duration::from_hours(7 * 24);

/// Limit of a key, in characters.
pub const MAX_KEY_LENGTH: usize = 200;

/// The migration that creates the table of answers. Existing files were created with it, so it never
/// changes; further changes are separate migrations.
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

/// A tool's answer: a result, or a refusal because of the state of the data.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The result, or the code and message of a refusal.
    pub content: Value,
    /// Whether it is a refusal.
    pub is_error: bool,
}

impl Answer {
    pub fn done(content: Value) -> Self {
        Self {
            content,
            is_error: false,
        }
    }

    pub fn refused(refusal: &impl Refuse) -> Self {
        Self {
            content: refusal.to_value(),
            is_error: true,
        }
    }
}

/// A call identified by its key.
#[derive(Debug)]
pub struct Keyed<'a> {
    owner: &'a str,
    key: &'a str,
    tool: &'static str,
    fingerprint: Vec<u8>,
}

impl<'a> Keyed<'a> {
    /// A call with a key. Keys belong to their owner. The arguments are the parsed ones, so that
    /// different spellings of one call are equal.
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

    /// The stored answer, if the call was made before.
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

    /// Stores the answer with the effect it reports.
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

/// Makes a change, or returns the stored answer of an earlier call with the same key. A refused change
/// is rolled back, except for the stored refusal.
pub fn change_once<R: Refuse>(
    connection: &mut Connection,
    sources: Sources,
    keyed: Option<&Keyed<'_>>,
    apply: impl FnOnce(&Connection) -> Result<Value, Failure<R>>,
) -> Result<Answer, Failure<R>> {
    // Takes the write lock before reading, so that the second of two calls with one key finds the answer
    // of the first.
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

/// Deletes answers older than [`KEY_LIFETIME`].
pub(crate) fn sweep(connection: &Connection, now_ms: i64) -> Result<usize, rusqlite::Error> {
    let kept_ms = i64::try_from(KEY_LIFETIME.as_millis()).unwrap_or(i64::MAX);
    let before = now_ms.saturating_sub(kept_ms);
    // Usually nothing is expired, and then opening must not wait for the write lock.
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
