//! Entries, messages, and the batch that adds them under a fence.

use convoke_model::{Message, Stage, TaskState};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

/// What a worker must show to write: the claim's epoch and the sequence it last saw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fence {
    /// The task.
    pub task: Uuid,
    /// The epoch under which it was claimed.
    pub epoch: u64,
    /// The sequence of the newest entry that the worker knows.
    pub seq: u64,
}

/// One step of a task: what happened, and the state it led to without the messages, which are rows
/// of their own. So any point can be read without replaying the ones before it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Numbered from 1 without gaps.
    pub seq: u64,
    /// When it happened, by the engine's clock.
    pub at: Timestamp,
    /// What happened, in a word, for people and queries.
    pub kind: String,
    /// What happened, in full.
    pub event: Value,
    /// The state after it.
    pub state: Value,
}

/// An entry on its way in; the store numbers it.
#[derive(Debug, Clone, PartialEq)]
pub struct NewEntry {
    /// When it happened.
    pub at: Timestamp,
    /// What happened, in a word.
    pub kind: &'static str,
    /// What happened, in full, as JSON text: it is written as it comes and never looked into.
    pub event: String,
    /// The state after it, as JSON text.
    pub state: String,
}

/// A message on its way in. It is written once, whatever becomes of the task.
#[derive(Debug, Clone, PartialEq)]
pub struct NewMessage {
    /// The message.
    pub message: Message,
    /// Whether it was said to or by the user, and so belongs to the conversation.
    pub spoken: bool,
}

/// A message of a task, with the entry that added it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoredMessage {
    /// The sequence of the entry that added it.
    pub seq: u64,
    /// Whether it belongs to the conversation.
    pub spoken: bool,
    /// The message.
    pub message: Message,
}

/// What becomes of the lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    /// The worker goes on with the task.
    Keep,
    /// The task is put down until a signal comes or the time is reached.
    Release {
        /// When it is ready again by itself, if ever.
        wake_at: Option<Timestamp>,
    },
}

/// All that one append changes.
#[derive(Debug, Clone, PartialEq)]
pub struct Batch {
    /// The steps, at least one.
    pub entries: Vec<NewEntry>,
    /// The messages that the last of them added.
    pub messages: Vec<NewMessage>,
    /// Where the task stands now. A final state gives up the lease whatever `hold` says.
    pub status: TaskState,
    /// The finer step, if any.
    pub stage: Option<Stage>,
    /// Whether the worker keeps the task.
    pub hold: Hold,
    /// Signals that the steps have taken in.
    pub consumed: Vec<i64>,
    /// The text of the answer, once there is one.
    pub result: Option<String>,
    /// What went wrong, for an operator.
    pub error: Option<String>,
    /// Whether this is progress. A task that is claimed again and again without any is poisoned.
    pub progress: bool,
}
