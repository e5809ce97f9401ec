//! What all tasks of a worker share, and until when the worker's leases hold.

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

/// What all tasks of a worker share.
pub(crate) struct WorkerContext<P: Program, X: Executor<P>> {
    pub(crate) engine: Engine<P>,
    pub(crate) executor: Arc<X>,
    pub(crate) options: Options,
    pub(crate) stop: CancellationToken,
    pub(crate) permits: Permits,
    pub(crate) lease_time: LeaseTime,
}

impl<P: Program, X: Executor<P>> WorkerContext<P, X> {
    /// The same worker with another edition. Its name and its leases stay.
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

    /// Whether a call's time goes on beyond a pause.
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

/// Until when every lease of a worker holds, by the monotonic clock of this process. The store prolongs leases from
/// the moment at which it is asked, which is never earlier than the moment counted from here.
#[derive(Debug, Clone)]
pub(crate) struct LeaseTime(watch::Sender<Instant>);

impl LeaseTime {
    /// For a worker that holds nothing yet.
    pub(crate) fn new(lease: Duration) -> Self {
        Self(watch::Sender::new(Instant::now() + lease))
    }

    /// All leases were prolonged by a request that was sent at this time.
    pub(crate) fn prolong(&self, asked_at: Instant, lease: Duration) {
        self.0.send_replace(asked_at + lease);
    }

    /// Whether all leases hold now.
    pub(crate) fn is_certain(&self) -> bool {
        Instant::now() < *self.0.borrow()
    }

    /// Returns at a moment at which all leases hold. A call that may change the world begins at no other: once a
    /// lease is over, another worker may take the call for interrupted.
    pub(crate) async fn holds(&self) {
        if self.is_certain() {
            return;
        }
        let mut until = self.0.subscribe();
        // The sender is part of `self`, so that the wait ends with its condition only.
        let _ = until.wait_for(|until| Instant::now() < *until).await;
    }
}
