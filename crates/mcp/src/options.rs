//! Limits of the client, with their defaults.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use convoke_model::Jitter;
use convoke_schema::Limits;

use crate::error::StartFailure;

/// Environment variables that every child process inherits. All others must be declared in the app.
pub const INHERITED_ENVIRONMENT: [&str; 4] = ["PATH", "HOME", "LANG", "TMPDIR"];

/// Options of the client of tool servers. The time limit for connecting belongs to each server
/// (`connect_seconds`).
#[derive(Debug, Clone)]
pub struct Options {
    /// Time limit of a call without its own.
    pub call_timeout: Duration,
    /// Time limit of listing a server's tools.
    pub list_timeout: Duration,
    /// Limit of pages in a tool list.
    pub max_tool_pages: usize,
    /// Attempts to start a server before waiting callers get an error.
    pub connect_attempts: u32,
    /// The pause after the first failed start, doubled after each further one.
    pub backoff_first: Duration,
    /// Limit of a pause between starts.
    pub backoff_longest: Duration,
    /// How long callers of a server that has never worked get its last failure, before it is started again.
    pub failed_start_hold: Duration,
    /// How long to wait for the answer to the newest protocol's first request before using the older
    /// protocol. Doubled with every attempt.
    pub discover_timeout: Duration,
    /// How long a child process may take to exit after its input is closed.
    pub shutdown_grace: Duration,
    /// Limit of a server's message in bytes, and of what a child process may write between two messages.
    pub max_message_bytes: usize,
    /// Limit of JSON values in a message: a value of two bytes takes many times as much memory.
    pub max_message_values: usize,
    /// Limits of checking arguments against a tool's schema.
    pub schema: Limits,
    /// Limit of concurrent requests to one HTTP server.
    pub max_concurrent_posts: usize,
    /// The program for the command `convoke`: the running binary.
    pub self_exe: Option<PathBuf>,
    /// The folder that a relative `cwd` of a child process is relative to; the current one by default.
    pub app_folder: Option<PathBuf>,
    /// Told whenever a server could not be started or connected to.
    pub on_failed_start: Option<StartObserver>,
    /// Environment variables of every child process.
    pub environment: Vec<(String, String)>,
    /// Randomness of pauses.
    pub jitter: Jitter,
}

/// Told of servers that could not be started.
#[derive(Clone)]
pub struct StartObserver(Arc<dyn Fn(&StartFailure) + Send + Sync>);

impl StartObserver {
    pub fn new(observer: impl Fn(&StartFailure) + Send + Sync + 'static) -> Self {
        Self(Arc::new(observer))
    }

    pub(crate) fn tell(&self, failure: &StartFailure) {
        (self.0)(failure);
    }
}

impl fmt::Debug for StartObserver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StartObserver")
    }
}

impl Options {
    /// The pause before the next start after this many consecutive failures.
    pub(crate) fn pause_after(&self, failures: u32) -> Duration {
        self.jitter
            .backoff(self.backoff_first, self.backoff_longest, failures)
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            call_timeout: Duration::from_mins(5),
            list_timeout: Duration::from_secs(30),
            max_tool_pages: 100,
            connect_attempts: 3,
            backoff_first: Duration::from_millis(200),
            backoff_longest: Duration::from_secs(2),
            failed_start_hold: Duration::from_secs(5),
            discover_timeout: Duration::from_secs(3),
            shutdown_grace: Duration::from_secs(2),
            max_message_bytes: 16 * 1024 * 1024,
            max_message_values: 250_000,
            schema: Limits::default(),
            max_concurrent_posts: 256,
            self_exe: std::env::current_exe().ok(),
            app_folder: None,
            on_failed_start: None,
            environment: inherited_environment(),
            jitter: Jitter::default(),
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "these variables are not settings of Convoke; child processes need them"
)]
fn inherited_environment() -> Vec<(String, String)> {
    INHERITED_ENVIRONMENT
        .iter()
        .filter_map(|name| Some(((*name).to_owned(), std::env::var(name).ok()?)))
        .collect()
}
