//! Writes a task's entries under one claim, in order, and continues after outages of the store.
//!
//! Appends are pipelined: the store applies them in order, and rejects one whose predecessor is missing. After an
//! outage, the task's row shows which of them were written; the rest is sent again. If an append is rejected although
//! its predecessor was written, another worker has claimed the task.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use convoke_store::{Batch, Fence, Store, StoreError, StoreFuture, Viewer};
use convoke_telemetry::metrics;
use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use uuid::Uuid;

use crate::backoff::Backoff;

/// Appends of one task under one claim.
pub(crate) struct JournalWriter {
    appends: Arc<Appends>,
    fence: Fence,
    durable: Durable,
}

/// Resolves when an append is durable. Everything before it is then durable too.
#[derive(Clone)]
pub(crate) enum Durable {
    Now,
    Coming(Shared<BoxFuture<'static, Result<(), StoreError>>>),
}

impl Durable {
    /// Polls the append once: a store in memory has finished already.
    pub(crate) fn of<T: Send + 'static>(mut done: StoreFuture<T>) -> Self {
        match poll_once(&mut done) {
            Poll::Ready(Ok(_)) => Self::Now,
            Poll::Ready(Err(error)) => Self::coming(std::future::ready(Err(error)).boxed()),
            Poll::Pending => Self::coming(done.map(|done| done.map(drop)).boxed()),
        }
    }

    fn coming(done: BoxFuture<'static, Result<(), StoreError>>) -> Self {
        Self::Coming(done.shared())
    }

    pub(crate) async fn wait(self) -> Result<(), StoreError> {
        match self {
            Self::Now => Ok(()),
            Self::Coming(coming) => coming.await,
        }
    }
}

fn poll_once<T>(done: &mut StoreFuture<T>) -> Poll<Result<T, StoreError>> {
    done.poll_unpin(&mut Context::from_waker(Waker::noop()))
}

/// State shared by the appends' futures.
struct Appends {
    store: Arc<dyn Store>,
    task: Uuid,
    epoch: u64,
    /// Sent and not yet known to be durable.
    unconfirmed: Mutex<VecDeque<UnconfirmedAppend>>,
    /// One recovery at a time.
    recovery: tokio::sync::Mutex<()>,
}

struct UnconfirmedAppend {
    /// The sequence before its first entry, and with its last.
    before: u64,
    after: u64,
    batch: Arc<Batch>,
}

impl JournalWriter {
    /// Continues after the entry of the fence. `durable` resolves when that entry is durable.
    pub(crate) fn new(store: Arc<dyn Store>, fence: Fence, durable: Durable) -> Self {
        Self {
            appends: Arc::new(Appends {
                store,
                task: fence.task,
                epoch: fence.epoch,
                unconfirmed: Mutex::default(),
                recovery: tokio::sync::Mutex::default(),
            }),
            fence,
            durable,
        }
    }

    /// The claim, and the newest entry.
    pub(crate) fn fence(&self) -> Fence {
        self.fence
    }

    /// Resolves when all appends are durable.
    pub(crate) fn durable(&self) -> Durable {
        self.durable.clone()
    }

    /// Appends a batch after the previous one. It takes effect even if the future is dropped.
    pub(crate) fn append(&mut self, batch: Batch) {
        let batch = Arc::new(batch);
        let before = self.fence.seq;
        self.fence.seq += batch.entries.len() as u64;
        let fence = Fence {
            seq: before,
            ..self.fence
        };
        let mut sent = self.appends.store.append(fence, Arc::clone(&batch));
        match poll_once(&mut sent) {
            Poll::Ready(Ok(after)) => {
                self.appends.confirm(after);
                self.durable = Durable::Now;
                return;
            }
            Poll::Ready(Err(error)) => sent = std::future::ready(Err(error)).boxed(),
            Poll::Pending => {}
        }
        let after = self.fence.seq;
        self.appends.unconfirmed().push_back(UnconfirmedAppend {
            before,
            after,
            batch,
        });
        let appends = Arc::clone(&self.appends);
        self.durable = Durable::coming(
            async move {
                match sent.await {
                    Ok(after) => appends.confirm(after),
                    Err(error) => appends.recover(after, error).await?,
                }
                Ok(())
            }
            .boxed(),
        );
    }
}

impl Appends {
    fn unconfirmed(&self) -> MutexGuard<'_, VecDeque<UnconfirmedAppend>> {
        self.unconfirmed
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Marks everything up to a sequence as durable.
    fn confirm(&self, after: u64) {
        self.unconfirmed().retain(|append| append.after > after);
    }

    fn is_confirmed(&self, after: u64) -> bool {
        self.unconfirmed().iter().all(|append| append.after > after)
    }

    /// Waits until the store is available, and ensures that everything up to a sequence is written exactly once.
    async fn recover(&self, after: u64, mut error: StoreError) -> Result<(), StoreError> {
        let _one = self.recovery.lock().await;
        let mut backoff = Backoff::new(RETRY_FIRST, RETRY_LONGEST);
        let mut tried = false;
        loop {
            if self.is_confirmed(after) {
                return Ok(());
            }
            // A pipelined append is rejected if one before it was not written.
            let is_fenced = matches!(error, StoreError::Fenced { .. });
            if !is_fenced && !error.is_outage() {
                return Err(error);
            }
            if !is_fenced {
                tracing::warn!(task = %self.task, %error, "an entry could not be written and is tried again");
                metrics::STORE_OUTAGES.increment(["append"]);
            }
            // Whether it was written after all, or would be now, is found out at once.
            if tried {
                backoff.pause().await;
            }
            tried = true;
            match self.read_back(after).await {
                Ok(seq) => self.confirm(seq),
                Err(failed) if failed.is_outage() => {
                    error = failed;
                    continue;
                }
                Err(lost) => return Err(lost),
            }
            match self.send_again().await {
                Ok(()) => {}
                Err(failed) => error = failed,
            }
        }
    }

    /// The sequence of the newest entry, if this claim wrote it or can still write.
    async fn read_back(&self, after: u64) -> Result<u64, StoreError> {
        let record = self.store.task(&Viewer::System, self.task).await?;
        match record {
            Some(record)
                if record.epoch == self.epoch
                    && (record.seq >= after || !record.status.is_final()) =>
            {
                Ok(record.seq)
            }
            _ => Err(StoreError::Fenced { task: self.task }),
        }
    }

    async fn send_again(&self) -> Result<(), StoreError> {
        let unwritten: Vec<(u64, Arc<Batch>)> = self
            .unconfirmed()
            .iter()
            .map(|append| (append.before, Arc::clone(&append.batch)))
            .collect();
        let sent: Vec<_> = unwritten
            .into_iter()
            .map(|(seq, batch)| {
                let fence = Fence {
                    task: self.task,
                    epoch: self.epoch,
                    seq,
                };
                self.store.append(fence, batch)
            })
            .collect();
        for sent in sent {
            self.confirm(sent.await?);
        }
        Ok(())
    }
}

/// The pause after the first failed attempt. Doubles with each attempt.
const RETRY_FIRST: Duration = Duration::from_millis(50);

/// The longest pause.
const RETRY_LONGEST: Duration = Duration::from_secs(2);
