//! How many tasks a worker works on at once.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The permits of one worker. A task needs one for whatever it does but wait for its children, so that
/// parents can never keep their own children from running. Whoever waits for a permit gets it before any
/// new task does, in the order in which they came.
#[derive(Debug, Clone)]
pub(crate) struct Permits(Arc<Semaphore>);

/// Leave to work on one task. It goes back when it is dropped.
#[derive(Debug)]
pub(crate) struct Permit(#[expect(dead_code, reason = "held, never read")] OwnedSemaphorePermit);

impl Permits {
    pub(crate) fn new(number: usize) -> Self {
        let number = number.clamp(1, Semaphore::MAX_PERMITS);
        Self(Arc::new(Semaphore::new(number)))
    }

    /// How many are free.
    pub(crate) fn free(&self) -> usize {
        self.0.available_permits()
    }

    /// A permit, if one is free.
    pub(crate) fn take(&self) -> Option<Permit> {
        Arc::clone(&self.0).try_acquire_owned().ok().map(Permit)
    }

    /// Waits for a permit.
    pub(crate) async fn wait(&self) -> Option<Permit> {
        // Nobody closes the semaphore, so that there always comes one.
        Arc::clone(&self.0).acquire_owned().await.ok().map(Permit)
    }
}
