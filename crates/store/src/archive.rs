//! A task with all that is its own, on its way from one store to another.

use convoke_model::Channel;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::blob::Blob;
use crate::journal::{Entry, NewEntry, NewMessage, StoredMessage, text_of};
use crate::state::StateWriter;
use crate::task::TaskRecord;

/// Everything that a store keeps of one task.
#[derive(Debug, Clone, PartialEq)]
pub struct Archive {
    /// The row. Its ordinal is the store's own, and so is who holds it.
    pub record: TaskRecord,
    /// The owner's key for it.
    pub key: Option<String>,
    /// The hash of what was asked under it.
    pub fingerprint: Option<String>,
    /// The conversation that it belongs to.
    pub conversation: Option<ArchivedConversation>,
    /// The whole journal.
    pub entries: Vec<Entry>,
    /// All messages, each with the entry that added it.
    pub messages: Vec<StoredMessage>,
    /// All that came into its inbox.
    pub signals: Vec<ArchivedSignal>,
    /// The blobs that it names, by their hashes.
    pub blobs: Vec<Blob>,
}

/// A conversation without what was said in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArchivedConversation {
    /// The channel it began on.
    pub channel: Channel,
    /// When the first message came.
    pub created_at: Timestamp,
    /// When the last one came or went.
    pub updated_at: Timestamp,
}

/// Something that came into a task's inbox.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ArchivedSignal {
    /// The sender's key.
    pub key: String,
    /// What it is.
    pub kind: String,
    /// What it says.
    pub payload: Value,
    /// When the store took it.
    pub at: Timestamp,
    /// Whether the task has taken it in.
    pub consumed: bool,
}

/// What became of a task that was to be brought in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Imported {
    /// It is here now.
    Created,
    /// A task with its id, or with its owner's key, was here already and is left as it was.
    Existing,
}

impl Archive {
    /// The entries as they are written, each with the messages that it added.
    pub(crate) fn steps(&self) -> impl Iterator<Item = (NewEntry, Vec<NewMessage>)> {
        let mut states = StateWriter::default();
        self.entries.iter().map(move |entry| {
            let added = self.messages.iter().filter(|said| said.seq == entry.seq);
            let messages = added.map(|said| NewMessage::new(&said.message, said.spoken));
            let entry = NewEntry {
                at: entry.at,
                kind: entry.kind.clone().into(),
                event: text_of(&entry.event),
                state: states.write(entry.state.as_str().to_owned()),
            };
            (entry, messages.collect())
        })
    }
}
