//! The queue from an engine to the worker of its own process. A queued task is stored with the worker's lease, so it
//! needs no claim and is not read back.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use convoke_store::{Definition, Fence, Lease};
use tokio::sync::{mpsc, oneshot};

use crate::engine::TaskOutcome;
use crate::journal_writer::Durable;
use crate::live::Live;
use crate::machine::Machine;
use crate::permits::{Permit, Permits};
use crate::program::Program;

/// A new task for the worker.
pub(crate) struct HandOff<P: Program> {
    /// The definition that the task started with.
    pub(crate) definition: Arc<Definition>,
    /// Boxed, as the machine is large and changes hands several times.
    pub(crate) machine: Box<Machine<P>>,
    pub(crate) fence: Fence,
    /// Resolves when the task is durable.
    pub(crate) durable: Durable,
    /// The listener for live text.
    pub(crate) live: Option<Live>,
    /// Waits for the end.
    pub(crate) waiter: Option<oneshot::Sender<TaskOutcome>>,
}

/// The worker of this process, if it accepts new tasks.
pub(crate) struct LocalQueue<P: Program>(Mutex<Option<LocalWorker<P>>>);

impl<P: Program> Default for LocalQueue<P> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

/// The sending side of a worker's queue.
pub(crate) struct LocalWorker<P: Program> {
    lease: Lease,
    permits: Permits,
    sender: mpsc::UnboundedSender<(HandOff<P>, Permit)>,
}

impl<P: Program> Clone for LocalWorker<P> {
    fn clone(&self) -> Self {
        Self {
            lease: self.lease.clone(),
            permits: self.permits.clone(),
            sender: self.sender.clone(),
        }
    }
}

impl<P: Program> LocalQueue<P> {
    /// Registers the worker that receives new tasks.
    pub(crate) fn open(
        &self,
        worker: &str,
        lease: Duration,
        permits: Permits,
    ) -> mpsc::UnboundedReceiver<(HandOff<P>, Permit)> {
        let (sender, receiver) = mpsc::unbounded_channel();
        *self.lock() = Some(LocalWorker {
            lease: Lease {
                worker: worker.into(),
                time: lease,
            },
            permits,
            sender,
        });
        receiver
    }

    /// Stops handing out tasks.
    pub(crate) fn close(&self) {
        *self.lock() = None;
    }

    /// The worker and one of its permits, if one is free.
    pub(crate) fn take(&self) -> Option<(LocalWorker<P>, Permit)> {
        let local_worker = self.lock();
        let local_worker = local_worker.as_ref()?;
        let permit = local_worker.permits.take()?;
        Some((local_worker.clone(), permit))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<LocalWorker<P>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<P: Program> LocalWorker<P> {
    /// The lease with which a task for this worker is stored.
    pub(crate) fn lease(&self) -> &Lease {
        &self.lease
    }

    /// Sends a task. If the worker is gone, the task is claimed when its lease expires.
    pub(crate) fn hand_over(&self, hand_off: HandOff<P>, permit: Permit) {
        let _ = self.sender.send((hand_off, permit));
    }
}
