//! Sources of time, ids and randomness. All code takes them as parameters, so that replays and tests are
//! exact; only this file reads the machine's own.

use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use uuid::Uuid;

/// Source of the current time.
pub trait Clock: Send + Sync + std::fmt::Debug + 'static {
    /// The current time, in whole milliseconds.
    fn now(&self) -> Timestamp;
}

/// Source of ids.
pub trait Ids: Send + Sync + std::fmt::Debug + 'static {
    /// A new unique id. Ids sort by creation time.
    fn next(&self) -> Uuid;
}

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(
        clippy::disallowed_methods,
        reason = "the only place that reads the machine's clock"
    )]
    fn now(&self) -> Timestamp {
        // Stores keep milliseconds; truncating makes a value equal to the one read back.
        let now = Timestamp::now();
        Timestamp::from_millisecond(now.as_millisecond()).unwrap_or(now)
    }
}

/// `UUIDv7` from the machine's clock and random source.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemIds;

impl Ids for SystemIds {
    #[expect(
        clippy::disallowed_methods,
        reason = "the only place that creates random ids"
    )]
    fn next(&self) -> Uuid {
        Uuid::now_v7()
    }
}

/// Random numbers from 0 to 1, so that clients do not retry in lockstep.
#[derive(Clone)]
pub struct Jitter(Arc<dyn Fn() -> f64 + Send + Sync>);

impl Jitter {
    /// A custom source, such as a constant in a test.
    pub fn new(source: impl Fn() -> f64 + Send + Sync + 'static) -> Self {
        Self(Arc::new(source))
    }

    /// The pause after this many consecutive failures: none before the first, then doubled from `first` up to
    /// `longest`, with jitter between half and all of it.
    pub fn backoff(&self, first: Duration, longest: Duration, failures: u32) -> Duration {
        if failures == 0 {
            return Duration::ZERO;
        }
        let doublings = (failures - 1).min(31);
        let whole = first.saturating_mul(1 << doublings).min(longest);
        whole.mul_f64(0.5 + self.next() / 2.0)
    }

    /// The next number, clamped to 0 to 1.
    pub fn next(&self) -> f64 {
        (self.0)().clamp(0.0, 1.0)
    }
}

impl Default for Jitter {
    /// Uses the random seed of the standard library's hasher, which is random enough for a delay.
    fn default() -> Self {
        Self::new(|| {
            let bits = RandomState::new().build_hasher().finish() >> 32;
            f64::from(u32::try_from(bits).unwrap_or(u32::MAX)) / f64::from(u32::MAX)
        })
    }
}

impl fmt::Debug for Jitter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Jitter")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn backoff(jitter: f64, failures: u32) -> Duration {
        let (first, longest) = (Duration::from_millis(100), Duration::from_secs(1));
        Jitter::new(move || jitter).backoff(first, longest, failures)
    }

    #[test]
    fn pauses_double_up_to_the_limit() {
        let pauses: Vec<u128> = (0..7)
            .map(|failures| backoff(1.0, failures).as_millis())
            .collect();
        assert_eq!(pauses, [0, 100, 200, 400, 800, 1000, 1000]);
    }

    #[test]
    fn jitter_is_half_of_the_pause() {
        assert_eq!(backoff(0.0, 3), Duration::from_millis(200));
        assert_eq!(backoff(7.0, 3), Duration::from_millis(400));
        assert!(backoff(0.5, u32::MAX) <= Duration::from_secs(1));
    }
}
