//! A task's inbox: what people and other tasks tell it while it runs or waits.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use uuid::Uuid;

/// A signal on its way in.
#[derive(Debug, Clone, PartialEq)]
pub struct NewSignal {
    /// The task it is for.
    pub task: Uuid,
    /// What it is: `answer`, `cancel` and the like.
    pub kind: String,
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
            kind: "cancel".into(),
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
    /// What it is.
    pub kind: String,
    /// What it says.
    pub payload: Value,
    /// When the store took it.
    pub at: Timestamp,
}

/// What became of a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signalled {
    /// It is in the inbox.
    Accepted,
    /// It was there already, under the same key.
    Duplicate,
    /// The task has ended and takes no more.
    Ended,
    /// There is no such task.
    Unknown,
}
