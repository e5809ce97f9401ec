//! Errors of the engine.

use std::time::Duration;

use convoke_model::Invalid;
use convoke_store::StoreError;
use uuid::Uuid;

/// An error of the engine.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// There is no such task.
    #[error("there is no task {0}")]
    UnknownTask(Uuid),
    /// This version of the engine cannot read the journal.
    #[error("the journal of task {task} cannot be read: {reason}")]
    UnreadableJournal {
        /// The task.
        task: Uuid,
        /// What is wrong with it.
        reason: String,
    },
    /// A program produced an invalid value.
    #[error("the program made an invalid value: {0}")]
    Invalid(#[from] Invalid),
    /// The request is not possible in the current state. Nothing was changed.
    #[error("{message}")]
    Refused {
        /// Stable and greppable.
        code: &'static str,
        /// The reason, in one sentence.
        message: String,
    },
    /// Too many tasks wait. Nothing was accepted.
    #[error("{waiting} tasks are waiting to start; try again in {} s", retry_after.as_secs())]
    Busy {
        /// The number of waiting tasks.
        waiting: usize,
        /// When to try again.
        retry_after: Duration,
    },
    /// The engine is closed; this process runs no more tasks.
    #[error("the engine is closed: {reason}")]
    Closed {
        /// Why.
        reason: String,
    },
    /// An error of the store.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why a person's answer cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnusableAnswer {
    /// Stable and greppable.
    pub code: &'static str,
    /// The reason, in one sentence.
    pub message: String,
}

impl UnusableAnswer {
    /// An answer that is refused with this code.
    pub fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }
}

impl From<String> for UnusableAnswer {
    fn from(message: String) -> Self {
        Self::new(UNUSABLE, message)
    }
}

impl From<&str> for UnusableAnswer {
    fn from(message: &str) -> Self {
        Self::new(UNUSABLE, message)
    }
}

impl From<UnusableAnswer> for EngineError {
    fn from(unusable: UnusableAnswer) -> Self {
        Self::refused(unusable.code, unusable.message)
    }
}

/// The code of an answer that does not suit its question.
pub(crate) const UNUSABLE: &str = "answer.unusable";

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
