//! The journal's port and its backends.
//!
//! A task is a row with its owner and status, and an append-only list of entries, each with the messages that it added.
//! The port's guarantees:
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
mod draft;
mod error;
mod growing;
mod journal;
mod json_text;
mod memory;
mod page;
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
pub use conversation::{
    ConversationCursor, ConversationRecord, Deletion, InvalidConversationCursor,
};
pub use definition::Definition;
pub use error::StoreError;
pub use growing::{GrowingList, GrowingMap};
pub use journal::{
    Batch, Entry, Fence, JournalEvent, LeaseAction, NewEntry, NewMessage, StatusUpdate,
    StoredMessage, text_of,
};
pub use memory::{MemoryLimits, MemoryStore};
pub use page::{Page, PageCursor, TaskPage};
pub use signal::{NewSignal, Signal, SignalKind, SignalReceipt, UnknownSignalKind};
pub use sqlite::{SqliteOptions, SqliteStore};
pub use state::{StateText, StateWriter};
pub use task::{
    Claim, Claimed, ClaimedTask, FIRST_EPOCH, Filter, Lease, LoadedTask, NewTask, RenewedLease,
    SUMMARY_CHARACTERS, Submission, Sweep, SweepReport, TaskRecord, TaskSummary,
};
pub use viewer::Viewer;
pub use watch::{Hint, Scope};

/// The result of a store call, once it is durable.
pub type StoreFuture<T> = BoxFuture<'static, Result<T, StoreError>>;

/// Durable storage for tasks, journals and conversations. The crate's documentation lists what every implementation
/// guarantees.
pub trait Store: Send + Sync + 'static {
    /// The store's time.
    fn now(&self) -> StoreFuture<Timestamp>;

    /// Accepts a task, or finds the one that the same owner submitted to the same app under the same key. The worker
    /// that the task names holds its lease from the start, unless the task has to wait for others of its conversation.
    /// A conversation of another owner or app is an error, as one that does not exist. A trusted definition replaces an
    /// untrusted one with the same hash.
    fn submit(&self, task: NewTask) -> StoreFuture<Submission>;

    /// Takes ownership of ready tasks, and raises their epochs in the same step. At most one task of a conversation is
    /// owned at a time: the one that was running comes first, then the earliest ready one. A task that waits for a
    /// person or a timer does not block others, and is queued again when it is ready.
    fn claim(&self, claim: Claim) -> StoreFuture<Claimed>;

    /// Atomically adds entries and messages to a task's journal and updates its status. Returns the new sequence.
    fn append(&self, fence: Fence, batch: Arc<Batch>) -> StoreFuture<u64>;

    /// Renews leases, and reports for each whether it is still held and whether signals are pending. An expired lease
    /// is renewed too, unless another worker has claimed the task since.
    fn renew(&self, fences: Vec<Fence>, lease: Duration) -> StoreFuture<Vec<RenewedLease>>;

    /// Adds a signal, such as an answer or a cancellation, to a task's inbox. Needs no lease. A task that the viewer
    /// cannot see is unknown.
    fn signal(&self, viewer: &Viewer, signal: NewSignal) -> StoreFuture<SignalReceipt>;

    /// A task's row.
    fn task(&self, viewer: &Viewer, task: Uuid) -> StoreFuture<Option<TaskRecord>>;

    /// A task's row and its newest entry, from one snapshot.
    fn newest(&self, viewer: &Viewer, task: Uuid) -> StoreFuture<Option<(TaskRecord, Entry)>>;

    /// A task with its entries from sequence `from` on, all messages and pending signals, from one snapshot.
    fn load(&self, viewer: &Viewer, task: Uuid, from: u64) -> StoreFuture<Option<LoadedTask>>;

    /// A range of a task's entries, oldest first.
    fn entries(
        &self,
        viewer: &Viewer,
        task: Uuid,
        seqs: RangeInclusive<u64>,
    ) -> StoreFuture<Vec<Entry>>;

    /// A range of a task's entries without their states, which are the larger part.
    fn events(
        &self,
        viewer: &Viewer,
        task: Uuid,
        seqs: RangeInclusive<u64>,
    ) -> StoreFuture<Vec<JournalEvent>>;

    /// A task's pending signals, in order of arrival.
    fn signals(&self, viewer: &Viewer, task: Uuid) -> StoreFuture<Vec<Signal>>;

    /// Tasks that match a filter, newest first.
    fn query(&self, viewer: &Viewer, filter: Filter, page: Page) -> StoreFuture<TaskPage>;

    /// The number of tasks that match a filter. Counting stops at `at_most`, which bounds the cost.
    fn count(&self, viewer: &Viewer, filter: Filter, at_most: usize) -> StoreFuture<usize>;

    /// A conversation with its newest `limit` messages, oldest first; with `before`, only messages before that task.
    fn conversation(
        &self,
        viewer: &Viewer,
        id: Uuid,
        before: Option<Uuid>,
        limit: usize,
    ) -> StoreFuture<Option<ConversationRecord>>;

    /// Conversations without their messages, most recently updated first; with `after`, only those after a position.
    fn conversations(
        &self,
        viewer: &Viewer,
        after: Option<ConversationCursor>,
        limit: usize,
    ) -> StoreFuture<Vec<ConversationRecord>>;

    /// Removes a conversation with its tasks and their children, in one step. Nothing is removed while one of them has not
    /// ended. `None` for a conversation that the viewer cannot see.
    fn delete_conversation(&self, viewer: &Viewer, id: Uuid) -> StoreFuture<Option<Deletion>>;

    /// The definition with this hash. Stored while a task refers to it. Contains no user data.
    fn definition(&self, hash: &str) -> StoreFuture<Option<Definition>>;

    /// Stores a blob for a task. Must precede the entry that refers to the blob. Returns whether the viewer sees the
    /// task; otherwise nothing is stored.
    fn put_blob(&self, viewer: &Viewer, task: Uuid, blob: Blob) -> StoreFuture<bool>;

    /// A range of a blob that the task names. A reader gets a blob in consecutive ranges, so it need not hold all of
    /// it.
    fn blob(
        &self,
        viewer: &Viewer,
        task: Uuid,
        hash: BlobHash,
        range: Range<u64>,
    ) -> StoreFuture<Option<BlobRange>>;

    /// The blobs that a task names, in the order of their hashes.
    fn blobs(&self, viewer: &Viewer, task: Uuid) -> StoreFuture<Vec<BlobInfo>>;

    /// Exports a task with all its data, for transfer to another store.
    fn take_out(&self, viewer: &Viewer, task: Uuid) -> StoreFuture<Option<Archive>>;

    /// Marks a definition as trusted. Returns whether it exists.
    fn trust(&self, hash: &str) -> StoreFuture<bool>;

    /// Imports an exported task, without a lease, and its definition. A new definition is stored as untrusted, whatever
    /// its own flag says.
    fn bring_in(&self, archive: Archive, definition: Option<Definition>) -> StoreFuture<Imported>;

    /// A hint that something in the scope may have changed.
    fn watch(&self, scope: Scope) -> Hint;

    /// Removes an app's ended tasks whose retention is over, and definitions and blobs that no task names any more; never
    /// a live task, nor the child of a live one.
    fn sweep(&self, sweep: Sweep) -> StoreFuture<SweepReport>;
}
