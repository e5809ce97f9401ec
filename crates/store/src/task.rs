//! Tasks as the store keeps them, and the questions that can be asked about them.

use std::fmt;
use std::num::ParseIntError;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use convoke_model::{Channel, RetentionPolicy, Stage, TaskState};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::blob::Blob;
use crate::definition::Definition;
use crate::error::StoreError;
use crate::journal::{Entry, Fence, NewEntry, NewMessage, StoredMessage};
use crate::signal::Signal;

/// A task on its way in, with the first entry of its journal.
#[derive(Debug, Clone, PartialEq)]
pub struct NewTask {
    /// Minted by the caller.
    pub id: Uuid,
    /// The same key of the same owner in the same app is the same task.
    pub key: Option<String>,
    /// A hash of what is asked under the key. The key with another hash is refused.
    pub fingerprint: Option<String>,
    /// The user whose task it is.
    pub owner: Uuid,
    /// The conversation it belongs to, if any. It is created with its first task.
    pub conversation: Option<Uuid>,
    /// Where the request came in.
    pub channel: Channel,
    /// The app that runs it.
    pub app: String,
    /// That app as it is now. It is kept with the task.
    pub definition: Arc<Definition>,
    /// What is to be done, in a line.
    pub description: String,
    /// The task that started this one, if any.
    pub parent: Option<Uuid>,
    /// When the best partial answer must go out.
    pub deadline: Timestamp,
    /// How long nobody works on it, by the store's clock. It then keeps no other task of its conversation waiting.
    pub not_before: Option<Duration>,
    /// How long to keep it once ended, where it has a wish of its own.
    pub retention_days: Option<u32>,
    /// Words that retention and people find it by.
    pub tags: Vec<String>,
    /// The trace that the request belongs to, as W3C trace context writes it (`traceparent`).
    pub trace: Option<String>,
    /// The finer step that it begins with.
    pub stage: Option<Stage>,
    /// The journal's first entry.
    pub entry: NewEntry,
    /// The messages it starts with.
    pub messages: Vec<NewMessage>,
    /// The blobs that come with them. Those of earlier tasks are there already.
    pub blobs: Vec<Blob>,
    /// The worker that goes to work on it at once, unless it has to wait its turn. Otherwise it
    /// waits for whoever claims it.
    pub hold: Option<Lease>,
}

impl NewTask {
    /// What becomes of a task whose key is taken. A task of an older file has no fingerprint.
    pub(crate) fn existing(
        &self,
        task: Uuid,
        fingerprint: Option<&str>,
    ) -> Result<Submission, StoreError> {
        match (&self.fingerprint, fingerprint) {
            (Some(new), Some(known)) if new != known => Err(StoreError::KeyReused { task }),
            _ => Ok(Submission::Existing(task)),
        }
    }
}

/// Who holds a task, and for how long unless that is renewed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// The worker's id.
    pub worker: Arc<str>,
    /// How long.
    pub time: Duration,
}

/// Whether a submitted task is new.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Submission {
    /// It is now the store's.
    Created {
        /// Its id.
        id: Uuid,
        /// Whether the worker that was named holds it, under the epoch [`FIRST_EPOCH`].
        held: bool,
    },
    /// The owner submitted it before, under the same key.
    Existing(Uuid),
}

/// The epoch of the first claim.
pub const FIRST_EPOCH: u64 = 1;

impl Submission {
    /// The task's id, either way.
    pub fn id(self) -> Uuid {
        match self {
            Self::Created { id, .. } | Self::Existing(id) => id,
        }
    }
}

/// A task's row: all but the journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskRecord {
    /// Its id.
    pub id: Uuid,
    /// The order of submission within the store; pages are cut by it.
    pub ordinal: u64,
    /// The user whose task it is.
    pub owner: Uuid,
    /// The conversation it belongs to.
    pub conversation: Option<Uuid>,
    /// Where the request came in.
    pub channel: Channel,
    /// The app that runs it.
    pub app: String,
    /// The content hash of that app.
    pub definition: String,
    /// What is to be done.
    pub description: String,
    /// The task that started this one.
    pub parent: Option<Uuid>,
    /// Where it stands.
    pub status: TaskState,
    /// The finer step.
    pub stage: Option<Stage>,
    /// How often it was claimed in all.
    pub epoch: u64,
    /// The sequence of its newest entry.
    pub seq: u64,
    /// Who holds it.
    pub worker: Option<String>,
    /// When it can be claimed: a lease's end, a wake-up time, or never.
    pub ready_at: Option<Timestamp>,
    /// Claims since the last progress.
    pub claims: u32,
    /// When it was submitted: the time of its first entry, so that whoever reads it back counts from the
    /// same moment as whoever wrote it.
    pub created_at: Timestamp,
    /// When it was first claimed.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub completed_at: Option<Timestamp>,
    /// When the best partial answer must go out.
    pub deadline: Timestamp,
    /// How long to keep it once ended.
    pub retention_days: Option<u32>,
    /// Words to find it by.
    pub tags: Vec<String>,
    /// The trace that the request belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    /// The text of the answer.
    pub result: Option<String>,
    /// What went wrong.
    pub error: Option<String>,
}

