//! The limit of waiting tasks, above which new ones are rejected.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::error::EngineError;

/// The limit of an app's backlog. Counts the store at most once per [`Backlog::COUNT_EVERY`]; in between, adds the
/// tasks that this process accepts.
#[derive(Debug, Default)]
pub(crate) struct Backlog(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    limit: Option<usize>,
    waiting: usize,
    counted_at: Option<Instant>,
}

impl Backlog {
    const COUNT_EVERY: Duration = Duration::from_secs(1);

    pub(crate) fn bound(&self, limit: usize) {
        self.lock().limit = Some(limit);
    }

    /// The limit to count up to, if it is time to count.
    pub(crate) fn looks_again(&self) -> Option<usize> {
        let mut state = self.lock();
        let limit = state.limit?;
        let now = Instant::now();
        let is_recent = state
            .counted_at
            .is_some_and(|counted_at| now < counted_at + Self::COUNT_EVERY);
        if is_recent {
            return None;
        }
        // Concurrent callers use the previous count meanwhile.
        state.counted_at = Some(now);
        Some(limit)
    }

    pub(crate) fn found(&self, waiting: usize) {
        self.lock().waiting = waiting;
    }

    /// Counts one more task, or rejects it.
    pub(crate) fn admit(&self) -> Result<(), EngineError> {
        let mut state = self.lock();
        match state.limit {
            Some(limit) if state.waiting >= limit => Err(EngineError::Busy {
                waiting: state.waiting,
                retry_after: Self::COUNT_EVERY,
            }),
            _ => {
                state.waiting += 1;
                Ok(())
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_full_backlog_refuses_until_it_is_counted_again() {
        let backlog = Backlog::default();
        assert!(backlog.admit().is_ok(), "no bound");
        backlog.bound(3);
        assert_eq!(backlog.looks_again(), Some(3));
        backlog.found(2);
        assert_eq!(backlog.looks_again(), None);
        assert!(backlog.admit().is_ok());
        let refused = backlog.admit().unwrap_err();
        assert_eq!(refused.code(), "engine.busy");
        tokio::time::advance(Backlog::COUNT_EVERY).await;
        assert_eq!(backlog.looks_again(), Some(3));
        backlog.found(0);
        assert!(backlog.admit().is_ok());
    }
}
