//! Entries, messages, and the batch that adds them under a fence.

use std::borrow::Cow;
use std::cell::RefCell;
use std::time::Duration;

use convoke_model::{BlobHash, Message, Part, Stage, TaskState};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use crate::blob::INLINE_BYTES;
use crate::json_text;
use crate::state::StateText;

/// The precondition of an append: the claim's epoch and the last sequence that the worker knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fence {
    /// The task.
    pub task: Uuid,
    /// The epoch under which it was claimed.
    pub epoch: u64,
    /// The sequence of the newest entry that the worker knows.
    pub seq: u64,
}

/// One step of a task: the event, and the state after it without the messages. Any point can be read without replaying
/// the ones before it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Numbered from 1 without gaps.
    pub seq: u64,
    /// The time of the event, by the engine's clock.
    pub at: Timestamp,
    /// The name of the event, for people and queries.
    pub kind: String,
    /// The event.
    pub event: Value,
    /// The state after it.
    pub state: StateText,
}

/// An entry without the state.
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

/// A new entry. The store numbers it.
#[derive(Debug, Clone, PartialEq)]
pub struct NewEntry {
    /// The time of the event.
    pub at: Timestamp,
    /// The name of the event.
    pub kind: Cow<'static, str>,
    /// The event as JSON text, which the store does not parse.
    pub event: String,
    /// The state after it, as JSON text, or as a [`StateWriter`](crate::StateWriter) writes it.
    pub state: String,
}

/// A new message, written once with the entry that adds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewMessage {
    /// The message, as JSON text.
    pub message: String,
    /// Whether it is to or from the user, and so part of the conversation.
    pub in_conversation: bool,
    /// The blobs that it carries.
    pub blobs: Vec<BlobHash>,
}

impl NewMessage {
    /// A message to or from the user.
    pub fn in_conversation(message: &Message) -> Self {
        Self::new(message, true)
    }

    /// A message that is not part of the conversation.
    pub fn internal(message: &Message) -> Self {
        Self::new(message, false)
    }

    /// A message that is part of the conversation or not.
    pub fn new(message: &Message, in_conversation: bool) -> Self {
        Self {
            message: text_of(message),
            in_conversation,
            blobs: message.parts.iter().filter_map(Part::blob).collect(),
        }
    }
}

thread_local! {
    /// Reused buffer for serialization, so that results are allocated at their exact size.
    static DRAFT: RefCell<String> = const { RefCell::new(String::new()) };
}

/// A value as JSON text. Serializing our own types cannot fail; if it does, the text contains the error.
pub fn text_of(value: &impl Serialize) -> String {
    write_text(value).unwrap_or_else(|error| unwritable(&error))
}

/// A value as JSON text, of exactly the size that it needs.
pub(crate) fn write_text(value: &impl Serialize) -> serde_json::Result<String> {
    DRAFT.with_borrow_mut(|draft| {
        draft.clear();
        json_text::write(draft, value)?;
        Ok(draft.as_str().to_owned())
    })
}

/// Replaces a value that cannot be serialised, in the journal.
pub(crate) fn unwritable(error: &serde_json::Error) -> String {
    serde_json::json!({ "unwritable": error.to_string() }).to_string()
}

/// A message of a task, with the entry that added it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoredMessage {
    /// The sequence of the entry that added it.
    pub seq: u64,
    /// Whether it belongs to the conversation.
    #[serde(rename = "spoken")]
    pub in_conversation: bool,
    /// The message.
    pub message: Message,
}

/// What happens to the lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseAction {
    /// The worker continues.
    Keep,
    /// The worker releases the task. It is ready again after a signal or after the delay.
    Release {
        /// Delay until it is ready, by the store's clock. `None`: only a signal makes it ready.
        wake_in: Option<Duration>,
    },
}

/// The changes of one append.
#[derive(Debug, Clone, PartialEq)]
pub struct Batch {
    /// The entries, at least one.
    pub entries: Vec<NewEntry>,
    /// The messages that the last of them added.
    pub messages: Vec<NewMessage>,
    /// Signals that the entries consumed.
    pub consumed: Vec<i64>,
    /// The new status, if it changed. Most appends change only the journal and leave the task's row alone.
    pub standing: Option<StatusUpdate>,
    /// Larger values, in bytes, are stored as blobs beside the journal.
    pub inline_bytes: usize,
}

impl Batch {
    /// Entries with the messages that the last of them added, and nothing else.
    pub(crate) fn of(entries: Vec<NewEntry>, messages: Vec<NewMessage>) -> Self {
        Self {
            entries,
            messages,
            consumed: Vec::new(),
            standing: None,
            inline_bytes: INLINE_BYTES,
        }
    }
}

/// The status in a task's row.
#[derive(Debug, Clone, PartialEq)]
pub struct StatusUpdate {
    /// The public state. A final one releases the lease, whatever `hold` says.
    pub status: TaskState,
    /// The stage, if any.
    pub stage: Option<Stage>,
    /// What happens to the lease.
    pub hold: LeaseAction,
    /// The text of the answer, once there is one.
    pub result: Option<String>,
    /// What went wrong, for an operator.
    pub error: Option<String>,
    /// Whether there was progress. A task that is claimed repeatedly without progress is set aside.
    pub progress: bool,
}

impl StatusUpdate {
    /// Whether the lease is released.
    pub fn rests(&self) -> bool {
        self.status.is_final() || self.hold != LeaseAction::Keep
    }
}
