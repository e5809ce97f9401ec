//! Where an engine hands tasks to the worker of its own process. A task that is handed over is held
//! from the moment it is written down, and nobody has to read it back to go to work on it.

use std::sync::atomic::{AtomicIsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use convoke_store::{Fence, Lease};
use tokio::sync::{mpsc, oneshot};

use crate::drive::Durable;
use crate::engine::Ended;
use crate::live::Live;
use crate::machine::Machine;
use crate::program::Program;

/// A task on its way to the worker.
pub(crate) struct Handed<P: Program> {
    pub(crate) machine: Machine<P>,
    pub(crate) fence: Fence,
    /// When the task itself is durable.
    pub(crate) durable: Durable,
    /// Who listens meanwhile.
    pub(crate) live: Option<Live>,
    /// Who waits for the end.
    pub(crate) waiter: Option<oneshot::Sender<Ended>>,
}

/// The desk: at most one worker sits at it.
pub(crate) struct Desk<P: Program>(Mutex<Option<Seat<P>>>);

impl<P: Program> Default for Desk<P> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

/// A worker that takes tasks, as others see it.
pub(crate) struct Seat<P: Program> {
    lease: Lease,
    places: Places,
    sender: mpsc::UnboundedSender<(Handed<P>, Place)>,
}

impl<P: Program> Clone for Seat<P> {
    fn clone(&self) -> Self {
        Self {
            lease: self.lease.clone(),
            places: self.places.clone(),
            sender: self.sender.clone(),
        }
    }
}

impl<P: Program> Desk<P> {
    /// A worker sits down.
    pub(crate) fn open(
        &self,
        worker: &str,
        lease: Duration,
        places: Places,
    ) -> mpsc::UnboundedReceiver<(Handed<P>, Place)> {
        let (sender, receiver) = mpsc::unbounded_channel();
        *self.lock() = Some(Seat {
            lease: Lease {
                worker: worker.into(),
                time: lease,
            },
            places,
            sender,
        });
        receiver
    }

    /// Nobody takes tasks any more.
    pub(crate) fn close(&self) {
        *self.lock() = None;
    }

    /// A place with the worker, if there is a worker and it has one.
    pub(crate) fn take(&self) -> Option<(Seat<P>, Place)> {
        let seat = self.lock();
        let seat = seat.as_ref()?;
        let place = seat.places.take()?;
        Some((seat.clone(), place))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Seat<P>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<P: Program> Seat<P> {
    /// Under whose lease a task is written down that is handed to it.
    pub(crate) fn lease(&self) -> &Lease {
        &self.lease
    }

    /// Hands a task over. Should the worker be gone, the task is claimed once its lease is over.
    pub(crate) fn hand_over(&self, handed: Handed<P>, place: Place) {
        let _ = self.sender.send((handed, place));
    }
}

/// How many tasks a worker may work on at once. Those that only wait for their children give up their
/// place meanwhile, and take one again whether there is room or not.
#[derive(Debug, Clone)]
pub(crate) struct Places(Arc<AtomicIsize>);

impl Places {
    pub(crate) fn new(number: usize) -> Self {
        Self(Arc::new(AtomicIsize::new(
            isize::try_from(number).unwrap_or(isize::MAX),
        )))
    }

    pub(crate) fn free(&self) -> usize {
        usize::try_from(self.0.load(Ordering::Relaxed)).unwrap_or(0)
    }

    /// A place, if one is free.
    pub(crate) fn take(&self) -> Option<Place> {
        let taken = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |free| {
                (free > 0).then_some(free - 1)
            });
        taken.ok().map(|_| Place(self.clone()))
    }

    /// Gives up the caller's place until the returned value is dropped.
    pub(crate) fn give_up(&self) -> Away {
        self.0.fetch_add(1, Ordering::Relaxed);
        Away(self.clone())
    }
}

/// A place among a worker's tasks, free again when it is dropped.
#[derive(Debug)]
pub(crate) struct Place(Places);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A task that is away from its place.
#[derive(Debug)]
pub(crate) struct Away(Places);

impl Drop for Away {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}
