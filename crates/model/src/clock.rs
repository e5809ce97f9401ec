//! Where time, ids and chance come from. All are parameters everywhere, so that a replay and a test
//! are exact; the system's own are named here and nowhere else.

use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;

use jiff::Timestamp;
use uuid::Uuid;

/// Tells the time.
pub trait Clock: Send + Sync + std::fmt::Debug + 'static {
    /// The present moment.
    fn now(&self) -> Timestamp;
}

/// Mints ids.
pub trait Ids: Send + Sync + std::fmt::Debug + 'static {
    /// An id that nobody has yet. Ids sort by the time they were minted.
    fn next(&self) -> Uuid;
}

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place that reads the machine's clock"
    )]
    fn now(&self) -> Timestamp {
        // Milliseconds are what every store keeps, so that a value read back equals the one written.
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
        reason = "the one place that mints random ids"
    )]
    fn next(&self) -> Uuid {
        Uuid::now_v7()
    }
}

/// A source of numbers between 0 and 1, so that many clients do not come back at the same moment.
#[derive(Clone)]
pub struct Jitter(Arc<dyn Fn() -> f64 + Send + Sync>);

impl Jitter {
    /// A source of one's own, such as a constant for a test.
    pub fn new(source: impl Fn() -> f64 + Send + Sync + 'static) -> Self {
        Self(Arc::new(source))
    }

    /// The next number, kept between 0 and 1.
    pub fn next(&self) -> f64 {
        (self.0)().clamp(0.0, 1.0)
    }
}

impl Default for Jitter {
    /// The standard library seeds every hasher at random, which is random enough for a pause.
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
