//! A clock that a test moves, and predictable ids.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use convoke_model::{Clock, Ids};
use jiff::Timestamp;
use uuid::Uuid;

/// A clock that stands still until [`SimClock::advance`].
#[derive(Debug)]
pub struct SimClock(AtomicI64);

impl SimClock {
    /// Starts on a fixed day in 2026.
    pub fn new() -> Self {
        Self(AtomicI64::new(1_780_000_000_000))
    }

    pub fn advance(&self, by: Duration) {
        let millis = i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
        self.0.fetch_add(millis, Ordering::SeqCst);
    }
}

impl Default for SimClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SimClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millisecond(self.0.load(Ordering::SeqCst)).unwrap_or(Timestamp::UNIX_EPOCH)
    }
}

/// Sequential ids: 1, 2, 3 and so on.
#[derive(Debug, Default)]
pub struct CountedIds(AtomicU64);

impl Ids for CountedIds {
    fn next(&self) -> Uuid {
        Uuid::from_u128(u128::from(self.0.fetch_add(1, Ordering::SeqCst)) + 1)
    }
}
