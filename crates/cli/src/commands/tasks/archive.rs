//! An export as a folder: what its files are called, and what stands in `task.json`.

use std::path::Path;

use convoke_model::{BlobHash, Channel, Name, Stage, TaskState};
use convoke_store::{
    Archive, ArchivedConversation, ArchivedSignal, Blob, BlobInfo, Entry, StoredMessage, TaskRecord,
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::archive_checkpoint::agent_at;
use crate::exit::UsageError;
use crate::output;

/// The folder that holds one folder for each task, under its id.
pub(super) const TASKS: &str = "tasks";

/// The folder that holds what tasks were begun with, one folder for each, under its hash.
pub(super) const DEFINITIONS: &str = "definitions";

/// The folder that holds the blobs of all tasks, one file for each, under its hash.
pub(super) const BLOBS: &str = "blobs";

/// The task itself.
pub(super) const TASK_FILE: &str = "task.json";

/// What happened to it, for people. It follows from the rest, so that it is never read.
pub(super) const TRACE_FILE: &str = "trace.json";

/// What a folder is called until it is whole.
pub(super) fn partial_name(name: &str) -> String {
    format!(".{name}{PARTIAL}")
}

/// What a folder is called while another takes its place.
pub(super) fn replaced_name(name: &str) -> String {
    format!(".{name}{REPLACED}")
}

/// The folder that another was taking the place of when the export was cut off.
pub(super) fn name_of_replaced(name: &str) -> Option<&str> {
    name.strip_prefix('.')?.strip_suffix(REPLACED)
}

/// Whether a folder was being written when the export was cut off.
pub(super) fn is_partial(name: &str) -> bool {
    name.starts_with('.') && name.ends_with(PARTIAL)
}

const PARTIAL: &str = ".partial";
const REPLACED: &str = ".replaced";

/// Whether a definition's hash can be the name of a folder, and of no other place.
pub(super) fn is_folder_name(hash: &str) -> bool {
    let fits = |letter: char| letter.is_ascii_alphanumeric() || letter == '-' || letter == '_';
    !hash.is_empty() && hash.chars().all(fits)
}

/// The most characters of a message about an export. What stands in one may be longer.
const MAX_MESSAGE: usize = 1_000;

/// Something in an export that keeps it from being read or written.
pub(super) fn refused(code: &'static str, path: &Path, why: impl std::fmt::Display) -> UsageError {
    let message = visible(&format!("{}: {why}", path.display()));
    UsageError::new(code, output::short(&message, MAX_MESSAGE))
}

/// A text that somebody else wrote, with everything that moves the cursor, turns the direction or cannot be
/// seen written out.
pub(super) fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '"' | '\'' | '\\' => shown.push(letter),
            letter => shown.extend(letter.escape_debug()),
        }
    }
    shown
}

/// `task.json`: a task without its journal. What belongs to the store that it was in, its ordinal and who
/// holds it, stays there.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct TaskFile {
    pub(super) id: Uuid,
    description: String,
    pub(super) status: TaskState,
    /// Told for people; it follows from the journal.
    #[serde(skip_deserializing)]
    assigned_agent: Option<Name>,
    result: Option<String>,
    error: Option<String>,
    pub(super) created_at: Timestamp,
    started_at: Option<Timestamp>,
    pub(super) completed_at: Option<Timestamp>,
    retention_days: Option<u32>,
    parent_task_id: Option<Uuid>,
    pub(super) owner: Uuid,
    pub(super) key: Option<String>,
    /// A hash of what was asked under the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    fingerprint: Option<String>,
    pub(super) conversation: Option<ConversationPart>,
    channel: Channel,
    pub(super) app: String,
    pub(super) definition: String,
    /// Tasks of old stores have no definition; only then is this told.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub(super) definition_kept: bool,
    stage: Option<Stage>,
    pub(super) epoch: u64,
    pub(super) seq: u64,
    ready_at: Option<Timestamp>,
    claims: u32,
    deadline: Timestamp,
    pub(super) tags: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    trace: Option<String>,
    pub(super) signals: Vec<ArchivedSignal>,
    /// The blobs that it names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) blobs: Vec<BlobFile>,
}

/// A blob that a task names.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct BlobFile {
    pub(super) hash: BlobHash,
    pub(super) bytes: u64,
}

