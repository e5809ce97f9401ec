//! The journal's port and its backends.
//!
//! A task is a row that says who owns it and where it stands, and an append-only list of entries,
//! each with the messages that it added. The port's promises:
//!
//! - **Complete, fail and pause are all an append with a status.** There is no second way to change
//!   a task, so there is no second way to get it wrong.
//! - **Every append carries a fence**: the epoch under which the worker claimed the task and the
//!   sequence it last saw. A worker that lost its lease cannot write.
//! - **Calls about one task take effect in the order in which they are made.** The future of a call only says when its
//!   change is durable: dropping the future cancels nothing.
//! - **Errors stick to the hold.** An append is refused while one before it, under the same epoch, was not taken. So a
//!   worker may send several appends ahead, and none of them is written over a gap.
//! - **Time is relative.** Callers give durations. Leases and due times are judged by the store's clock alone; a claim
//!   carries its time, and [`Store::now`] asks for it.
//! - **A blob is there before what refers to it, and as long.** It is named by its content, kept once, read through a
//!   task that names it, and removed with the last one. A message that carries a blob names it for its task, if a task
//!   of the same owner and app names it already.
//! - **Every read says who looks.** What a [`Viewer`] cannot see is missing, like what does not exist.
//! - **Notifications are hints, polling is the truth.** Whoever waits for a change asks the store
//!   again; a hint only says that now is a good moment.
//!
//! Errors are split by what the caller does next, see [`StoreError`]. A missing or invisible task is `None`.
//!
//! To add a backend, implement [`Store`] and run `tests/contract` against it.

mod archive;
mod blob;
mod conversation;
mod definition;
mod delta;
mod error;
mod journal;
mod memory;
mod signal;
pub mod sqlite;
mod state;
mod task;
mod viewer;
mod watch;

use std::ops::{Range, RangeInclusive};
use std::sync::Arc;
use std::time::Duration;

use convoke_model::BlobHash;
use futures::future::BoxFuture;
use jiff::Timestamp;
use uuid::Uuid;

pub use archive::{Archive, ArchivedConversation, ArchivedSignal, Imported};
pub use blob::{BLOB_BYTES, Blob, BlobInfo, BlobRange, INLINE_BYTES};
pub use conversation::ConversationRecord;
pub use definition::Definition;
pub use error::StoreError;
pub use journal::{
    Batch, Entry, Fence, JournalEvent, LeaseAction, NewEntry, NewMessage, StatusUpdate,
    StoredMessage, text_of,
};
pub use memory::{MemoryLimits, MemoryStore};
pub use signal::{NewSignal, Signal, SignalKind, SignalReceipt, UnknownSignalKind};
pub use sqlite::SqliteStore;
pub use state::{StateText, StateWriter};
pub use task::{
    Claim, Claimed, ClaimedTask, FIRST_EPOCH, Filter, Lease, LoadedTask, NewTask, Page, PageCursor,
    RenewedLease, SUMMARY_CHARACTERS, Submission, Sweep, SweepReport, TaskPage, TaskRecord,
    TaskSummary,
};
pub use viewer::Viewer;
pub use watch::{Hint, Scope};

/// What a store call gives back, once it is durable.
pub type StoreFuture<T> = BoxFuture<'static, Result<T, StoreError>>;

