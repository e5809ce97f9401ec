//! A clock that a test moves, and predictable ids.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use convoke_model::{Clock, Ids};
use jiff::Timestamp;
use tokio::time::Instant;
use uuid::Uuid;

/// A clock that stands still until [`SimClock::advance`].
#[derive(Debug)]
pub struct SimClock {
    millis: AtomicI64,
    running_since: Option<Instant>,
}

impl SimClock {
    /// Starts on a fixed day in 2026.
    pub fn new() -> Self {
        Self {
            millis: AtomicI64::new(1_780_000_000_000),
            running_since: None,
        }
    }

    /// A clock on which time passes as in the runtime, and may be advanced besides.
    pub fn running() -> Self {
        Self {
            running_since: Some(Instant::now()),
            ..Self::new()
        }
    }

    pub fn advance(&self, by: Duration) {
        let millis = i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
        self.millis.fetch_add(millis, Ordering::SeqCst);
    }
}

impl Default for SimClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SimClock {
    fn now(&self) -> Timestamp {
        let passed = self
            .running_since
            .map_or(0, |since| since.elapsed().as_millis());
        let millis = self.millis.load(Ordering::SeqCst) + i64::try_from(passed).unwrap_or(0);
        Timestamp::from_millisecond(millis).unwrap_or(Timestamp::UNIX_EPOCH)
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
