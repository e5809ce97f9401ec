//! One server: connected on first use, and again when its connection ends.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use convoke_model::{McpServer, Transport};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::error::{McpError, StartFailure};
use crate::options::Options;
use crate::session::Session;
use crate::transport::{
    PeerEnd, SseTransport, StdioTransport, TrackedTransport, WatchedChild, http_client, open_http,
};

/// The state shared by all servers of one handle.
pub(crate) struct Shared {
    pub(crate) options: Options,
    /// Cancelled at shutdown, after which nothing is started.
    pub(crate) stop: CancellationToken,
    /// Tracks every task and connection.
    pub(crate) tracker: TaskTracker,
    http: OnceLock<Result<reqwest::Client, String>>,
}

impl Shared {
    pub(crate) fn new(options: Options) -> Self {
        Self {
            options,
            stop: CancellationToken::new(),
            tracker: TaskTracker::new(),
            http: OnceLock::new(),
        }
    }

    /// Created on first use, so that apps without HTTP servers do not load certificates.
    fn http(&self) -> Result<reqwest::Client, StartError> {
        self.http
            .get_or_init(http_client)
            .clone()
            .map_err(StartError::Permanent)
    }
}

/// A server and its connection.
pub(crate) struct Server {
    pub(crate) config: McpServer,
    shared: Arc<Shared>,
    state: Mutex<State>,
    /// Whether it has ever been connected.
    has_worked: AtomicBool,
    last_failure: Mutex<Option<Arc<StartFailure>>>,
}

type StartResult = Result<Arc<Session>, McpError>;

enum State {
    /// Not connected.
    Disconnected(Failures),
    /// Connecting; all callers wait for the same outcome.
    Starting(watch::Receiver<Option<StartResult>>),
    /// Connected, after this many consecutive failures.
    Connected(Arc<Session>, Failures),
    /// It has never worked, and is not started again until then.
    Failed {
        failure: Arc<StartFailure>,
        until: Instant,
        failures: Failures,
    },
}

/// What a caller gets who needs a connection.
enum Connection {
    Ready(Arc<Session>),
    /// Connecting; the outcome will be here.
    Starting(watch::Receiver<Option<StartResult>>),
    Failed(Arc<StartFailure>),
}

/// Consecutive failures, and when the next start is allowed.
#[derive(Clone, Copy, Default)]
struct Failures {
    count: u32,
    not_before: Option<Instant>,
}

/// Why a server could not be connected.
#[derive(Debug)]
enum StartError {
    /// Retrying at once would fail in the same way.
    Permanent(String),
    Transient(String),
}

impl Server {
    pub(crate) fn new(config: McpServer, shared: Arc<Shared>) -> Self {
        Self {
            config,
            shared,
            state: Mutex::new(State::Disconnected(Failures::default())),
            has_worked: AtomicBool::new(false),
            last_failure: Mutex::default(),
        }
    }

    pub(crate) fn name(&self) -> &str {
        self.config.name.as_str()
    }

    /// Time limit of a start.
    pub(crate) fn connect_timeout(&self) -> Duration {
        Duration::from_secs(self.config.connect_seconds.into())
    }

    /// Returns the connection and starts one if needed. The start continues for other callers after this
    /// caller's deadline.
    pub(crate) async fn session(
        self: &Arc<Self>,
        deadline: Instant,
    ) -> Result<Arc<Session>, McpError> {
        if self.shared.stop.is_cancelled() {
            return Err(self.not_sent("the tool servers are shut down"));
        }
        let mut outcome = match self.connected_or_starting() {
            Connection::Ready(session) => return Ok(session),
            Connection::Failed(failure) => return Err(McpError::NotStarted(failure)),
            Connection::Starting(outcome) => outcome,
        };
        let waited = tokio::time::timeout_at(deadline, outcome.wait_for(Option::is_some)).await;
        match waited {
            Ok(Ok(started)) => match &*started {
                Some(Ok(session)) => Ok(Arc::clone(session)),
                Some(Err(error)) => Err(error.clone()),
                None => Err(self.not_sent("it was not started")),
            },
            Ok(Err(_)) => Err(self.not_sent("the tool servers are shut down")),
            Err(_) => Err(self.not_sent("it was not connected before the call's deadline")),
        }
    }

