//! The journal's port and its backends.
//!
//! A task is a row that says who owns it and where it stands, and an append-only list of entries,
//! each with the messages that it added. Three habits of the port matter to everything above it:
//!
//! - **Complete, fail and pause are all an append with a status.** There is no second way to change
//!   a task, so there is no second way to get it wrong.
//! - **Every append carries a fence**: the epoch under which the worker claimed the task and the
//!   sequence it last saw. A worker that lost its lease can no longer write.
//! - **Notifications are hints, polling is the truth.** Whoever waits for a change asks the store
//!   again; a hint only says that now is a good moment.
//!
//! To add a backend, implement [`Store`] and run `tests/contract` against it. What a caller does
//! next decides how an outcome is told: a missing task is `None`, a lost lease is
//! [`StoreError::Fenced`], and everything the caller cannot mend is [`StoreError::Broken`].

mod archive;
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
mod watch;

use std::time::Duration;

use futures::future::BoxFuture;
use uuid::Uuid;

pub use archive::{Archive, ArchivedConversation, ArchivedSignal, Imported};
pub use conversation::ConversationRecord;
pub use definition::Definition;
pub use error::StoreError;
pub use journal::{
    Batch, Entry, Fence, LeaseAction, NewEntry, NewMessage, StatusUpdate, StoredMessage, text_of,
};
pub use memory::{MemoryLimits, MemoryStore};
pub use signal::{NewSignal, Signal, SignalKind, SignalReceipt, UnknownSignalKind};
pub use sqlite::SqliteStore;
pub use state::{StateText, StateWriter};
pub use task::{
    Claim, ClaimedTask, FIRST_EPOCH, Filter, Lease, LoadedTask, NewTask, Page, RenewedLease,
    Submission, Sweep, SweepReport, TaskPage, TaskRecord,
};
pub use watch::{Hint, Scope};

/// What a store call gives back, once it is durable.
pub type StoreFuture<T> = BoxFuture<'static, Result<T, StoreError>>;

/// A durable place for tasks, their journals and their conversations.
///
/// Calls that change something take effect in the order in which they are made, from the moment of
/// the call: the future only says when the change is durable. A caller that does not need to wait
/// may go on and look at the future later.
pub trait Store: Send + Sync + 'static {
    /// Accepts a task, or finds the one that the same owner submitted under the same key. A worker that
    /// is named holds it from the start, unless it has to wait its turn in its conversation. A conversation
    /// of somebody else, or with another app, is refused as one that is not there.
    /// A trusted definition takes the place of one with its hash that is not.
    fn submit(&self, task: NewTask) -> StoreFuture<Submission>;

    /// Takes ownership of tasks that are ready. Of a conversation one task is held at a time: the one that
    /// was at work goes on first, then the earliest that is ready. A task that waits for a person holds up
    /// nobody, and takes its turn once it is answered. Claiming raises a task's epoch in the same step.
    fn claim(&self, claim: Claim) -> StoreFuture<Vec<ClaimedTask>>;

    /// Adds entries and messages to a task's journal and sets where it stands, all or nothing.
    /// Gives the new sequence.
    fn append(&self, fence: Fence, batch: Batch) -> StoreFuture<u64>;

    /// Prolongs leases, and tells of each whether it is still held and whether signals wait.
    fn renew(&self, fences: Vec<Fence>, lease: Duration) -> StoreFuture<Vec<RenewedLease>>;

    /// Puts an answer, a cancellation or the like into a task's inbox. Needs no lease.
    fn signal(&self, signal: NewSignal) -> StoreFuture<SignalReceipt>;

    /// A task with its entries from sequence `from` on, all its messages and its waiting signals.
    fn load(&self, task: Uuid, from: u64) -> StoreFuture<Option<LoadedTask>>;

    /// A task and the newest entry of its journal: where it stands, at the least cost.
    fn newest(&self, task: Uuid) -> StoreFuture<Option<(TaskRecord, Entry)>>;

    /// Tasks that fit a filter, newest first.
    fn query(&self, filter: Filter, page: Page) -> StoreFuture<TaskPage>;

    /// A conversation, and the newest `limit` messages that were spoken in it before the given task
    /// (or at all), oldest first.
    fn conversation(
        &self,
        id: Uuid,
        before: Option<Uuid>,
        limit: usize,
    ) -> StoreFuture<Option<ConversationRecord>>;

    /// Conversations of one owner with one app, the one spoken in last first.
    fn conversations(
        &self,
        owner: Uuid,
        app: &str,
        limit: usize,
    ) -> StoreFuture<Vec<ConversationRecord>>;

    /// What tasks were begun with, by its hash. It is kept while there is a task that names it.
    fn definition(&self, hash: &str) -> StoreFuture<Option<Definition>>;

    /// A task with all that is its own, to be brought into another store.
    fn take_out(&self, task: Uuid) -> StoreFuture<Option<Archive>>;

    /// Says that a definition may run here, and tells whether there is such a definition.
    fn trust(&self, hash: &str) -> StoreFuture<bool>;

    /// Brings a task in as it was taken out, with what it was begun with. Nobody holds it. A definition
    /// that is not here yet is kept as one that is not trusted, whatever it says itself.
    fn bring_in(&self, archive: Archive, definition: Option<Definition>) -> StoreFuture<Imported>;

    /// A hint that something in the scope may have changed.
    fn watch(&self, scope: Scope) -> Hint;

    /// Removes an app's ended tasks whose time is over, and definitions that no task names any more; never
    /// a live task, nor the child of a live one.
    fn sweep(&self, sweep: Sweep) -> StoreFuture<SweepReport>;
}
