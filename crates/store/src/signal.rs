//! A task's inbox: signals from people and other tasks.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use uuid::Uuid;

/// The kind of a signal. Stored as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SignalKind {
    /// An answer to a question.
    Answer,
    /// Cancels the task.
    Cancel,
}

impl SignalKind {
    const ALL: [Self; 2] = [Self::Answer, Self::Cancel];

    /// The stored text.
    pub fn word(self) -> &'static str {
        match self {
            Self::Answer => "answer",
            Self::Cancel => "cancel",
        }
    }
}

impl fmt::Display for SignalKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl FromStr for SignalKind {
    type Err = UnknownSignalKind;

    fn from_str(word: &str) -> Result<Self, UnknownSignalKind> {
        let mut kinds = Self::ALL.into_iter();
        kinds
            .find(|kind| kind.word() == word)
            .ok_or_else(|| UnknownSignalKind(word.to_owned()))
    }
}

/// An unknown signal kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no signal; a task takes `answer` and `cancel`")]
pub struct UnknownSignalKind(String);

impl UnknownSignalKind {
    /// Stable and greppable.
    pub fn code(&self) -> &'static str {
        "signal.unknown_kind"
    }
}

/// A new signal.
#[derive(Debug, Clone, PartialEq)]
pub struct NewSignal {
    /// The receiving task.
    pub task: Uuid,
    /// Its kind.
    pub kind: SignalKind,
    /// Its payload.
    pub payload: Value,
    /// Idempotency key: a second signal with the same key is ignored.
    pub key: String,
}

impl NewSignal {
    /// The cancellation that a store sends to every child of a task that ends.
    pub(crate) fn parent_ended(child: Uuid) -> Self {
        Self {
            task: child,
            kind: SignalKind::Cancel,
            payload: json!({ "reason": "the task that asked for it has ended" }),
            key: "parent-ended".into(),
        }
    }
}

/// A signal that is not consumed yet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Signal {
    /// Its number within the store. A task consumes signals in this order.
    pub id: i64,
    /// The text of a [`SignalKind`], or of a kind of another version.
    pub kind: String,
    /// Its payload.
    pub payload: Value,
    /// When the store accepted it.
    pub at: Timestamp,
}

/// The result of sending a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignalReceipt {
    /// It was added to the inbox.
    Accepted,
    /// A signal with this key exists already.
    Duplicate,
    /// The task has ended.
    Ended,
    /// There is no such task.
    Unknown,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_read_from_its_own_word_and_from_no_other() {
        for kind in SignalKind::ALL {
            assert_eq!(kind.word().parse(), Ok(kind));
        }
        for word in ["cansel", "Cancel", "", "resume"] {
            let error = word.parse::<SignalKind>().unwrap_err();
            assert_eq!(error.code(), "signal.unknown_kind");
            assert!(error.to_string().contains(word), "{error}");
        }
    }

    #[test]
    fn a_kind_is_read_back_from_the_word_that_it_is_printed_as() {
        for kind in [SignalKind::Answer, SignalKind::Cancel] {
            assert_eq!(kind.to_string().parse::<SignalKind>().ok(), Some(kind));
        }
    }
}
