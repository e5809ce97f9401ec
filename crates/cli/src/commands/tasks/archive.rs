//! An export as a folder: what its files are called, and what stands in `task.json`.

use std::path::Path;

use convoke_flow::assigned_agent;
use convoke_model::{
    Answer, BlobHash, Channel, Decision, Invalid, Message, Stage, Task, TaskFields, TaskState,
    TaskStatus, UserId,
};
use convoke_store::{
    Archive, ArchivedConversation, ArchivedSignal, Blob, BlobInfo, Entry, StoredMessage, TaskRecord,
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

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

/// `task.json` as it is written: the task, and beside it what only a store has of it. What belongs to the store that
/// it was in, its ordinal and who holds it, stays there.
#[derive(Serialize)]
pub(super) struct WrittenTask<'a> {
    #[serde(flatten)]
    task: Task,
    key: &'a Option<String>,
    /// A hash of what was asked under the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    fingerprint: &'a Option<String>,
    conversation: Option<ConversationPart>,
    channel: Channel,
    app: &'a str,
    definition: &'a str,
    /// Tasks of old stores have no definition; only then is this told.
    #[serde(skip_serializing_if = "is_yes")]
    definition_kept: bool,
    epoch: u64,
    seq: u64,
    ready_at: Option<Timestamp>,
    claims: u32,
    deadline: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace: &'a Option<String>,
    signals: &'a [ArchivedSignal],
    /// The blobs that it names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    blobs: Vec<BlobFile>,
}

/// `task.json` as it is read. What follows from the journal, such as the history, is not read again.
#[derive(Debug, Deserialize)]
pub(super) struct TaskFile {
    pub(super) id: Uuid,
    description: String,
    /// A bare state in exports of older versions.
    pub(super) status: TaskStatus,
    result: Option<String>,
    error: Option<String>,
    pub(super) created_at: Timestamp,
    started_at: Option<Timestamp>,
    completed_at: Option<Timestamp>,
    retention_days: Option<u32>,
    parent_task_id: Option<Uuid>,
    pub(super) owner: Uuid,
    pub(super) key: Option<String>,
    fingerprint: Option<String>,
    pub(super) conversation: Option<ConversationPart>,
    channel: Channel,
    pub(super) app: String,
    pub(super) definition: String,
    #[serde(default = "yes")]
    pub(super) definition_kept: bool,
    /// Written here by older versions.
    stage: Option<Stage>,
    pub(super) epoch: u64,
    pub(super) seq: u64,
    ready_at: Option<Timestamp>,
    claims: u32,
    deadline: Timestamp,
    #[serde(default)]
    pub(super) tags: Vec<String>,
    trace: Option<String>,
    pub(super) signals: Vec<ArchivedSignal>,
    #[serde(default)]
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

impl<'a> WrittenTask<'a> {
    pub(super) fn of(archive: &'a Archive, definition_kept: bool) -> Result<Self, Invalid> {
        let record = &archive.record;
        Ok(Self {
            task: task_of(archive)?,
            key: &archive.key,
            fingerprint: &archive.fingerprint,
            conversation: conversation_of(archive),
            channel: record.channel,
            app: &record.app,
            definition: &record.definition,
            definition_kept,
            epoch: record.epoch,
            seq: record.seq,
            ready_at: record.ready_at,
            claims: record.claims,
            deadline: record.deadline,
            trace: &record.trace,
            signals: &archive.signals,
            blobs: archive.blobs.iter().map(BlobFile::of).collect(),
        })
    }
}

impl TaskFile {
    /// Whether the task breaks a rule of the model, and which.
    pub(super) fn check(&self) -> Result<(), Invalid> {
        let mut status = self.status.clone();
        status.stage = self.stage();
        let ended_well = status.state == TaskState::Completed;
        let fields = TaskFields {
            id: self.id,
            session_id: self.conversation.as_ref().map(|part| part.id),
            owner: Some(UserId(self.owner)),
            description: self.description.clone(),
            status,
            assigned_agent: None,
            parent_task_id: self.parent_task_id,
            history: Vec::new(),
            decision: None,
            answer: None,
            // Older versions wrote the text for the user here, also if the task failed.
            result: self.result.clone().filter(|_| ended_well),
            error: self.error.clone(),
            tags: self.tags.clone(),
            retention_days: self.retention_days,
            created_at: self.created_at,
            started_at: self.started_at,
            completed_at: self.completed_at,
        };
        Task::new(fields).map(drop)
    }

    fn stage(&self) -> Option<Stage> {
        self.status.stage.or(self.stage)
    }

    /// The text for the user: the result, or what the user was told instead of one.
    fn told(&self) -> Option<String> {
        let instead = self.status.message.as_ref();
        let instead = instead.filter(|_| self.status.state.is_final());
        let instead = instead.map(|message| message.content.clone());
        self.result.clone().or(instead)
    }

    /// The task with its journal and its blobs.
    pub(super) fn with_journal(
        self,
        entries: Vec<Entry>,
        messages: Vec<StoredMessage>,
        blobs: Vec<Blob>,
    ) -> Archive {
        let (stage, result) = (self.stage(), self.told());
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
                status: self.status.state,
                stage,
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
                result,
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

/// The task as the model has it.
fn task_of(archive: &Archive) -> Result<Task, Invalid> {
    let record = &archive.record;
    let last = archive.entries.last();
    let state = last.map(|entry| entry.state.value()).unwrap_or_default();
    let (created_at, completed_at) = (record.created_at, record.completed_at);
    // The clocks of two machines may disagree by more than a task takes.
    let completed_at = completed_at.map(|at| at.max(created_at));
    let started_at = record.started_at.map(|at| {
        let earliest = at.max(created_at);
        completed_at.map_or(earliest, |completed| earliest.min(completed))
    });
    Task::new(TaskFields {
        id: record.id,
        session_id: record.conversation,
        owner: Some(UserId(record.owner)),
        description: record.description.clone(),
        status: status_of(archive, &state),
        assigned_agent: assigned_agent(
            &state,
            archive.messages.iter().map(|stored| &stored.message),
        ),
        parent_task_id: record.parent,
        history: archive
            .messages
            .iter()
            .map(|stored| stored.message.clone())
            .collect(),
        decision: Decision::deserialize(&state["program"]["decision"]).ok(),
        answer: Answer::deserialize(&state["answer"]).ok(),
        result: record
            .result
            .clone()
            .filter(|_| record.status == TaskState::Completed),
        error: record.error.clone(),
        tags: record.tags.clone(),
        retention_days: record.retention_days,
        created_at,
        started_at,
        completed_at,
    })
}

/// The status of the task, with what its user reads: the text of the answer, or the open question.
fn status_of(archive: &Archive, state: &Value) -> TaskStatus {
    let record = &archive.record;
    let said_so = |entry: &&Entry| {
        let status = TaskState::deserialize(&entry.state.value()["status"]);
        status.is_ok_and(|status| status == record.status)
    };
    let since = archive.entries.iter().rev().take_while(said_so).last();
    let since = since.map(|entry| entry.at);
    let question = state["questions"][0]["prompt"].as_str();
    let text = record.result.as_deref().or(question);
    let at = since.unwrap_or(record.created_at);
    TaskStatus {
        state: record.status,
        stage: record.stage,
        message: text.and_then(|text| Message::assistant(text, at).ok()),
        timestamp: since,
    }
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
