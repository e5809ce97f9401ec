//! Conversations and messages, stored with the data.

use std::path::{Path, PathBuf};
use std::time::Duration;

use convoke_serving::Sources;
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::{Deserialize, Serialize};

use crate::answer::Table;
use crate::data;
use crate::error::{Failure, Refusal};
use crate::parameters::Parameters;
use crate::schema::MIGRATIONS;

/// How long a conversation can be continued.
pub const CONVERSATION_LIFETIME: Duration = Duration::from_hours(7 * 24);

/// One connection to the database.
#[derive(Debug)]
pub struct Store {
    connection: Connection,
    sources: Sources,
    file: PathBuf,
}

/// The status of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    Running,
    Completed,
    Failed,
}

/// A question, its query, and the result once there is one.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Message {
    pub(crate) id: String,
    pub(crate) conversation: String,
    pub(crate) question: String,
    pub(crate) query_id: String,
    pub(crate) parameters: Parameters,
    pub(crate) status: Status,
    pub(crate) result: Option<Finished>,
}

/// The outcome of a query.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Finished {
    pub(crate) answer: String,
    pub(crate) table: Table,
}

const COLUMNS: &str = "id, conversation, query_id, parameters, status, result, question";

impl Store {
    /// Opens the file. A new file is created and filled.
    pub fn open(db: &Path, sources: Sources) -> Result<Self, convoke_serving::Failure<Refusal>> {
        let mut connection = convoke_serving::open(db, MIGRATIONS, sources)?;
        data::fill_if_new(&mut connection)?;
        let store = Self {
            connection,
            sources,
            file: db.to_owned(),
        };
        store.sweep()?;
        Ok(store)
    }

    pub(crate) fn file(&self) -> &Path {
        &self.file
    }

    /// Checks that a conversation belongs to this space.
    pub(crate) fn require(&self, space: &str, conversation: &str) -> Result<(), Failure> {
        let found: Option<String> = self
            .connection
            .prepare_cached("SELECT space FROM conversations WHERE id = ?1")?
            .query_row([conversation], |row| row.get(0))
            .optional()?;
        match found {
            None => Err(Refusal::ConversationNotFound.into()),
            Some(owner) if owner != space => Err(Refusal::ConversationOfOtherSpace(owner).into()),
            Some(_) => Ok(()),
        }
    }

    /// The latest message of a conversation.
    pub(crate) fn last(&self, conversation: &str) -> Result<Option<Message>, Failure> {
        let sql = format!(
            "SELECT {COLUMNS} FROM messages WHERE conversation = ?1 ORDER BY position DESC LIMIT 1"
        );
        let mut statement = self.connection.prepare_cached(&sql)?;
        statement
            .query_row([conversation], message)
            .optional()?
            .transpose()
    }

    /// A message of a conversation.
    pub(crate) fn message(&self, conversation: &str, id: &str) -> Result<Message, Failure> {
        let sql = format!("SELECT {COLUMNS} FROM messages WHERE conversation = ?1 AND id = ?2");
        let mut statement = self.connection.prepare_cached(&sql)?;
        let found = statement
            .query_row([conversation, id], message)
            .optional()?;
        found
            .transpose()?
            .ok_or_else(|| Refusal::MessageNotFound.into())
    }

    /// Stores a question before its query runs, in a new conversation if none is given.
    pub(crate) fn begin(
        &mut self,
        space: &str,
        conversation: Option<&str>,
        question: &str,
        query_id: &str,
        parameters: &Parameters,
    ) -> Result<Message, Failure> {
        let new_id = || (self.sources.id)().to_string();
        let message = Message {
            id: new_id(),
            conversation: conversation.map_or_else(new_id, str::to_owned),
            question: question.to_owned(),
            query_id: query_id.to_owned(),
            parameters: parameters.clone(),
            status: Status::Running,
            result: None,
        };
        let now_ms = (self.sources.now)().as_millisecond();
        let transaction = self.connection.transaction()?;
        if conversation.is_none() {
            transaction.execute(
                "INSERT INTO conversations (id, space, created_ms) VALUES (?1, ?2, ?3)",
                params![message.conversation, space, now_ms],
            )?;
        }
        transaction.execute(
            "INSERT INTO messages (id, conversation, question, query_id, parameters, status)
             VALUES (?1, ?2, ?3, ?4, ?5, 'running')",
            params![
                message.id,
                message.conversation,
                question,
                query_id,
                serde_json::json!(parameters).to_string()
            ],
        )?;
        transaction.commit()?;
        Ok(message)
    }

    /// Stores the outcome of a message. If two processes ran it, the results are equal and the first one
    /// is kept.
    pub(crate) fn end(&self, id: &str, finished: Option<&Finished>) -> Result<(), Failure> {
        let status = if finished.is_some() {
            "completed"
        } else {
            "failed"
        };
        let result = finished.map(|finished| serde_json::json!(finished).to_string());
        self.connection
            .prepare_cached(
                "UPDATE messages SET status = ?2, result = ?3 WHERE id = ?1 AND status = 'running'",
            )?
            .execute(params![id, status, result])?;
        Ok(())
    }

    fn sweep(&self) -> Result<(), rusqlite::Error> {
        let kept_ms = i64::try_from(CONVERSATION_LIFETIME.as_millis()).unwrap_or(i64::MAX);
        let before = (self.sources.now)()
            .as_millisecond()
            .saturating_sub(kept_ms);
        let any: bool = self.connection.query_row(
            "SELECT EXISTS (SELECT 1 FROM conversations WHERE created_ms < ?1)",
            [before],
            |row| row.get(0),
        )?;
        if any {
            self.connection.execute(
                "DELETE FROM messages WHERE conversation IN
                   (SELECT id FROM conversations WHERE created_ms < ?1)",
                [before],
            )?;
            self.connection
                .execute("DELETE FROM conversations WHERE created_ms < ?1", [before])?;
        }
        Ok(())
    }
}

/// Reads a row as a message; the inner error reports invalid stored data.
fn message(row: &Row<'_>) -> Result<Result<Message, Failure>, rusqlite::Error> {
    let parameters: String = row.get(3)?;
    let status: String = row.get(4)?;
    let result: Option<String> = row.get(5)?;
    let (id, conversation, query_id) = (row.get(0)?, row.get(1)?, row.get(2)?);
    let question = row.get(6)?;
    Ok((|| {
        Ok(Message {
            id,
            conversation,
            question,
            query_id,
            parameters: stored(&parameters)?,
            status: match status.as_str() {
                "running" => Status::Running,
                "completed" => Status::Completed,
                _ => Status::Failed,
            },
            result: result.as_deref().map(stored).transpose()?,
        })
    })())
}

fn stored<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, Failure> {
    serde_json::from_str(text).map_err(|error| Failure::Corrupt(format!("a message: {error}")))
}
