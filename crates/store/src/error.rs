//! Errors, classified by what the caller does next.

use rusqlite::{ErrorCode, ffi};
use uuid::Uuid;

/// An error of a store call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// Another worker owns the task, or it has ended. Stop working on it.
    #[error("task {task} is no longer this worker's to write")]
    Fenced {
        /// The task.
        task: Uuid,
    },
    /// The conversation belongs to another user or app. Clients see it as not found.
    #[error("conversation {conversation} does not exist")]
    ForeignConversation {
        /// The conversation.
        conversation: Uuid,
    },
    /// A task of the conversation runs or is ready to, and the new one was to be refused then.
    #[error("a task of the conversation {conversation} is at work")]
    ConversationBusy {
        /// The conversation.
        conversation: Uuid,
    },
    /// Another task with this id exists.
    #[error("task id {task} is already taken")]
    IdTaken {
        /// The id.
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
    /// A value exceeds the size limit of a blob. Nothing was stored.
    #[error("a blob has at most {limit_bytes} bytes, and this one has {bytes}")]
    BlobTooLarge {
        /// Its size in bytes.
        bytes: u64,
        /// The limit in bytes.
        limit_bytes: u64,
    },
    /// The key was used for another request of the same owner.
    #[error("the key was used before, for another request: task {task}")]
    KeyReused {
        /// The task that was submitted under it.
        task: Uuid,
    },
    /// A stored value cannot be read. Only its task is affected: set it aside and continue.
    #[error("a stored value cannot be read: {0}")]
    Corrupt(String),
    /// The store is unavailable, and the call had no effect. It may succeed later.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    /// The store failed during a commit: the call may have taken effect. Read back before writing again; a task's epoch
    /// and sequence show it.
    #[error("the store failed during a commit, and the outcome is unknown: {0}")]
    Uncertain(String),
    /// The disk or the database is full, and the call had no effect. It succeeds once space is available.
    #[error("the store is full: {0}")]
    Full(String),
    /// The file or database is damaged as a whole, or is not one. All calls fail until it is restored.
    #[error("the store is damaged: {0}")]
    Broken(String),
    /// The store is open for reading only. All changes fail.
    #[error("the store is open for reading only")]
    ReadOnly,
}

impl StoreError {
    /// Stable and greppable.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Fenced { .. } => "store.fenced",
            Self::ForeignConversation { .. } => "store.conversation_not_found",
            Self::ConversationBusy { .. } => "store.conversation_busy",
            Self::IdTaken { .. } => "store.id_taken",
            Self::TooNew { .. } => "store.too_new",
            Self::BlobTooLarge { .. } => "store.blob_too_large",
            Self::KeyReused { .. } => "store.key_reused",
            Self::Corrupt(_) => "store.corrupt",
            Self::Unavailable(_) => "store.unavailable",
            Self::Uncertain(_) => "store.uncertain",
            Self::Full(_) => "store.full",
            Self::Broken(_) => "store.broken",
            Self::ReadOnly => "store.read_only",
        }
    }

    /// Whether the same call may succeed later. Owners of tasks wait and retry.
    pub fn is_outage(&self) -> bool {
        matches!(
            self,
            Self::Unavailable(_) | Self::Uncertain(_) | Self::Full(_)
        )
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
            // The index beside a write-ahead log is written for the first time, for which there is no room.
            error if extended_code(&error) == Some(ffi::SQLITE_IOERR_SHMSIZE) => {
                Self::Full(error.to_string())
            }
            error => match error.sqlite_error_code() {
                Some(ErrorCode::DiskFull) => Self::Full(error.to_string()),
                Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => {
                    Self::Broken(error.to_string())
                }
                Some(ErrorCode::ReadOnly) => Self::ReadOnly,
                _ => Self::Unavailable(error.to_string()),
            },
        }
    }
}

fn extended_code(error: &rusqlite::Error) -> Option<i32> {
    error.sqlite_error().map(|error| error.extended_code)
}

impl From<serde_json::Error> for StoreError {
    fn from(error: serde_json::Error) -> Self {
        Self::Corrupt(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from_sqlite(code: i32) -> StoreError {
        rusqlite::Error::SqliteFailure(ffi::Error::new(code), None).into()
    }

    #[test]
    fn an_error_of_sqlite_says_what_the_caller_does_next() {
        let expected = [
            (ffi::SQLITE_FULL, "store.full", true),
            (ffi::SQLITE_IOERR_SHMSIZE, "store.full", true),
            (ffi::SQLITE_BUSY, "store.unavailable", true),
            (ffi::SQLITE_IOERR, "store.unavailable", true),
            (ffi::SQLITE_CORRUPT, "store.broken", false),
            (ffi::SQLITE_NOTADB, "store.broken", false),
            (ffi::SQLITE_READONLY, "store.read_only", false),
        ];
        for (code, expected_code, is_outage) in expected {
            let error = from_sqlite(code);
            assert_eq!(
                (error.code(), error.is_outage()),
                (expected_code, is_outage)
            );
        }
        let unknown = StoreError::Uncertain("the disk went away".into());
        assert!(unknown.is_outage(), "it can be read back later");
    }
}