/// The most characters of a text in a [`TaskSummary`].
pub const SUMMARY_CHARACTERS: usize = 200;

/// A task in a list. It holds no payload: texts are cut to [`SUMMARY_CHARACTERS`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskSummary {
    /// As in [`TaskRecord`].
    pub id: Uuid,
    /// As in [`TaskRecord`].
    pub ordinal: u64,
    /// As in [`TaskRecord`].
    pub owner: Uuid,
    /// As in [`TaskRecord`].
    pub conversation: Option<Uuid>,
    /// As in [`TaskRecord`].
    pub channel: Channel,
    /// As in [`TaskRecord`].
    pub app: String,
    /// As in [`TaskRecord`].
    pub definition: String,
    /// The beginning of what is to be done.
    pub description: String,
    /// As in [`TaskRecord`].
    pub parent: Option<Uuid>,
    /// As in [`TaskRecord`].
    pub status: TaskState,
    /// As in [`TaskRecord`].
    pub stage: Option<Stage>,
    /// As in [`TaskRecord`].
    pub worker: Option<String>,
    /// As in [`TaskRecord`].
    pub ready_at: Option<Timestamp>,
    /// As in [`TaskRecord`].
    pub created_at: Timestamp,
    /// As in [`TaskRecord`].
    pub started_at: Option<Timestamp>,
    /// As in [`TaskRecord`].
    pub completed_at: Option<Timestamp>,
    /// As in [`TaskRecord`].
    pub retention_days: Option<u32>,
    /// As in [`TaskRecord`].
    pub tags: Vec<String>,
    /// The beginning of the answer's text.
    pub result: Option<String>,
    /// The beginning of what went wrong.
    pub error: Option<String>,
}

impl From<&TaskRecord> for TaskSummary {
    fn from(record: &TaskRecord) -> Self {
        let cut = |text: &String| text.chars().take(SUMMARY_CHARACTERS).collect();
        Self {
            id: record.id,
            ordinal: record.ordinal,
            owner: record.owner,
            conversation: record.conversation,
            channel: record.channel,
            app: record.app.clone(),
            definition: record.definition.clone(),
            description: cut(&record.description),
            parent: record.parent,
            status: record.status,
            stage: record.stage,
            worker: record.worker.clone(),
            ready_at: record.ready_at,
            created_at: record.created_at,
            started_at: record.started_at,
            completed_at: record.completed_at,
            retention_days: record.retention_days,
            tags: record.tags.clone(),
            result: record.result.as_ref().map(cut),
            error: record.error.as_ref().map(cut),
        }
    }
}

/// Who wants work, how much, and for how long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The worker's id.
    pub worker: String,
    /// The apps it can run.
    pub apps: Vec<String>,
    /// Definitions of these apps that it cannot run.
    pub except: Vec<String>,
    /// How long a claim holds unless renewed.
    pub lease: Duration,
    /// How many tasks at most.
    pub limit: usize,
}

/// What a claim gave.
#[derive(Debug, Clone, PartialEq)]
pub struct Claimed {
    /// The store's time, by which leases and due times are judged.
    pub now: Timestamp,
    /// The tasks that are now the worker's.
    pub tasks: Vec<ClaimedTask>,
}

/// A task that is now the worker's, with all it needs to go on.
#[derive(Debug, Clone, PartialEq)]
pub struct ClaimedTask {
    /// The task as claimed.
    pub record: TaskRecord,
    /// The newest entry.
    pub entry: Entry,
    /// All messages so far.
    pub messages: Vec<StoredMessage>,
    /// Signals not yet taken in.
    pub signals: Vec<Signal>,
}

