//! What can go wrong, split by what the caller does next.

use uuid::Uuid;

/// Why a store call did not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// Somebody else owns the task now, or it has ended: drop it and do nothing more for it.
    #[error("task {task} is no longer this worker's to write")]
    Fenced {
        /// The task in question.
        task: Uuid,
    },
    /// The conversation belongs to somebody else. Told to a client as not found.
    #[error("conversation {conversation} does not exist")]
    ForeignConversation {
        /// The conversation in question.
        conversation: Uuid,
    },
    /// A task with this id exists and is not the one that was submitted.
    #[error("task id {task} is already taken")]
    IdTaken {
        /// The id in question.
        task: Uuid,
    },
    /// The file or database was written by a newer Convoke.
    #[error(
        "the store has schema version {found}, this Convoke knows up to {known}; use a newer one"
    )]
    TooNew {
        /// The version found.
        found: i64,
        /// The newest version known here.
        known: i64,
    },
    /// The key stands for another request of the same owner.
    #[error("the key was used before, for another request: task {task}")]
    KeyReused {
        /// The task that was submitted under it.
        task: Uuid,
    },
    /// Something in the store cannot be read as what it should be. It stays with what it is part of: the
    /// rest of the store is as good as before.
    #[error("a stored value cannot be read: {0}")]
    Corrupt(String),
    /// The store itself failed. Nothing of the call took effect unless it was a lost connection
    /// during a commit, in which case the caller reads before it writes again.
    #[error("the store failed: {0}")]
    Broken(String),
}

impl StoreError {
    /// Stable and greppable.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Fenced { .. } => "store.fenced",
            Self::ForeignConversation { .. } => "store.conversation_not_found",
            Self::IdTaken { .. } => "store.id_taken",
            Self::TooNew { .. } => "store.too_new",
            Self::KeyReused { .. } => "store.key_reused",
            Self::Corrupt(_) => "store.corrupt",
            Self::Broken(_) => "store.broken",
        }
    }
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        use rusqlite::Error as Sqlite;
        match error {
            Sqlite::FromSqlConversionFailure(..)
            | Sqlite::IntegralValueOutOfRange(..)
            | Sqlite::InvalidColumnType(..)
            | Sqlite::Utf8Error(..) => Self::Corrupt(error.to_string()),
            error => Self::Broken(error.to_string()),
        }
    }
}

impl From<serde_json::Error> for StoreError {
    fn from(error: serde_json::Error) -> Self {
        Self::Corrupt(error.to_string())
    }
}
