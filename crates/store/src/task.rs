//! Task records, submissions, claims and filters.

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

/// A new task, with the first entry of its journal.
#[derive(Debug, Clone, PartialEq)]
pub struct NewTask {
    /// Created by the caller.
    pub id: Uuid,
    /// Idempotency key: the same key of the same owner in the same app is the same task.
    pub key: Option<String>,
    /// A hash of the request. The same key with another hash is an error.
    pub fingerprint: Option<String>,
    /// The owner.
    pub owner: Uuid,
    /// The conversation it belongs to, if any. It is created with its first task.
    pub conversation: Option<Uuid>,
    /// Refuses it while a task of its conversation runs or is ready to.
    pub refused_if_busy: bool,
    /// The channel of the request.
    pub channel: Channel,
    /// The app that runs it.
    pub app: String,
    /// The app's current definition, stored with the task.
    pub definition: Arc<Definition>,
    /// A summary of the request, in one line.
    pub description: String,
    /// The parent task, if any.
    pub parent: Option<Uuid>,
    /// The deadline, at which the best partial answer is sent.
    pub deadline: Timestamp,
    /// Delay of its start, by the store's clock. Meanwhile it does not block other tasks of its conversation.
    pub not_before: Option<Duration>,
    /// Days to store it after its end, if it overrides the policy.
    pub retention_days: Option<u32>,
    /// Tags for the retention policy and for filters.
    pub tags: Vec<String>,
    /// The trace of the request, as a W3C `traceparent`.
    pub trace: Option<String>,
    /// Its first stage.
    pub stage: Option<Stage>,
    /// The journal's first entry.
    pub entry: NewEntry,
    /// The messages it starts with.
    pub messages: Vec<NewMessage>,
    /// New blobs of these messages. Those of earlier tasks are stored already.
    pub blobs: Vec<Blob>,
    /// The worker that gets the lease, unless the task has to wait for others of its conversation. `None`: it waits for
    /// a claim.
    pub hold: Option<Lease>,
}

impl NewTask {
    /// The result for a task whose key exists. A task of an older file has no fingerprint.
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

/// The owner of a task, and the duration of its lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// The worker's id.
    pub worker: Arc<str>,
    /// The duration.
    pub time: Duration,
}

/// Whether a submitted task is new.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Submission {
    /// It was stored.
    Created {
        /// Its id.
        id: Uuid,
        /// Whether the named worker holds the lease, with the epoch [`FIRST_EPOCH`].
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
    /// The order of submission within the store, and the order of pages.
    pub ordinal: u64,
    /// The owner.
    pub owner: Uuid,
    /// The conversation it belongs to.
    pub conversation: Option<Uuid>,
    /// The channel of the request.
    pub channel: Channel,
    /// The app that runs it.
    pub app: String,
    /// The content hash of that app.
    pub definition: String,
    /// A summary of the request.
    pub description: String,
    /// The parent task.
    pub parent: Option<Uuid>,
    /// Its public state.
    pub status: TaskState,
    /// Its stage.
    pub stage: Option<Stage>,
    /// The number of claims.
    pub epoch: u64,
    /// The sequence of its newest entry.
    pub seq: u64,
    /// The worker that holds the lease.
    pub worker: Option<String>,
    /// When it can be claimed: a lease's end, a wake-up time, or never.
    pub ready_at: Option<Timestamp>,
    /// Claims since the last progress.
    pub claims: u32,
    /// When it was submitted: the time of its first entry.
    pub created_at: Timestamp,
    /// When it was first claimed.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub completed_at: Option<Timestamp>,
    /// The deadline, at which the best partial answer is sent.
    pub deadline: Timestamp,
    /// Days to store it after its end.
    pub retention_days: Option<u32>,
    /// Its tags.
    pub tags: Vec<String>,
    /// The trace of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    /// The text of the answer.
    pub result: Option<String>,
    /// What went wrong.
    pub error: Option<String>,
}

/// Limit of a text in a [`TaskSummary`], in characters.
pub const SUMMARY_CHARACTERS: usize = 200;

