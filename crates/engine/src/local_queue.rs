//! Where an engine hands tasks to the worker of its own process. A task that is handed over is held
//! from the moment it is written down, and nobody has to read it back to go to work on it.

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

/// A task on its way to the worker.
pub(crate) struct HandOff<P: Program> {
    /// The definition that the task started with.
    pub(crate) definition: Arc<Definition>,
    pub(crate) machine: Machine<P>,
    pub(crate) fence: Fence,
    /// When the task itself is durable.
    pub(crate) durable: Durable,
    /// Who listens meanwhile.
    pub(crate) live: Option<Live>,
    /// Who waits for the end.
    pub(crate) waiter: Option<oneshot::Sender<TaskOutcome>>,
}

/// The worker of this process that takes new tasks, if there is one.
pub(crate) struct LocalQueue<P: Program>(Mutex<Option<LocalWorker<P>>>);

impl<P: Program> Default for LocalQueue<P> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

/// A worker that takes tasks, as others see it.
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
    /// Registers the worker that takes tasks from now on.
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

    /// Nobody takes tasks any more.
    pub(crate) fn close(&self) {
        *self.lock() = None;
    }

    /// The worker and a permit of it, if there is a worker and it has one.
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
    /// Under whose lease a task is written down that is handed to it.
    pub(crate) fn lease(&self) -> &Lease {
        &self.lease
    }

    /// Hands a task over. Should the worker be gone, the task is claimed once its lease is over.
    pub(crate) fn hand_over(&self, hand_off: HandOff<P>, permit: Permit) {
        let _ = self.sender.send((hand_off, permit));
    }
}
