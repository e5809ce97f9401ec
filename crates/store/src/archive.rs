//! Archives: complete tasks for transfer between stores.

use convoke_model::Channel;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::blob::Blob;
use crate::journal::{Entry, NewEntry, NewMessage, StoredMessage, text_of};
use crate::state::StateWriter;
use crate::task::TaskRecord;

/// All stored data of one task.
#[derive(Debug, Clone, PartialEq)]
pub struct Archive {
    /// The row. Ordinal and worker are local to the store.
    pub record: TaskRecord,
    /// The idempotency key.
    pub key: Option<String>,
    /// The hash of the request.
    pub fingerprint: Option<String>,
    /// The conversation that it belongs to.
    pub conversation: Option<ArchivedConversation>,
    /// The whole journal.
    pub entries: Vec<Entry>,
    /// All messages, each with the entry that added it.
    pub messages: Vec<StoredMessage>,
    /// All signals in its inbox.
    pub signals: Vec<ArchivedSignal>,
    /// The blobs that it names, in the order of their hashes.
    pub blobs: Vec<Blob>,
}

/// A conversation without its messages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArchivedConversation {
    /// The channel it began on.
    pub channel: Channel,
    /// When the first message was stored.
    pub created_at: Timestamp,
    /// When the last message was stored.
    pub updated_at: Timestamp,
}

/// A signal in a task's inbox.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ArchivedSignal {
    /// The sender's key.
    pub key: String,
    /// Its kind.
    pub kind: String,
    /// Its payload.
    pub payload: Value,
    /// When the store accepted it.
    pub at: Timestamp,
    /// Whether the task has consumed it.
    pub consumed: bool,
}

/// The result of an import.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Imported {
    /// The task was imported.
    Created,
    /// A task with this id, or with this owner's key, exists already and is unchanged.
    Existing,
}

impl Archive {
    /// The entries to write, each with its messages.
    pub(crate) fn steps(&self) -> impl Iterator<Item = (NewEntry, Vec<NewMessage>)> {
        let mut states = StateWriter::default();
        self.entries.iter().map(move |entry| {
            let added = self
                .messages
                .iter()
                .filter(|stored| stored.seq == entry.seq);
            let messages =
                added.map(|stored| NewMessage::new(&stored.message, stored.in_conversation));
            let entry = NewEntry {
                at: entry.at,
                kind: entry.kind.clone().into(),
                event: text_of(&entry.event),
                state: states.write_text(entry.state.as_str().to_owned()),
            };
            (entry, messages.collect())
        })
    }
}
