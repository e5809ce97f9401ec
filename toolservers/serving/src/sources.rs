//! Where time and ids come from, so that tests can say which they are.

use jiff::Timestamp;
use uuid::Uuid;

/// Where time and ids come from.
#[derive(Debug, Clone, Copy)]
pub struct Sources {
    /// The present time.
    pub now: fn() -> Timestamp,
    /// An id that nobody has.
    pub id: fn() -> Uuid,
}

impl Sources {
    /// The system's clock, and ids that sort by time.
    #[expect(
        clippy::disallowed_methods,
        reason = "a tool server is an edge of its own: nothing is replayed here"
    )]
    pub fn real() -> Self {
        Self {
            now: Timestamp::now,
            id: Uuid::now_v7,
        }
    }
}
