//! Permits limit how many tasks run at once.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Permits of one worker, or its part of those of several. A task needs a permit except while it only waits for its
/// children, so parents cannot block their own children. Waiting tasks get a permit before new tasks, in order.
#[derive(Debug, Clone)]
pub struct Permits {
    /// Only this worker takes these.
    reserved: Arc<Semaphore>,
    shared: Arc<Semaphore>,
    number: usize,
}

/// The right to run one task. Released when dropped.
#[derive(Debug)]
pub(crate) struct Permit(#[expect(dead_code, reason = "held, never read")] OwnedSemaphorePermit);

impl Permits {
    /// Creates this many permits for one worker, at least one.
    pub fn new(number: usize) -> Self {
        Self::shared(number)
    }

    /// Creates this many permits, at least one, for several workers. If there are more permits than workers, one is
    /// reserved for each worker, so that none waits for the tasks of another before it runs any. The rest is shared.
    pub fn divided(number: usize, workers: usize) -> Vec<Self> {
        let reserved = usize::from(workers > 1 && number > workers);
        let shared = Self::shared(number - reserved * workers);
        let parts = std::iter::repeat_with(|| Self {
            reserved: Arc::new(Semaphore::new(reserved)),
            number: shared.number + reserved,
            ..shared.clone()
        });
        parts.take(workers).collect()
    }

    fn shared(number: usize) -> Self {
        let number = number.clamp(1, Semaphore::MAX_PERMITS);
        Self {
            reserved: Arc::new(Semaphore::new(0)),
            shared: Arc::new(Semaphore::new(number)),
            number,
        }
    }

    /// The number of free permits.
    pub(crate) fn free(&self) -> usize {
        self.reserved.available_permits() + self.shared.available_permits()
    }

    /// The number of permits in use.
    pub(crate) fn used(&self) -> usize {
        self.number.saturating_sub(self.free())
    }

    /// Takes a permit if one is free.
    pub(crate) fn take(&self) -> Option<Permit> {
        let mut both = [&self.reserved, &self.shared].into_iter();
        both.find_map(|semaphore| Arc::clone(semaphore).try_acquire_owned().ok())
            .map(Permit)
    }

    /// Waits for a permit.
    pub(crate) async fn wait(&self) -> Option<Permit> {
        // No semaphore is ever closed, so a permit always arrives.
        let permit = tokio::select! {
            biased;
            permit = Arc::clone(&self.reserved).acquire_owned() => permit,
            permit = Arc::clone(&self.shared).acquire_owned() => permit,
        };
        permit.ok().map(Permit)
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn a_worker_that_takes_all_it_can_leaves_one_permit_for_each_other() {
        let workers = Permits::divided(5, 3);
        let taken: Vec<_> = std::iter::from_fn(|| workers[0].take()).collect();
        assert_eq!((taken.len(), workers[0].used()), (3, 3));
        for other in &workers[1..] {
            assert_eq!(other.free(), 1);
            let permit = other.take();
            assert!(permit.is_some() && other.take().is_none());
            assert!(other.wait().now_or_never().is_none());
            drop(permit);
            assert!(other.wait().now_or_never().is_some());
        }
        drop(taken);
        assert_eq!(workers[2].free(), 3);
    }

    #[test]
    fn permits_that_are_no_more_than_the_workers_are_all_shared() {
        for (number, workers) in [(1, 2), (2, 2), (1, 1), (3, 1)] {
            let divided = Permits::divided(number, workers);
            assert_eq!(divided.len(), workers);
            let taken: Vec<_> = std::iter::from_fn(|| divided[0].take()).collect();
            assert_eq!(taken.len(), number);
            assert!(divided.iter().all(|permits| permits.free() == 0));
        }
    }
}