    fn connected_or_starting(self: &Arc<Self>) -> Connection {
        let mut state = self.state();
        let failures = match &*state {
            State::Connected(session, _) if session.is_usable() => {
                return Connection::Ready(Arc::clone(session));
            }
            State::Starting(outcome) => return Connection::Starting(outcome.clone()),
            State::Failed { failure, until, .. } if Instant::now() < *until => {
                return Connection::Failed(Arc::clone(failure));
            }
            State::Connected(session, _) if session.has_ever_answered() => Failures::default(),
            // The connection ended before any answer, which counts as a failed start.
            State::Connected(_, failures) => self.next_failure(*failures),
            State::Disconnected(failures) | State::Failed { failures, .. } => *failures,
        };
        let (sender, outcome) = watch::channel(None);
        *state = State::Starting(outcome.clone());
        let server = Arc::clone(self);
        self.shared.tracker.spawn(async move {
            let stop = server.shared.stop.clone();
            tokio::select! {
                // Dropping the sender notifies the waiting callers.
                () = stop.cancelled() => drop(sender),
                started = server.start(failures) => { let _ = sender.send(Some(started)); }
            }
            // A start that succeeds during shutdown must be closed.
            if stop.is_cancelled() {
                server.close().await;
            }
        });
        Connection::Starting(outcome)
    }

    /// Tries several times within the server's connect time. A child process that has never worked and exits at once
    /// is not started again: it would exit again.
    async fn start(&self, mut failures: Failures) -> StartResult {
        if let Some(not_before) = failures.not_before {
            tokio::time::sleep_until(not_before).await;
        }
        let until = Instant::now() + self.connect_timeout();
        let mut attempt = 0;
        let started = loop {
            let mut child = None;
            let connecting = self.connect(attempt, &mut child);
            let error = match tokio::time::timeout_at(until, connecting).await {
                Ok(Ok(session)) => break Ok(Arc::new(session)),
                Ok(Err(error)) => error,
                Err(_) => StartError::Permanent(format!(
                    "it did not start within {} s (connect_seconds)",
                    self.config.connect_seconds
                )),
            };
            failures = self.next_failure(failures);
            attempt += 1;
            let again = attempt < self.shared.options.connect_attempts;
            match (error, failures.not_before) {
                (StartError::Transient(reason), Some(next)) if again && next < until => {
                    tracing::debug!(server = self.name(), reason, "retrying to start the server");
                    tokio::time::sleep_until(next).await;
                }
                (StartError::Permanent(reason), _) => {
                    break Err(self.failed(reason, child, true).await);
                }
                (StartError::Transient(reason), _) => {
                    break Err(self.failed(reason, child, false).await);
                }
            }
        };
        if started.is_ok() {
            self.has_worked.store(true, Ordering::SeqCst);
            *self.failure() = None;
        }
        *self.state() = match &started {
            Ok(session) => State::Connected(Arc::clone(session), failures),
            Err(McpError::NotStarted(failure)) => State::Failed {
                failure: Arc::clone(failure),
                until: Instant::now() + self.shared.options.failed_start_hold,
                failures,
            },
            Err(_) => State::Disconnected(failures),
        };
        started
    }

