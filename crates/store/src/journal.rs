//! Entries, messages, and the batch that adds them under a fence.

use std::borrow::Cow;
use std::cell::RefCell;
use std::time::Duration;

use convoke_model::{BlobHash, Message, Part, Stage, TaskState};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use crate::state::StateText;

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
    pub state: StateText,
}

/// What happened in one step, without the state after it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JournalEvent {
    /// As in [`Entry`].
    pub seq: u64,
    /// As in [`Entry`].
    pub at: Timestamp,
    /// As in [`Entry`].
    pub kind: String,
    /// As in [`Entry`].
    pub event: Value,
}

/// An entry on its way in; the store numbers it.
#[derive(Debug, Clone, PartialEq)]
pub struct NewEntry {
    /// When it happened.
    pub at: Timestamp,
    /// What happened, in a word.
    pub kind: Cow<'static, str>,
    /// What happened, in full, as JSON text: it is written as it comes and never looked into.
    pub event: String,
    /// The state after it, as JSON text, or as a [`StateWriter`](crate::StateWriter) writes it.
    pub state: String,
}

/// A message on its way in. It is written once, with the entry that adds it, whatever becomes of the
/// task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewMessage {
    /// The message, as JSON text.
    pub message: String,
    /// Whether it was said to or by the user, and so belongs to the conversation.
    pub spoken: bool,
    /// The blobs that it carries.
    pub blobs: Vec<BlobHash>,
}

impl NewMessage {
    /// A message that was said to or by the user.
    pub fn spoken(message: &Message) -> Self {
        Self::new(message, true)
    }

    /// A message that the user never sees.
    pub fn unspoken(message: &Message) -> Self {
        Self::new(message, false)
    }

    /// A message, spoken or not.
    pub fn new(message: &Message, spoken: bool) -> Self {
        Self {
            message: text_of(message),
            spoken,
            blobs: message.parts.iter().filter_map(Part::blob).collect(),
        }
    }
}

thread_local! {
    /// Where texts are written before they get exactly the room that they need.
    static DRAFT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A plain value as JSON text. Writing our own types cannot fail; should it ever, the journal says so
/// instead of lying.
pub fn text_of(value: &impl Serialize) -> String {
    DRAFT.with_borrow_mut(|draft| {
        draft.clear();
        match serde_json::to_writer(&mut *draft, value) {
            Ok(()) => String::from_utf8(draft.clone()).unwrap_or_default(),
            Err(error) => serde_json::json!({ "unwritable": error.to_string() }).to_string(),
        }
    })
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
pub enum LeaseAction {
    /// The worker goes on with the task.
    Keep,
    /// The worker gives the task up. It is ready again when a signal comes or the time has passed.
    Release {
        /// How long until it is ready by itself, by the store's clock. `None`: only a signal makes it ready.
        wake_in: Option<Duration>,
    },
}

/// All that one append changes.
#[derive(Debug, Clone, PartialEq)]
pub struct Batch {
    /// The steps, at least one.
    pub entries: Vec<NewEntry>,
    /// The messages that the last of them added.
    pub messages: Vec<NewMessage>,
    /// Signals that the steps have taken in.
    pub consumed: Vec<i64>,
    /// Where the task stands now, if that is not where it stood before. Most steps of a task change
    /// its journal only, and cost the less for it.
    pub standing: Option<StatusUpdate>,
    /// Values of more bytes in the entries and messages are kept beside the journal, each once.
    pub inline_bytes: usize,
}

/// Where a task stands, as its row tells without its journal.
#[derive(Debug, Clone, PartialEq)]
pub struct StatusUpdate {
    /// The public state. A final one gives up the lease whatever `hold` says.
    pub status: TaskState,
    /// The finer step, if any.
    pub stage: Option<Stage>,
    /// Whether the worker keeps the task.
    pub hold: LeaseAction,
    /// The text of the answer, once there is one.
    pub result: Option<String>,
    /// What went wrong, for an operator.
    pub error: Option<String>,
    /// Whether there was progress. A task that is claimed again and again without any is poisoned.
    pub progress: bool,
}

impl StatusUpdate {
    /// Whether the worker lets go of the task.
    pub fn rests(&self) -> bool {
        self.status.is_final() || self.hold != LeaseAction::Keep
    }
}
