//! What the engine tells a caller that it cannot do.

use std::time::Duration;

use convoke_model::Invalid;
use convoke_store::StoreError;
use uuid::Uuid;

/// Why the engine did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// There is no such task.
    #[error("there is no task {0}")]
    UnknownTask(Uuid),
    /// A journal does not hold what this version of the engine can read.
    #[error("the journal of task {task} cannot be read: {reason}")]
    UnreadableJournal {
        /// The task.
        task: Uuid,
        /// What is wrong with it.
        reason: String,
    },
    /// A program made something that its own rules forbid.
    #[error("the program made an invalid value: {0}")]
    Invalid(#[from] Invalid),
    /// What was asked cannot be done as things stand, and changed nothing.
    #[error("{message}")]
    Refused {
        /// Stable and greppable.
        code: &'static str,
        /// Why, in a sentence.
        message: String,
    },
    /// Too many tasks wait to be begun. Nothing was accepted.
    #[error("{waiting} tasks wait to be begun; try again in {} s", retry_after.as_secs())]
    Busy {
        /// How many wait.
        waiting: usize,
        /// When to try again.
        retry_after: Duration,
    },
    /// The engine was closed, and this process works on tasks no more.
    #[error("the engine is closed: {reason}")]
    Closed {
        /// Why.
        reason: String,
    },
    /// The store refused or failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl EngineError {
    pub(crate) fn refused(code: &'static str, message: impl Into<String>) -> Self {
        Self::Refused {
            code,
            message: message.into(),
        }
    }

    /// Stable and greppable.
    pub fn code(&self) -> &'static str {
        match self {
            Self::UnknownTask(_) => "task.not_found",
            Self::UnreadableJournal { .. } => "engine.unreadable_journal",
            Self::Invalid(_) => "engine.invalid_value",
            Self::Refused { code, .. } => code,
            Self::Busy { .. } => "engine.busy",
            Self::Closed { .. } => "engine.closed",
            Self::Store(error) => error.code(),
        }
    }
}