/// A task in a list, without payload: texts are cut to [`SUMMARY_CHARACTERS`].
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
    /// The start of the request's summary.
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
    /// The start of the answer.
    pub result: Option<String>,
    /// The start of the error.
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

/// A request for ready tasks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The worker's id.
    pub worker: String,
    /// The apps it can run.
    pub apps: Vec<String>,
    /// Definitions of these apps that it cannot run.
    pub except: Vec<String>,
    /// Duration of the leases.
    pub lease: Duration,
    /// Limit of tasks.
    pub limit: usize,
}

/// The result of a claim.
#[derive(Debug, Clone, PartialEq)]
pub struct Claimed {
    /// The store's time, by which leases and due times are judged.
    pub now: Timestamp,
    /// The claimed tasks.
    pub tasks: Vec<ClaimedTask>,
    /// When the next task of these apps becomes ready without a signal: one whose timer is due then, or whose lease
    /// expires. Absent if no task waits for its time.
    pub next_ready_in: Option<Duration>,
}

/// A claimed task, with all data to continue it.
#[derive(Debug, Clone, PartialEq)]
pub struct ClaimedTask {
    /// The task as claimed.
    pub record: TaskRecord,
    /// The newest entry.
    pub entry: Entry,
    /// All messages so far.
    pub messages: Vec<StoredMessage>,
    /// Pending signals.
    pub signals: Vec<Signal>,
}

impl ClaimedTask {
    /// The fence for appends under this claim.
    pub fn fence(&self) -> Fence {
        Fence {
            task: self.record.id,
            epoch: self.record.epoch,
            seq: self.record.seq,
        }
    }
}

/// The result of renewing a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RenewedLease {
    /// The task.
    pub task: Uuid,
    /// Whether the worker still holds it.
    pub held: bool,
    /// Whether signals are pending.
    pub signalled: bool,
}

/// A task with its journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoadedTask {
    /// The row.
    pub record: TaskRecord,
    /// Entries from the requested sequence on.
    pub entries: Vec<Entry>,
    /// All messages.
    pub messages: Vec<StoredMessage>,
    /// Pending signals.
    pub signals: Vec<Signal>,
}

/// A filter of tasks. Every set part must match.
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

/// Removes ended tasks whose retention is over.
#[derive(Debug, Clone, PartialEq)]
pub struct Sweep {
    /// The app.
    pub app: String,
    /// The retention policy.
    pub policy: RetentionPolicy,
    /// Only report what would be removed.
    pub dry_run: bool,
}

/// What a sweep removed, or would remove.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SweepReport {
    /// The tasks, in no particular order.
    pub tasks: Vec<Uuid>,
}

impl Filter {
    /// Whether a task matches.
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

/// The error of a task that was set aside because it cannot be read.
pub(crate) fn unreadable(cause: &str) -> String {
    format!("set aside: the task cannot be read: {cause}")
}

/// `now` plus a duration, such as the end of a new lease.
pub(crate) fn later(now: Timestamp, by: Duration) -> Timestamp {
    now.checked_add(by).unwrap_or(Timestamp::MAX)
}

/// The data that retention depends on.
#[derive(Debug)]
pub(crate) struct EndedTask<'a> {
    pub(crate) at: Timestamp,
    pub(crate) status: TaskState,
    pub(crate) retention_days: Option<u32>,
    pub(crate) tags: &'a [String],
}

impl<'a> EndedTask<'a> {
    /// `None` for a task that has not ended.
    pub(crate) fn of(record: &'a TaskRecord) -> Option<Self> {
        Some(Self {
            at: record.completed_at?,
            status: record.status,
            retention_days: record.retention_days,
            tags: &record.tags,
        })
    }
}

/// Whether an ended task's retention is over.
pub(crate) fn expired(ended: &EndedTask<'_>, policy: &RetentionPolicy, now: Timestamp) -> bool {
    let days = policy.days_for(ended.retention_days, ended.tags, ended.status);
    ended
        .at
        .checked_add(Duration::from_secs(u64::from(days) * 86_400))
        .is_ok_and(|end| end <= now)
}