    /// Tells that the server could not be started, and makes the error for its callers.
    async fn failed(
        &self,
        reason: String,
        child: Option<WatchedChild>,
        is_permanent: bool,
    ) -> McpError {
        tracing::warn!(server = self.name(), reason, "the server cannot be reached");
        let error_output = match child {
            Some(child) => child.end().last_lines().await,
            None => Vec::new(),
        };
        let failure = Arc::new(StartFailure {
            server: self.name().to_owned(),
            reason,
            error_output,
        });
        *self.failure() = Some(Arc::clone(&failure));
        if let Some(observer) = &self.shared.options.on_failed_start {
            observer.tell(&failure);
        }
        if is_permanent && !self.has_worked.load(Ordering::SeqCst) {
            McpError::NotStarted(failure)
        } else {
            self.not_sent(failure.reason.as_str())
        }
    }

    /// Connects once. What is known of a child process is left in `child`.
    async fn connect(
        &self,
        attempt: u32,
        child: &mut Option<WatchedChild>,
    ) -> Result<Session, StartError> {
        let options = &self.shared.options;
        let silence = options
            .discover_timeout
            .saturating_mul(1 << attempt.min(16));
        match &self.config.transport {
            Transport::Stdio(config) => {
                let transport = StdioTransport::start(self.name(), config, options)
                    .map_err(|error| not_started(&config.command, &error))?;
                let watched = child.insert(transport.watched());
                match self.establish(transport, Some(silence)).await {
                    Err(StartError::Transient(reason))
                        if !self.has_worked.load(Ordering::SeqCst)
                            && watched.end().known_exit().is_some() =>
                    {
                        Err(StartError::Permanent(reason))
                    }
                    outcome => outcome,
                }
            }
            Transport::Sse(config) => {
                let transport =
                    SseTransport::connect(self.name(), self.shared.http()?, config, options)
                        .await
                        .map_err(StartError::Transient)?;
                self.establish(transport, Some(silence)).await
            }
            Transport::Http(config) => {
                let transport = open_http(self.shared.http()?, config, options)
                    .map_err(StartError::Permanent)?;
                self.establish(transport, None).await
            }
        }
    }

    async fn establish<T>(
        &self,
        transport: T,
        silence: Option<Duration>,
    ) -> Result<Session, StartError>
    where
        TrackedTransport<T>: rmcp::transport::Transport<rmcp::RoleClient, Error = crate::transport::SendFailure>
            + 'static,
    {
        let ended = PeerEnd::default();
        let tracker = self.shared.tracker.clone();
        let transport = TrackedTransport::new(transport, ended.clone(), silence, tracker.token());
        Session::establish(self.name(), transport, ended, tracker)
            .await
            .map_err(StartError::Transient)
    }

    /// Closes the connection, if there is one.
    pub(crate) async fn close(&self) {
        let state = std::mem::replace(&mut *self.state(), State::Disconnected(Failures::default()));
        if let State::Connected(session, _) = state {
            session.close().await;
        }
    }

    fn next_failure(&self, failures: Failures) -> Failures {
        let count = failures.count.saturating_add(1);
        let pause = self.shared.options.pause_after(count);
        Failures {
            count,
            not_before: Some(Instant::now() + pause),
        }
    }

    /// Why it could not be started when that was last tried.
    pub(crate) fn last_failure(&self) -> Option<Arc<StartFailure>> {
        self.failure().clone()
    }

    fn failure(&self) -> MutexGuard<'_, Option<Arc<StartFailure>>> {
        let failure = self.last_failure.lock();
        failure.unwrap_or_else(PoisonError::into_inner)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn not_sent(&self, reason: impl Into<String>) -> McpError {
        McpError::NotSent {
            server: self.name().to_owned(),
            reason: reason.into(),
        }
    }
}

fn not_started(command: &str, error: &std::io::Error) -> StartError {
    let reason = match error.get_ref() {
        Some(own) => own.to_string(),
        None => format!("`{command}` could not be started: {error}"),
    };
    match error.kind() {
        std::io::ErrorKind::NotFound | std::io::ErrorKind::PermissionDenied => {
            StartError::Permanent(reason)
        }
        _ => StartError::Transient(reason),
    }
}
