//! What can go wrong: a call that is refused, and a server that cannot run.

use serde_json::{Value, json};

use crate::idempotency::MAX_KEY_LENGTH;
use crate::store::MAX_TASKS_PER_USER;
use crate::task::MAX_TITLE_LENGTH;

/// A call that was turned down and changed nothing. People read the sentence, programs the code.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The user has no such task, or it is another user's: the words are the same.
    #[error("There is no task {0}.")]
    NotFound(String),
    /// The user id is no UUID.
    #[error("The user id must be a UUID.")]
    UserId,
    /// The task id is no UUID.
    #[error("The task id must be a UUID, as list_tasks gives it.")]
    TaskId,
    /// The title is empty or too long.
    #[error("The title must have 1 to {MAX_TITLE_LENGTH} characters.")]
    Title,
    /// The arguments are not those of the tool.
    #[error("The arguments do not fit: {0}.")]
    Arguments(String),
    /// The idempotency key is no text, empty or too long.
    #[error("The idempotency key must be a text of 1 to {MAX_KEY_LENGTH} characters.")]
    Key,
    /// The idempotency key was used for another call.
    #[error("This idempotency key was used for another call.")]
    KeyReused,
    /// The user has as many tasks as a user may have.
    #[error("There are {MAX_TASKS_PER_USER} tasks already; delete some first.")]
    TooManyTasks,
}

impl Refusal {
    /// Stable and greppable.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotFound(_) => "todo.task_not_found",
            Self::UserId => "todo.user_id",
            Self::TaskId => "todo.task_id",
            Self::Title => "todo.title",
            Self::Arguments(_) => "todo.arguments",
            Self::Key => "todo.idempotency_key",
            Self::KeyReused => "todo.idempotency_key_reused",
            Self::TooManyTasks => "todo.too_many_tasks",
        }
    }

    /// What the tool answers.
    pub(crate) fn to_value(&self) -> Value {
        json!({"code": self.code(), "message": self.to_string()})
    }
}

/// Why the server, or one call of it, broke down.
#[derive(Debug, thiserror::Error)]
pub enum TodoError {
    /// The call was turned down and changed nothing.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The database could not be read or written.
    #[error("the database failed: {0}")]
    Database(#[from] rusqlite::Error),
    /// The database was written by a newer version of this server.
    #[error(
        "the database has schema version {found}, and this server knows up to {known}; update it"
    )]
    NewerSchema {
        /// The version of the file.
        found: i64,
        /// The newest version that this server knows.
        known: i64,
    },
    /// What is stored is not what was written.
    #[error("the database holds a value that cannot be read: {0}")]
    Corrupt(String),
    /// The address could not be bound or served.
    #[error("HTTP could not be served: {0}")]
    Http(#[from] std::io::Error),
    /// The conversation with the client failed.
    #[error("the client could not be served: {0}")]
    Serve(String),
}

impl TodoError {
    /// Stable and greppable.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Refused(refusal) => refusal.code(),
            Self::Database(_) => "todo.database",
            Self::NewerSchema { .. } => "todo.newer_schema",
            Self::Corrupt(_) => "todo.corrupt",
            Self::Http(_) => "todo.http",
            Self::Serve(_) => "todo.serve",
        }
    }
}
