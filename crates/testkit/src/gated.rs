//! A store whose appends can be held up, as a slow disk would.

use std::time::Duration;

use convoke_model::RetentionPolicy;
use convoke_store::{
    Batch, Claim, Claimed, ConversationRecord, Entry, Fence, Filter, Hint, Loaded, NewSignal,
    NewTask, Page, Renewed, Scope, Signalled, Store, StoreFuture, Submitted, Swept, TaskPage,
    TaskRecord,
};
use futures::FutureExt;
use tokio::sync::watch;
use uuid::Uuid;

/// Passes everything on, but says that an append is durable only while the gate is open.
#[derive(Debug)]
pub struct GatedStore<S> {
    inner: S,
    open: watch::Sender<bool>,
    appended: watch::Sender<usize>,
}

impl<S: Store> GatedStore<S> {
    /// A store with its gate open.
    pub fn new(inner: S) -> Self {
        Self {
            inner,
            open: watch::Sender::new(true),
            appended: watch::Sender::new(0),
        }
    }

    /// From now on no append becomes durable.
    pub fn close(&self) {
        self.appended.send_replace(0);
        self.open.send_replace(false);
    }

    /// Lets all appends through.
    pub fn open(&self) {
        self.open.send_replace(true);
    }

    /// Waits until so many appends have been made since the gate was closed.
    pub async fn until_appended(&self, count: usize) {
        // The sender lives as long as this store, so the wait only ends with the condition.
        let _ = self
            .appended
            .subscribe()
            .wait_for(|appended| *appended >= count)
            .await;
    }
}

impl<S: Store> Store for GatedStore<S> {
    fn append(&self, fence: Fence, batch: Batch) -> StoreFuture<u64> {
        let done = self.inner.append(fence, batch);
        self.appended.send_modify(|count| *count += 1);
        let mut open = self.open.subscribe();
        async move {
            let _ = open.wait_for(|open| *open).await;
            done.await
        }
        .boxed()
    }

    fn submit(&self, task: NewTask) -> StoreFuture<Submitted> {
        self.inner.submit(task)
    }

    fn claim(&self, claim: Claim) -> StoreFuture<Vec<Claimed>> {
        self.inner.claim(claim)
    }

    fn renew(&self, fences: Vec<Fence>, lease: Duration) -> StoreFuture<Vec<Renewed>> {
        self.inner.renew(fences, lease)
    }

    fn signal(&self, signal: NewSignal) -> StoreFuture<Signalled> {
        self.inner.signal(signal)
    }

    fn load(&self, task: Uuid, from: u64) -> StoreFuture<Option<Loaded>> {
        self.inner.load(task, from)
    }

    fn newest(&self, task: Uuid) -> StoreFuture<Option<(TaskRecord, Entry)>> {
        self.inner.newest(task)
    }

    fn query(&self, filter: Filter, page: Page) -> StoreFuture<TaskPage> {
        self.inner.query(filter, page)
    }

    fn conversation(
        &self,
        id: Uuid,
        before: Option<Uuid>,
        limit: usize,
    ) -> StoreFuture<Option<ConversationRecord>> {
        self.inner.conversation(id, before, limit)
    }

    fn conversations(&self, owner: Uuid, limit: usize) -> StoreFuture<Vec<ConversationRecord>> {
        self.inner.conversations(owner, limit)
    }

    fn watch(&self, scope: Scope) -> Hint {
        self.inner.watch(scope)
    }

    fn sweep(&self, policy: RetentionPolicy, dry_run: bool) -> StoreFuture<Swept> {
        self.inner.sweep(policy, dry_run)
    }
}
