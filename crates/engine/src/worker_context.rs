//! State shared by all tasks of a worker, and the validity of its leases.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::call::{Call, CallContext, Executor};
use crate::engine::Engine;
use crate::permits::Permits;
use crate::program::Program;
use crate::worker::Options;

/// State shared by all tasks of a worker.
pub(crate) struct WorkerContext<P: Program, X: Executor<P>> {
    pub(crate) engine: Engine<P>,
    pub(crate) executor: Arc<X>,
    pub(crate) options: Options,
    pub(crate) stop: CancellationToken,
    pub(crate) permits: Permits,
    pub(crate) lease_time: LeaseTime,
}

impl<P: Program, X: Executor<P>> WorkerContext<P, X> {
    /// The context for another edition. The worker's name and leases stay the same.
    pub(crate) fn of_edition(
        &self,
        engine: Engine<P>,
        executor: Arc<X>,
        options: &Options,
    ) -> Self {
        Self {
            engine,
            executor,
            options: Options {
                worker: self.options.worker.clone(),
                lease: self.options.lease,
                ..options.clone()
            },
            stop: self.stop.clone(),
            permits: self.permits.clone(),
            lease_time: self.lease_time.clone(),
        }
    }

    /// Whether a call's deadline is later than a pause.
    pub(crate) fn has_time(
        &self,
        call_context: &CallContext,
        call: &Call<P::Request>,
        pause: Duration,
    ) -> bool {
        let then = self.engine.now().checked_add(pause);
        then.is_ok_and(|then| then < self.executor.ends(call_context, call))
    }
}

/// Until when all leases of a worker are valid, by this process's monotonic clock. The store extends leases from when
/// it handles the request, which is never earlier than the time counted from here.
#[derive(Debug, Clone)]
pub(crate) struct LeaseTime(watch::Sender<Instant>);

impl LeaseTime {
    /// For a worker without leases.
    pub(crate) fn new(lease: Duration) -> Self {
        Self(watch::Sender::new(Instant::now() + lease))
    }

    /// Extends the validity after a renewal request that was sent at this time.
    pub(crate) fn prolong(&self, asked_at: Instant, lease: Duration) {
        self.0.send_replace(asked_at + lease);
    }

    /// Whether all leases are valid now.
    pub(crate) fn is_certain(&self) -> bool {
        Instant::now() < *self.0.borrow()
    }

    /// Waits until all leases are valid. A call with a possible effect only starts then: after a lease expires, another
    /// worker may treat the call as interrupted.
    pub(crate) async fn holds(&self) {
        if self.is_certain() {
            return;
        }
        let mut until = self.0.subscribe();
        // The sender is part of `self`, so the wait only ends with its condition.
        let _ = until.wait_for(|until| Instant::now() < *until).await;
    }
}
