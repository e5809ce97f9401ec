//! How many tasks a worker works on at once.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How many tasks may be worked on at once, by one worker or by several that share it. A task needs one for whatever it does but wait for its children, so that
/// parents can never keep their own children from running. Whoever waits for a permit gets it before any
/// new task does, in the order in which they came.
#[derive(Debug, Clone)]
pub struct Permits {
    semaphore: Arc<Semaphore>,
    number: usize,
}

/// Permission to work on one task. It goes back when it is dropped.
#[derive(Debug)]
pub(crate) struct Permit(#[expect(dead_code, reason = "held, never read")] OwnedSemaphorePermit);

impl Permits {
    /// So many at once, and at least one.
    pub fn new(number: usize) -> Self {
        let number = number.clamp(1, Semaphore::MAX_PERMITS);
        Self {
            semaphore: Arc::new(Semaphore::new(number)),
            number,
        }
    }

    /// How many are free.
    pub(crate) fn free(&self) -> usize {
        self.semaphore.available_permits()
    }

    /// How many are in use.
    pub(crate) fn used(&self) -> usize {
        self.number.saturating_sub(self.free())
    }

    /// A permit, if one is free.
    pub(crate) fn take(&self) -> Option<Permit> {
        Arc::clone(&self.semaphore)
            .try_acquire_owned()
            .ok()
            .map(Permit)
    }

    /// Waits for a permit.
    pub(crate) async fn wait(&self) -> Option<Permit> {
        // Nobody closes the semaphore, so that there always comes one.
        Arc::clone(&self.semaphore)
            .acquire_owned()
            .await
            .ok()
            .map(Permit)
    }
}
