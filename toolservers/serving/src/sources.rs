//! Sources of time and ids, replaceable in tests.

use jiff::Timestamp;
use uuid::Uuid;

/// Sources of time and ids.
#[derive(Debug, Clone, Copy)]
pub struct Sources {
    /// The current time.
    pub now: fn() -> Timestamp,
    /// A new unique id.
    pub id: fn() -> Uuid,
}

impl Sources {
    /// The system's clock, and ids that sort by time.
    #[expect(clippy::disallowed_methods, reason = "tool servers are not replayed")]
    pub fn real() -> Self {
        Self {
            now: Timestamp::now,
            id: Uuid::now_v7,
        }
    }
}
