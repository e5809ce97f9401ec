//! Where time and ids come from. Both are parameters everywhere, so that a replay and a test are
//! exact; the system's own are named here and nowhere else.

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
