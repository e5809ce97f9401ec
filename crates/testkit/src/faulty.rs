//! A store that has outages: it refuses calls before they happen, loses their answers, or holds them up.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use convoke_model::BlobHash;
use convoke_store::{
    Archive, Batch, Blob, BlobInfo, BlobRange, Claim, Claimed, ConversationCursor,
    ConversationRecord, Definition, Deletion, Entry, Fence, Filter, Hint, Imported, JournalEvent,
    LoadedTask, NewSignal, NewTask, Page, RenewedLease, Scope, Signal, SignalReceipt, Store,
    StoreError, StoreFuture, Submission, Sweep, SweepReport, TaskPage, TaskRecord, Viewer,
};
use futures::FutureExt;
use jiff::Timestamp;
use uuid::Uuid;

/// What goes wrong with a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It has no effect, and the caller gets a definite error.
    Unavailable,
    /// It does not happen, because there is no room.
    Full,
    /// It takes effect, and the caller gets an uncertain error.
    UncertainDone,
    /// It has no effect, and the caller gets an uncertain error.
    UncertainUndone,
    /// It happens, and its answer comes late.
    Late(Duration),
}

impl Fault {
    /// One of each.
    pub const ALL: [Self; 5] = [
        Self::Unavailable,
        Self::Full,
        Self::UncertainDone,
        Self::UncertainUndone,
        Self::Late(Duration::from_millis(30)),
    ];

    fn error(self) -> StoreError {
        match self {
            Self::Unavailable | Self::Late(_) => StoreError::Unavailable("an outage".into()),
            Self::Full => StoreError::Full("no room".into()),
            Self::UncertainDone | Self::UncertainUndone => {
                StoreError::Uncertain("the connection was lost".into())
            }
        }
    }
}

/// Passes calls on, and lets one thing go wrong with those whose turn it is. Calls are counted from 0.
#[derive(Debug)]
pub struct FaultyStore<S> {
    inner: S,
    fault: Fault,
    first: usize,
    last: usize,
    calls: AtomicUsize,
    down: AtomicBool,
    no_renewals: AtomicBool,
}

impl<S: Store> FaultyStore<S> {
    /// The fault befalls the calls from `first` to before `end`.
    pub fn new(inner: S, fault: Fault, first: usize, end: usize) -> Self {
        Self {
            inner,
            fault,
            first,
            last: end,
            calls: AtomicUsize::new(0),
            down: AtomicBool::new(false),
            no_renewals: AtomicBool::new(false),
        }
    }

    /// Whether from now on no call gets through.
    pub fn break_down(&self, down: bool) {
        self.down.store(down, Ordering::SeqCst);
    }

    /// Whether from now on no lease can be prolonged.
    pub fn refuse_renewals(&self, refuse: bool) {
        self.no_renewals.store(refuse, Ordering::SeqCst);
    }

    /// The store underneath, which has no faults.
    pub fn inner(&self) -> &S {
        &self.inner
    }

    /// How many calls were made.
    pub fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }

    fn call<T: Send + 'static>(&self, call: impl FnOnce(&S) -> StoreFuture<T>) -> StoreFuture<T> {
        if self.down.load(Ordering::SeqCst) {
            return std::future::ready(Err(Fault::Unavailable.error())).boxed();
        }
        let number = self.calls.fetch_add(1, Ordering::SeqCst);
        if number < self.first || number >= self.last {
            return call(&self.inner);
        }
        let fault = self.fault;
        match fault {
            Fault::Unavailable | Fault::Full | Fault::UncertainUndone => {
                std::future::ready(Err(fault.error())).boxed()
            }
            Fault::UncertainDone => {
                let done = call(&self.inner);
                async move { done.await.and_then(|_| Err(fault.error())) }.boxed()
            }
            Fault::Late(by) => {
                let done = call(&self.inner);
                async move {
                    tokio::time::sleep(by).await;
                    done.await
                }
                .boxed()
            }
        }
    }

    /// A question changes nothing, so that its answer cannot be uncertain.
    fn read<T: Send + 'static>(&self, read: impl FnOnce(&S) -> StoreFuture<T>) -> StoreFuture<T> {
        match self.fault {
            Fault::UncertainDone | Fault::UncertainUndone if !self.down.load(Ordering::SeqCst) => {
                read(&self.inner)
            }
            _ => self.call(read),
        }
    }
}

impl<S: Store> Store for FaultyStore<S> {
    fn now(&self) -> StoreFuture<Timestamp> {
        self.read(Store::now)
    }

    fn submit(&self, task: NewTask) -> StoreFuture<Submission> {
        self.call(|inner| inner.submit(task))
    }

    fn claim(&self, claim: Claim) -> StoreFuture<Claimed> {
        self.call(|inner| inner.claim(claim))
    }