impl ClaimedTask {
    /// What the worker shows when it writes.
    pub fn fence(&self) -> Fence {
        Fence {
            task: self.record.id,
            epoch: self.record.epoch,
            seq: self.record.seq,
        }
    }
}

/// What became of a lease that was to be prolonged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RenewedLease {
    /// The task.
    pub task: Uuid,
    /// Whether it is still the worker's.
    pub held: bool,
    /// Whether signals wait to be taken in.
    pub signalled: bool,
}

/// A task with its journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoadedTask {
    /// The row.
    pub record: TaskRecord,
    /// Entries from the sequence asked for.
    pub entries: Vec<Entry>,
    /// All messages.
    pub messages: Vec<StoredMessage>,
    /// Signals not yet taken in.
    pub signals: Vec<Signal>,
}

/// Which tasks. Every part that is set must fit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// One of these states; empty for any.
    pub states: Vec<TaskState>,
    /// This owner.
    pub owner: Option<Uuid>,
    /// This conversation.
    pub conversation: Option<Uuid>,
    /// This app.
    pub app: Option<String>,
    /// Children of this task.
    pub parent: Option<Uuid>,
    /// Having this tag.
    pub tag: Option<String>,
}

/// A place in a list of tasks: right after a task. It stays right when tasks come and go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PageCursor(pub(crate) u64);

impl fmt::Display for PageCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for PageCursor {
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<Self, ParseIntError> {
        text.parse().map(Self)
    }
}

/// Which part of a long list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page {
    /// Only tasks after this place.
    pub after: Option<PageCursor>,
    /// How many at most.
    pub limit: usize,
}

impl Default for Page {
    fn default() -> Self {
        Self {
            after: None,
            limit: 50,
        }
    }
}

/// A page of tasks, newest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskPage {
    /// The tasks.
    pub tasks: Vec<TaskSummary>,
    /// Where the next page begins, if there is more.
    pub next: Option<PageCursor>,
}

/// Which ended tasks are removed.
#[derive(Debug, Clone, PartialEq)]
pub struct Sweep {
    /// Tasks of this app alone.
    pub app: String,
    /// How long they are kept.
    pub policy: RetentionPolicy,
    /// Only tells what would be removed.
    pub dry_run: bool,
}

/// What a sweep removed, or would remove.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SweepReport {
    /// The tasks, in no particular order.
    pub tasks: Vec<Uuid>,
}

impl Filter {
    /// Whether a task fits.
    pub fn fits(&self, record: &TaskRecord) -> bool {
        (self.states.is_empty() || self.states.contains(&record.status))
            && self.owner.is_none_or(|owner| record.owner == owner)
            && self
                .conversation
                .is_none_or(|id| record.conversation == Some(id))
            && self.app.as_ref().is_none_or(|app| record.app == *app)
            && self
                .parent
                .is_none_or(|parent| record.parent == Some(parent))
            && self
                .tag
                .as_ref()
                .is_none_or(|tag| record.tags.contains(tag))
    }
}

/// What the record of a task that cannot be read says is wrong with it.
pub(crate) fn unreadable(cause: &str) -> String {
    format!("set aside: the task cannot be read: {cause}")
}

/// The store's time after a while, such as when a lease taken now runs out.
pub(crate) fn later(now: Timestamp, by: Duration) -> Timestamp {
    now.checked_add(by).unwrap_or(Timestamp::MAX)
}

/// What decides how long an ended task is kept.
#[derive(Debug)]
pub(crate) struct EndedTask<'a> {
    pub(crate) at: Timestamp,
    pub(crate) status: TaskState,
    pub(crate) retention_days: Option<u32>,
    pub(crate) tags: &'a [String],
}

impl<'a> EndedTask<'a> {
    /// Nothing of a task that has not ended.
    pub(crate) fn of(record: &'a TaskRecord) -> Option<Self> {
        Some(Self {
            at: record.completed_at?,
            status: record.status,
            retention_days: record.retention_days,
            tags: &record.tags,
        })
    }
}

/// Whether an ended task's time is over.
pub(crate) fn expired(ended: &EndedTask<'_>, policy: &RetentionPolicy, now: Timestamp) -> bool {
    let days = policy.days_for(ended.retention_days, ended.tags, ended.status);
    ended
        .at
        .checked_add(Duration::from_secs(u64::from(days) * 86_400))
        .is_ok_and(|end| end <= now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_back_from_what_it_is_printed_as() {
        let cursor = PageCursor(17);
        assert_eq!(cursor.to_string().parse(), Ok(cursor));
    }
}
