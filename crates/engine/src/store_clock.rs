//! The store's time, estimated by the clock of this process.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use convoke_model::Clock;
use jiff::{SignedDuration, Timestamp};

/// This process's clock, corrected by the store's time. All processes of a store thus share one time for deadlines,
/// timers and questions.
#[derive(Debug)]
pub(crate) struct StoreClock {
    local: Arc<dyn Clock>,
    /// Milliseconds by which the store is ahead.
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
        let now = self.local.now();
        match self.ahead_ms.load(Ordering::Relaxed) {
            0 => now,
            ahead => now
                .saturating_add(SignedDuration::from_millis(ahead))
                .unwrap_or(Timestamp::MAX),
        }
    }

    /// The process's own time, for [`Self::correct`].
    pub(crate) fn local(&self) -> Timestamp {
        self.local.now()
    }

    /// Applies a reading of the store's time, taken between two readings of the own clock. A time between these two
    /// needs no correction: it is within the latency.
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
