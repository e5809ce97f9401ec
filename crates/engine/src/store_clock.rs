//! The store's time, told by the clock of this process.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use convoke_model::Clock;
use jiff::{SignedDuration, Timestamp};

/// The process's clock, corrected by what the store says its time is. All processes that share a store so share one
/// time, whatever their own clocks say: deadlines, timers and questions are judged by it.
#[derive(Debug)]
pub(crate) struct StoreClock {
    local: Arc<dyn Clock>,
    /// Milliseconds that the store is ahead.
    ahead_ms: AtomicI64,
}

impl StoreClock {
    pub(crate) fn new(local: Arc<dyn Clock>) -> Self {
        Self {
            local,
            ahead_ms: AtomicI64::new(0),
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        let ahead = SignedDuration::from_millis(self.ahead_ms.load(Ordering::Relaxed));
        self.local
            .now()
            .saturating_add(ahead)
            .unwrap_or(Timestamp::MAX)
    }

    /// The process's own time, for [`Self::correct`].
    pub(crate) fn local(&self) -> Timestamp {
        self.local.now()
    }

    /// The store said what its time is, between two readings of the process's own clock. A time between them is no
    /// difference: it only took a while to say so.
    pub(crate) fn correct(&self, asked_at: Timestamp, store: Timestamp) {
        let told_at = self.local.now();
        let ahead = if store < asked_at {
            store.duration_since(asked_at)
        } else if store > told_at {
            store.duration_since(told_at)
        } else {
            SignedDuration::ZERO
        };
        let ahead = i64::try_from(ahead.as_millis()).unwrap_or(0);
        self.ahead_ms.store(ahead, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use convoke_testkit::SimClock;

    use super::*;

    #[test]
    fn a_clock_that_is_off_tells_the_time_of_the_store() {
        let local = Arc::new(SimClock::new());
        let clock = StoreClock::new(local.clone());
        let asked_at = clock.local();
        for off in [SignedDuration::from_mins(1), SignedDuration::from_mins(-1)] {
            clock.correct(asked_at, asked_at + off);
            assert_eq!(clock.now(), asked_at + off);
        }
        local.advance(Duration::from_secs(2));
        clock.correct(asked_at, asked_at + Duration::from_secs(1));
        assert_eq!(
            clock.now(),
            clock.local(),
            "the store was asked and answered in between"
        );
    }
}
