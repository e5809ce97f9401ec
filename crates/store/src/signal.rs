//! A task's inbox: what people and other tasks tell it while it runs or waits.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use uuid::Uuid;

/// What a task can be told. A store keeps it as a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SignalKind {
    /// An answer to a question.
    Answer,
    /// The task is to end.
    Cancel,
}

impl SignalKind {
    const ALL: [Self; 2] = [Self::Answer, Self::Cancel];

    /// The word that a store keeps.
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

/// A word that names no signal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no signal; a task takes `answer` and `cancel`")]
pub struct UnknownSignalKind(String);

impl UnknownSignalKind {
    /// Stable and greppable.
    pub fn code(&self) -> &'static str {
        "signal.unknown_kind"
    }
}

/// A signal on its way in.
#[derive(Debug, Clone, PartialEq)]
pub struct NewSignal {
    /// The task it is for.
    pub task: Uuid,
    /// What it is.
    pub kind: SignalKind,
    /// What it says.
    pub payload: Value,
    /// The sender's key; the same key again is the same signal.
    pub key: String,
}

impl NewSignal {
    /// What a store puts into the inbox of every child of a task that ends.
    pub(crate) fn parent_ended(child: Uuid) -> Self {
        Self {
            task: child,
            kind: SignalKind::Cancel,
            payload: json!({ "reason": "the task that asked for it has ended" }),
            key: "parent-ended".into(),
        }
    }
}

/// A signal that waits to be taken in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Signal {
    /// Its number within the store; signals of a task are taken in by this order.
    pub id: i64,
    /// What it is: the word of a [`SignalKind`], or of a kind that another version wrote.
    pub kind: String,
    /// What it says.
    pub payload: Value,
    /// When the store took it.
    pub at: Timestamp,
}

/// What became of a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignalReceipt {
    /// It is in the inbox.
    Accepted,
    /// It was there already, under the same key.
    Duplicate,
    /// The task has ended and takes no more.
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