/// A durable place for tasks, their journals and their conversations. See the crate's documentation for what every
/// implementation promises.
pub trait Store: Send + Sync + 'static {
    /// The store's time.
    fn now(&self) -> StoreFuture<Timestamp>;

    /// Accepts a task, or finds the one that the same owner submitted to the same app under the same key. The worker
    /// that the task names holds it from the start, unless it has to wait its turn in its conversation. A conversation
    /// of another owner or another app is refused as one that does not exist.
    /// A trusted definition replaces an untrusted one with the same hash.
    fn submit(&self, task: NewTask) -> StoreFuture<Submission>;

    /// Takes ownership of tasks that are ready, and raises their epochs in the same step. At most one task of a
    /// conversation is held at a time: the one that was at work goes on first, then the earliest that is ready. A task
    /// that waits for a person or a timer keeps no other one waiting, and takes its turn once it is ready.
    fn claim(&self, claim: Claim) -> StoreFuture<Claimed>;

    /// Adds entries and messages to a task's journal and sets where it stands, all or nothing.
    /// Gives the new sequence.
    fn append(&self, fence: Fence, batch: Arc<Batch>) -> StoreFuture<u64>;

    /// Prolongs leases, and says of each whether it is still held and whether signals wait. A lease that ran out is
    /// prolonged too, unless somebody else has claimed the task since.
    fn renew(&self, fences: Vec<Fence>, lease: Duration) -> StoreFuture<Vec<RenewedLease>>;

    /// Puts an answer, a cancellation or the like into a task's inbox. Needs no lease. A task that the viewer cannot see
    /// is unknown.
    fn signal(&self, viewer: &Viewer, signal: NewSignal) -> StoreFuture<SignalReceipt>;

    /// A task's row.
    fn task(&self, viewer: &Viewer, task: Uuid) -> StoreFuture<Option<TaskRecord>>;

    /// A task's row and its newest entry, read at one moment.
    fn newest(&self, viewer: &Viewer, task: Uuid) -> StoreFuture<Option<(TaskRecord, Entry)>>;

    /// A task with its entries from sequence `from` on, all its messages and its waiting signals, read at one moment.
    fn load(&self, viewer: &Viewer, task: Uuid, from: u64) -> StoreFuture<Option<LoadedTask>>;

    /// A range of a task's entries, oldest first.
    fn entries(
        &self,
        viewer: &Viewer,
        task: Uuid,
        seqs: RangeInclusive<u64>,
    ) -> StoreFuture<Vec<Entry>>;

    /// The same without the states, which are the larger part.
    fn events(
        &self,
        viewer: &Viewer,
        task: Uuid,
        seqs: RangeInclusive<u64>,
    ) -> StoreFuture<Vec<JournalEvent>>;

    /// Signals that a task has not taken in yet, in the order in which they came.
    fn signals(&self, viewer: &Viewer, task: Uuid) -> StoreFuture<Vec<Signal>>;

    /// Tasks that fit a filter, newest first.
    fn query(&self, viewer: &Viewer, filter: Filter, page: Page) -> StoreFuture<TaskPage>;

    /// How many tasks fit a filter. Counting stops at `at_most`, which bounds the cost.
    fn count(&self, viewer: &Viewer, filter: Filter, at_most: usize) -> StoreFuture<usize>;

    /// A conversation, and the newest `limit` messages that were spoken in it before the given task
    /// (or at all), oldest first.
    fn conversation(
        &self,
        viewer: &Viewer,
        id: Uuid,
        before: Option<Uuid>,
        limit: usize,
    ) -> StoreFuture<Option<ConversationRecord>>;

    /// Conversations without their messages, the one spoken in last first.
    fn conversations(&self, viewer: &Viewer, limit: usize) -> StoreFuture<Vec<ConversationRecord>>;

    /// The app's files that tasks started with, by their hash. It is kept while a task names it. It holds no user's data.
    fn definition(&self, hash: &str) -> StoreFuture<Option<Definition>>;

    /// Keeps a blob beside a task's journal, and notes that the task names it. An entry that refers to the blob is
    /// appended after this call. Gives whether the viewer sees such a task; without one nothing is kept.
    fn put_blob(&self, viewer: &Viewer, task: Uuid, blob: Blob) -> StoreFuture<bool>;

    /// A range of a blob that the task names. Reading goes on from where one range ended to the next, so that no reader
    /// has to hold all of a blob.
    fn blob(
        &self,
        viewer: &Viewer,
        task: Uuid,
        hash: BlobHash,
        range: Range<u64>,
    ) -> StoreFuture<Option<BlobRange>>;

    /// The blobs that a task names, by their hashes.
    fn blobs(&self, viewer: &Viewer, task: Uuid) -> StoreFuture<Vec<BlobInfo>>;

    /// A task with everything that belongs to it, to be moved to another store.
    fn take_out(&self, viewer: &Viewer, task: Uuid) -> StoreFuture<Option<Archive>>;

    /// Lets a definition run here. Gives whether there is such a definition.
    fn trust(&self, hash: &str) -> StoreFuture<bool>;

    /// Adds a task as it was taken out, with the definition that it started with. Nobody holds it. A definition
    /// that is new here is kept as untrusted, whatever it says itself.
    fn bring_in(&self, archive: Archive, definition: Option<Definition>) -> StoreFuture<Imported>;

    /// A hint that something in the scope may have changed.
    fn watch(&self, scope: Scope) -> Hint;

    /// Removes an app's ended tasks whose retention is over, and definitions and blobs that no task names any more; never
    /// a live task, nor the child of a live one.
    fn sweep(&self, sweep: Sweep) -> StoreFuture<SweepReport>;
}
