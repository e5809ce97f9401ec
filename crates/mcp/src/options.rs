//! Every limit of the client, with its default.

use std::path::PathBuf;
use std::time::Duration;

use convoke_model::Jitter;
use convoke_schema::Limits;

/// The variables of our own environment that a child process gets. Whatever else it needs is
/// declared in the app.
pub const INHERITED_ENVIRONMENT: [&str; 4] = ["PATH", "HOME", "LANG", "TMPDIR"];

/// How the client of tool servers behaves. The time to connect is each server's own
/// (`connect_seconds`).
#[derive(Debug, Clone)]
pub struct Options {
    /// How long a call may take that names no timeout of its own.
    pub call_timeout: Duration,
    /// How long the listing of a server's tools may take.
    pub list_timeout: Duration,
    /// How many pages of tools are read from one server before it is taken to be broken.
    pub max_tool_pages: usize,
    /// How often a start is tried before the callers who wait for it are told.
    pub connect_attempts: u32,
    /// The pause after the first failed start. Every further one doubles it.
    pub backoff_first: Duration,
    /// The longest pause between starts.
    pub backoff_longest: Duration,
    /// How long a server may leave the newest protocol's first question unanswered before it is
    /// greeted in the older way. Doubled with every attempt.
    pub discover_timeout: Duration,
    /// How long a child process may take to end by itself once its input is closed.
    pub shutdown_grace: Duration,
    /// The largest message that is read from a server, in bytes, and the most that a child process may write
    /// between two messages.
    pub max_message_bytes: usize,
    /// The most JSON values in one such message: a value of two bytes takes many times as much in memory.
    pub max_message_values: usize,
    /// How much work checking arguments against a tool's schema may take.
    pub schema: Limits,
    /// How many requests may be under way to one HTTP server at the same time.
    pub max_concurrent_posts: usize,
    /// What the command `convoke` means: the running binary.
    pub self_exe: Option<PathBuf>,
    /// The variables that every child process gets.
    pub environment: Vec<(String, String)>,
    /// Where the spread of the pauses comes from.
    pub jitter: Jitter,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            call_timeout: Duration::from_mins(5),
            list_timeout: Duration::from_secs(30),
            max_tool_pages: 100,
            connect_attempts: 3,
            backoff_first: Duration::from_millis(200),
            backoff_longest: Duration::from_secs(10),
            discover_timeout: Duration::from_secs(3),
            shutdown_grace: Duration::from_secs(2),
            max_message_bytes: 16 * 1024 * 1024,
            max_message_values: 250_000,
            schema: Limits::default(),
            max_concurrent_posts: 256,
            self_exe: std::env::current_exe().ok(),
            environment: inherited_environment(),
            jitter: Jitter::default(),
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "these four are no settings of ours: a child process needs them to find its own parts"
)]
fn inherited_environment() -> Vec<(String, String)> {
    INHERITED_ENVIRONMENT
        .iter()
        .filter_map(|name| Some(((*name).to_owned(), std::env::var(name).ok()?)))
        .collect()
}
