//! Limits of the client, with their defaults.

use std::sync::Arc;
use std::time::Duration;

use convoke_model::{Clock, Jitter, SystemClock};

/// Limits of the client of chat models. The time limit of a completion belongs to each request.
#[derive(Debug, Clone)]
pub struct Options {
    /// Limit of concurrent requests to one endpoint.
    pub max_concurrent: usize,
    /// Attempts with one model before the next one of the list.
    pub max_attempts: u32,
    /// Time limit for connecting.
    pub connect_timeout: Duration,
    /// Time limit of one attempt for the whole answer or, when streaming, for its first chunk.
    pub attempt_timeout: Duration,
    /// How long a stream may be silent before it counts as broken.
    pub stream_idle_timeout: Duration,
    /// Limit of an answer, in bytes.
    pub max_response_bytes: usize,
    /// The pause after the first failed attempt, doubled after each further one.
    pub backoff_first: Duration,
    /// Limit of a pause chosen by the client.
    pub backoff_longest: Duration,
    /// Limit of a pause requested by a server; longer ones end the attempts.
    pub retry_after_longest: Duration,
    /// The longest pause that the client waits for a caller that can wait itself.
    pub hold_pauses: Duration,
    /// How long an idle connection is kept.
    pub idle_connection: Duration,
    /// Randomness of pauses.
    pub jitter: Jitter,
    /// Evaluates dates in `Retry-After`.
    pub clock: Arc<dyn Clock>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            max_concurrent: 64,
            max_attempts: 4,
            connect_timeout: Duration::from_secs(10),
            attempt_timeout: Duration::from_mins(2),
            stream_idle_timeout: Duration::from_secs(30),
            max_response_bytes: 16 * 1024 * 1024,
            backoff_first: Duration::from_millis(250),
            backoff_longest: Duration::from_secs(8),
            retry_after_longest: Duration::from_mins(1),
            hold_pauses: Duration::from_secs(2),
            idle_connection: Duration::from_mins(1),
            jitter: Jitter::default(),
            clock: Arc::new(SystemClock),
        }
    }
}