    fn append(&self, fence: Fence, batch: Arc<Batch>) -> StoreFuture<u64> {
        self.call(|inner| inner.append(fence, batch))
    }

    fn renew(&self, fences: Vec<Fence>, lease: Duration) -> StoreFuture<Vec<RenewedLease>> {
        if self.no_renewals.load(Ordering::SeqCst) {
            return std::future::ready(Err(Fault::Unavailable.error())).boxed();
        }
        self.call(|inner| inner.renew(fences, lease))
    }

    fn signal(&self, viewer: &Viewer, signal: NewSignal) -> StoreFuture<SignalReceipt> {
        self.call(|inner| inner.signal(viewer, signal))
    }

    fn task(&self, viewer: &Viewer, task: Uuid) -> StoreFuture<Option<TaskRecord>> {
        self.read(|inner| inner.task(viewer, task))
    }

    fn newest(&self, viewer: &Viewer, task: Uuid) -> StoreFuture<Option<(TaskRecord, Entry)>> {
        self.read(|inner| inner.newest(viewer, task))
    }

    fn load(&self, viewer: &Viewer, task: Uuid, from: u64) -> StoreFuture<Option<LoadedTask>> {
        self.read(|inner| inner.load(viewer, task, from))
    }

    fn entries(
        &self,
        viewer: &Viewer,
        task: Uuid,
        seqs: std::ops::RangeInclusive<u64>,
    ) -> StoreFuture<Vec<Entry>> {
        self.read(|inner| inner.entries(viewer, task, seqs))
    }

    fn events(
        &self,
        viewer: &Viewer,
        task: Uuid,
        seqs: std::ops::RangeInclusive<u64>,
    ) -> StoreFuture<Vec<JournalEvent>> {
        self.read(|inner| inner.events(viewer, task, seqs))
    }

    fn signals(&self, viewer: &Viewer, task: Uuid) -> StoreFuture<Vec<Signal>> {
        self.read(|inner| inner.signals(viewer, task))
    }

    fn query(&self, viewer: &Viewer, filter: Filter, page: Page) -> StoreFuture<TaskPage> {
        self.read(|inner| inner.query(viewer, filter, page))
    }

    fn count(&self, viewer: &Viewer, filter: Filter, at_most: usize) -> StoreFuture<usize> {
        self.read(|inner| inner.count(viewer, filter, at_most))
    }

    fn conversation(
        &self,
        viewer: &Viewer,
        id: Uuid,
        before: Option<Uuid>,
        limit: usize,
    ) -> StoreFuture<Option<ConversationRecord>> {
        self.read(|inner| inner.conversation(viewer, id, before, limit))
    }

    fn conversations(
        &self,
        viewer: &Viewer,
        after: Option<ConversationCursor>,
        limit: usize,
    ) -> StoreFuture<Vec<ConversationRecord>> {
        self.read(|inner| inner.conversations(viewer, after, limit))
    }

    fn delete_conversation(&self, viewer: &Viewer, id: Uuid) -> StoreFuture<Option<Deletion>> {
        self.call(|inner| inner.delete_conversation(viewer, id))
    }

    fn definition(&self, hash: &str) -> StoreFuture<Option<Definition>> {
        self.read(|inner| inner.definition(hash))
    }

    fn put_blob(&self, viewer: &Viewer, task: Uuid, blob: Blob) -> StoreFuture<bool> {
        self.call(|inner| inner.put_blob(viewer, task, blob))
    }

    fn blob(
        &self,
        viewer: &Viewer,
        task: Uuid,
        hash: BlobHash,
        range: Range<u64>,
    ) -> StoreFuture<Option<BlobRange>> {
        self.read(|inner| inner.blob(viewer, task, hash, range))
    }

    fn blobs(&self, viewer: &Viewer, task: Uuid) -> StoreFuture<Vec<BlobInfo>> {
        self.read(|inner| inner.blobs(viewer, task))
    }

    fn take_out(&self, viewer: &Viewer, task: Uuid) -> StoreFuture<Option<Archive>> {
        self.read(|inner| inner.take_out(viewer, task))
    }

    fn trust(&self, hash: &str) -> StoreFuture<bool> {
        self.call(|inner| inner.trust(hash))
    }

    fn bring_in(&self, archive: Archive, definition: Option<Definition>) -> StoreFuture<Imported> {
        self.call(|inner| inner.bring_in(archive, definition))
    }

    fn watch(&self, scope: Scope) -> Hint {
        self.inner.watch(scope)
    }

    fn sweep(&self, sweep: Sweep) -> StoreFuture<SweepReport> {
        self.call(|inner| inner.sweep(sweep))
    }
}
