//! A store through which a worker dies at a chosen place of its journal.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use convoke_engine::TaskOutcome;
use convoke_store::{
    Batch, Claim, Claimed, ConversationRecord, Entry, Fence, LoadedTask, MemoryStore, RenewedLease,
    Store, StoreFuture, TaskRecord, Viewer,
};
use convoke_testkit::{Reply, SimClock};
use futures::FutureExt;
use futures::future::pending;
use tokio::sync::watch;
use uuid::Uuid;

use super::{Office, Setting};

/// On which side of the fatal entry the worker dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// The entry is never written: what led to it is lost.
    Before,
    /// The entry is written, and the worker never learns of it.
    After,
}

/// Kills the worker at every entry of a task and its parts, before and after it is written; another takes over a minute
/// later. Every time the end is looked at, with the place of the death. Gives the number of deaths.
pub(crate) async fn kill_everywhere(
    setting: impl Fn() -> Setting,
    prepare: impl Fn(&Office),
    said: &str,
    look: impl Fn(&Office, &TaskOutcome, &str),
) -> usize {
    let mut deaths = 0;
    for side in [Side::Before, Side::After] {
        for fatal in 0..MOST_ENTRIES {
            let clock = Arc::new(SimClock::running());
            let store: Arc<dyn Store> = Arc::new(MemoryStore::new(clock.clone()));
            let setting = Setting {
                store: Some(Arc::clone(&store)),
                clock: clock.clone(),
                ..setting()
            };
            let office = Office::without_worker(setting, Reply::text("")).await;
            prepare(&office);
            let task = office.submit_alone(said).await;
            let crash = Arc::new(Crash::at(Arc::clone(&store), fatal, side));
            office.start_worker(crash.clone());
            let survived = tokio::select! {
                _ = office.engine.wait(&Viewer::System, task) => true,
                () = crash.reached() => false,
            };
            office.kill_worker().await;
            clock.advance(Duration::from_mins(1));
            office.start_worker(Arc::clone(&store));
            let ended = office.engine.wait(&Viewer::System, task).await.unwrap();
            look(&office, &ended, &format!("{side:?} {fatal}"));
            if survived {
                break;
            }
            deaths += 1;
        }
    }
    deaths
}

/// More entries than any of these tasks has.
const MOST_ENTRIES: usize = 40;

/// Passes everything on until the fatal entry; from then on the worker's world stands still.
pub(crate) struct Crash {
    inner: Arc<dyn Store>,
    fatal: usize,
    side: Side,
    appended: AtomicUsize,
    reached: watch::Sender<bool>,
}

impl Crash {
    /// Dies at the append with this number, counted from 0.
    pub(crate) fn at(inner: Arc<dyn Store>, fatal: usize, side: Side) -> Self {
        Self {
            inner,
            fatal,
            side,
            appended: AtomicUsize::new(0),
            reached: watch::Sender::new(false),
        }
    }

    fn alive(&self) -> bool {
        !*self.reached.borrow()
    }

    /// Waits until the fatal entry has come.
    pub(crate) async fn reached(&self) {
        // The sender lives as long as this store, so the wait only ends with the condition.
        let _ = self.reached.subscribe().wait_for(|reached| *reached).await;
    }
}

impl Store for Crash {
    fn append(&self, fence: Fence, batch: Arc<Batch>) -> StoreFuture<u64> {
        let number = self.appended.fetch_add(1, Ordering::SeqCst);
        if number < self.fatal {
            return self.inner.append(fence, batch);
        }
        if number == self.fatal && self.side == Side::After {
            // An append takes effect from the moment of the call; nobody has to wait for it.
            drop(self.inner.append(fence, batch));
        }
        self.reached.send_replace(true);
        pending().boxed()
    }

    fn claim(&self, claim: Claim) -> StoreFuture<Claimed> {
        if self.alive() {
            self.inner.claim(claim)
        } else {
            pending().boxed()
        }
    }

    fn renew(&self, fences: Vec<Fence>, lease: Duration) -> StoreFuture<Vec<RenewedLease>> {
        if self.alive() {
            self.inner.renew(fences, lease)
        } else {
            pending().boxed()
        }
    }

    fn load(&self, viewer: &Viewer, task: Uuid, from: u64) -> StoreFuture<Option<LoadedTask>> {
        if self.alive() {
            self.inner.load(viewer, task, from)
        } else {
            pending().boxed()
        }
    }

    fn newest(&self, viewer: &Viewer, task: Uuid) -> StoreFuture<Option<(TaskRecord, Entry)>> {
        if self.alive() {
            self.inner.newest(viewer, task)
        } else {
            pending().boxed()
        }
    }

    fn conversation(
        &self,
        viewer: &Viewer,
        id: Uuid,
        before: Option<Uuid>,
        limit: usize,
    ) -> StoreFuture<Option<ConversationRecord>> {
        if self.alive() {
            self.inner.conversation(viewer, id, before, limit)
        } else {
            pending().boxed()
        }
    }

    fn task(&self, viewer: &Viewer, task: Uuid) -> StoreFuture<Option<TaskRecord>> {
        if self.alive() {
            self.inner.task(viewer, task)
        } else {
            pending().boxed()
        }
    }

    convoke_testkit::delegate!(inner: now submit signal rest);
}