impl BlobFile {
    fn of(blob: &Blob) -> Self {
        let BlobInfo { hash, bytes } = blob.info();
        Self { hash, bytes }
    }
}

/// The conversation that a task belongs to.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ConversationPart {
    pub(super) id: Uuid,
    #[serde(flatten)]
    told: ArchivedConversation,
}

fn yes() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands it over so")]
fn is_yes(told: &bool) -> bool {
    *told
}

impl TaskFile {
    pub(super) fn of(archive: &Archive, definition_kept: bool) -> Self {
        let record = archive.record.clone();
        Self {
            id: record.id,
            status: record.status,
            assigned_agent: assigned_agent(archive),
            conversation: conversation_of(archive),
            description: record.description,
            result: record.result,
            error: record.error,
            created_at: record.created_at,
            started_at: record.started_at,
            completed_at: record.completed_at,
            retention_days: record.retention_days,
            parent_task_id: record.parent,
            owner: record.owner,
            key: archive.key.clone(),
            fingerprint: archive.fingerprint.clone(),
            channel: record.channel,
            app: record.app,
            definition: record.definition,
            definition_kept,
            stage: record.stage,
            epoch: record.epoch,
            seq: record.seq,
            ready_at: record.ready_at,
            claims: record.claims,
            deadline: record.deadline,
            tags: record.tags,
            trace: record.trace,
            signals: archive.signals.clone(),
            blobs: archive.blobs.iter().map(BlobFile::of).collect(),
        }
    }

    /// The task with its journal and its blobs.
    pub(super) fn with_journal(
        self,
        entries: Vec<Entry>,
        messages: Vec<StoredMessage>,
        blobs: Vec<Blob>,
    ) -> Archive {
        let (conversation, told) = match self.conversation {
            Some(ConversationPart { id, told }) => (Some(id), Some(told)),
            None => (None, None),
        };
        Archive {
            record: TaskRecord {
                id: self.id,
                ordinal: 0,
                owner: self.owner,
                conversation,
                channel: self.channel,
                app: self.app,
                definition: self.definition,
                description: self.description,
                parent: self.parent_task_id,
                status: self.status,
                stage: self.stage,
                epoch: self.epoch,
                seq: self.seq,
                worker: None,
                ready_at: self.ready_at,
                claims: self.claims,
                created_at: self.created_at,
                started_at: self.started_at,
                completed_at: self.completed_at,
                deadline: self.deadline,
                retention_days: self.retention_days,
                tags: self.tags,
                trace: self.trace,
                result: self.result,
                error: self.error,
            },
            key: self.key,
            fingerprint: self.fingerprint,
            conversation: told,
            entries,
            messages,
            signals: self.signals,
            blobs,
        }
    }
}

/// The agent that worked on the task last, as far as its journal tells.
fn assigned_agent(archive: &Archive) -> Option<Name> {
    let at_the_end = archive.entries.last();
    let at_the_end = at_the_end.and_then(|entry| agent_at(&entry.state.value()));
    let speakers = archive.messages.iter().rev();
    let mut speakers = speakers.filter_map(|said| said.message.agent.clone());
    at_the_end.or_else(|| speakers.next())
}

/// A store keeps every conversation that a task belongs to. Should one be missing all the same, the task
/// itself tells enough of it.
fn conversation_of(archive: &Archive) -> Option<ConversationPart> {
    let record = &archive.record;
    let id = record.conversation?;
    let told = archive.conversation.clone();
    let told = told.unwrap_or_else(|| ArchivedConversation {
        channel: record.channel,
        created_at: record.created_at,
        updated_at: record.completed_at.unwrap_or(record.created_at),
    });
    Some(ConversationPart { id, told })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_names_a_folder_and_no_other_place() {
        assert!(is_folder_name("ac28db2d"));
        for hash in ["", ".", "..", "../x", "/etc", "a/b", "a\\b", "ä"] {
            assert!(!is_folder_name(hash), "{hash:?}");
        }
    }

    #[test]
    fn what_a_cut_off_export_leaves_is_known_by_its_name() {
        assert!(is_partial(&partial_name("a")) && !is_partial("a"));
        assert_eq!(name_of_replaced(&replaced_name("a")), Some("a"));
        assert_eq!(name_of_replaced("a"), None);
    }
}
