//! Every limit of the client, with its default.

use std::sync::Arc;
use std::time::Duration;

use convoke_model::{Clock, Jitter, SystemClock};

/// How the client of chat models behaves. How long one completion may take as a whole is each
/// request's own.
#[derive(Debug, Clone)]
pub struct Options {
    /// How many requests may be under way to one endpoint at the same time.
    pub max_concurrent: usize,
    /// How often one model is tried before the next of the list.
    pub max_attempts: u32,
    /// How long a connection may take to be made.
    pub connect_timeout: Duration,
    /// How long one attempt may wait for its whole answer or, when streaming, for the first of it.
    pub attempt_timeout: Duration,
    /// How long a stream may be silent before it is taken to be broken.
    pub stream_idle_timeout: Duration,
    /// The largest answer that is read, in bytes.
    pub max_response_bytes: usize,
    /// The pause after the first failed attempt. Every further one doubles it.
    pub backoff_first: Duration,
    /// The longest pause that we choose ourselves.
    pub backoff_longest: Duration,
    /// The longest pause that a server may ask for; one that asks for more is given up for now.
    pub retry_after_longest: Duration,
    /// How long an idle connection is kept.
    pub idle_connection: Duration,
    /// Where the spread of the pauses comes from.
    pub jitter: Jitter,
    /// Tells how far away the date of a `Retry-After` is.
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
            idle_connection: Duration::from_mins(1),
            jitter: Jitter::default(),
            clock: Arc::new(SystemClock),
        }
    }
}
