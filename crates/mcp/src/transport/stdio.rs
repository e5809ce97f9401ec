//! A server that is a child process, spoken to over its standard input and output.

use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use convoke_model::StdioConfig;
use rmcp::RoleClient;
use rmcp::model::{JsonRpcMessage, ServerJsonRpcMessage};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::Mutex;
use tokio::task::JoinSet;

use super::tracked::{DeliveryError, EndReason, SendOutcome};
use super::wire::{self, KEPT_END, MessageLimits};
use crate::options::Options;

/// The command that means the running binary.
const SELF: &str = "convoke";

/// How much of one line of a child's error output is logged, in bytes.
const MAX_LOGGED_LINE: usize = 8 * 1024;

/// How many times as much as the limit is read of a line, only to reach its end.
const MAX_DROPPED: usize = 8;

/// How long a child that owes an answer may take to end by itself before it is sent a signal.
const SILENT_GRACE: Duration = Duration::from_millis(100);

/// A running child process. It is killed, with all that it started, when this is dropped.
pub(crate) struct StdioTransport {
    server: String,
    child: Child,
    /// Gone once the transport is closed, which tells the child to end.
    input: Arc<Mutex<Option<ChildStdin>>>,
    output: BufReader<ChildStdout>,
    line: Vec<u8>,
    /// Bytes of the line that were dropped, since it is too long.
    dropped: usize,
    limits: MessageLimits,
    /// Why nothing is read any more.
    reason: Option<String>,
    /// Bytes that were no message, since the last one.
    noise: usize,
    /// Whether it has said nothing since it was asked something.
    silent: bool,
    shutdown_grace: Duration,
    /// Owns the task that logs what the child writes to its error output.
    _log: JoinSet<()>,
}

/// One line of a child's output.
enum Line {
    Whole(Vec<u8>),
    /// Only the two ends are left of a line that was too long.
    Ends(Vec<u8>),
}

/// Why a line could not be written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WriteError {
    #[error("the message could not be written as JSON: {0}")]
    Json(#[from] serde_json::Error),
    #[error("the server's input is closed")]
    Closed,
    #[error("the server stopped reading after {written} bytes: {error}")]
    Io { written: usize, error: io::Error },
}

impl DeliveryError for WriteError {
    fn fate(&self) -> SendOutcome {
        match self {
            Self::Json(_) => SendOutcome::TurnedAway,
            // A message is acted upon once it is read, and what is in the pipe may still be read.
            Self::Closed | Self::Io { written: 0, .. } => SendOutcome::NeverLeft,
            Self::Io { .. } => SendOutcome::Broken,
        }
    }

    fn words(&self) -> String {
        self.to_string()
    }
}

impl StdioTransport {
    /// Starts the child process with the few variables that every server gets and its own.
    pub(crate) fn start(server: &str, config: &StdioConfig, options: &Options) -> io::Result<Self> {
        let mut child = Command::new(program(config, options))
            .args(&config.args)
            .env_clear()
            .envs(
                options
                    .environment
                    .iter()
                    .map(|(name, value)| (name, value)),
            )
            .envs(&config.env)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // A group of its own, so that what the server starts can be ended with it, and so that
            // an interrupt at the terminal reaches us alone: we end our servers in order.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        let missing = || io::Error::other("the child process has no pipes");
        let input = child.stdin.take().ok_or_else(missing)?;
        let output = child.stdout.take().ok_or_else(missing)?;
        let errors = child.stderr.take().ok_or_else(missing)?;
        let mut log = JoinSet::new();
        log.spawn(log_lines(server.to_owned(), errors));
        Ok(Self {
            server: server.to_owned(),
            child,
            input: Arc::new(Mutex::new(Some(input))),
            output: BufReader::new(output),
            line: Vec::new(),
            dropped: 0,
            limits: MessageLimits::of(options),
            reason: None,
            noise: 0,
            silent: false,
            shutdown_grace: options.shutdown_grace,
            _log: log,
        })
    }

    /// The next line, without its end. What was read of a line before a cancelled call is kept.
    async fn next_line(&mut self) -> io::Result<Option<Line>> {
        loop {
            let chunk = self.output.fill_buf().await?;
            if chunk.is_empty() {
                let rest = std::mem::take(&mut self.line);
                return Ok((!rest.is_empty()).then_some(Line::Whole(rest)));
            }
            let end = chunk.iter().position(|byte| *byte == b'\n');
            let taken = end.unwrap_or(chunk.len());
            self.line.extend_from_slice(&chunk[..taken]);
            self.output.consume(taken + usize::from(end.is_some()));
            let limit = self.limits.bytes.max(2 * KEPT_END);
            if self.line.len() > limit {
                self.drop_middle();
                if self.dropped / MAX_DROPPED > limit {
                    return Err(io::Error::other(self.limits.too_many_bytes()));
                }
            }
            if end.is_some() {
                let line = std::mem::take(&mut self.line);
                let is_whole = std::mem::take(&mut self.dropped) == 0;
                return Ok(Some(if is_whole {
                    Line::Whole(line)
                } else {
                    Line::Ends(line)
                }));
            }
        }
    }

    /// Keeps the two ends of a line that is too long: they tell whose answer it is.
    fn drop_middle(&mut self) {
        let middle = KEPT_END..self.line.len() - KEPT_END;
        self.dropped = self.dropped.saturating_add(middle.len());
        self.line.drain(middle);
    }

    /// The message of a line, if it is one.
    fn message(&self, line: &Line) -> Option<ServerJsonRpcMessage> {
        match line {
            Line::Whole(text) => wire::read(&self.server, text, &self.limits),
            Line::Ends(ends) => {
                let (head, tail) = ends.split_at(KEPT_END.min(ends.len()));
                let words = self.limits.too_many_bytes();
                tracing::warn!(server = self.server, "{words}");
                wire::answered_by_ends(head, tail).map(|id| wire::too_large(id, words))
            }
        }
    }

    /// Waits until the child has ended by itself. One that still owes an answer is likely to be stuck, and is
    /// asked once more, in the way in which a process can be asked that does not read.
    async fn end(&mut self) -> io::Result<ExitStatus> {
        if self.silent {
            let ended = tokio::time::timeout(SILENT_GRACE, self.child.wait()).await;
            if let Ok(ended) = ended {
                return ended;
            }
            self.signal(Signal::TERM);
        }
        self.child.wait().await
    }

    /// Sends a signal to the child and everything in its group. Only called while the child has not been
    /// waited for, because until then nobody else can have its number.
    fn signal(&mut self, signal: Signal) {
        if let Some(group) = self
            .child
            .id()
            .and_then(|id| Pid::from_raw(i32::try_from(id).ok()?))
        {
            // The group may just have ended by itself, which is as good.
            let _ = kill_process_group(group, signal);
        }
    }
}

impl Drop for StdioTransport {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

impl EndReason for StdioTransport {
    fn reason(&self) -> Option<String> {
        self.reason.clone()
    }
}

impl Transport<RoleClient> for StdioTransport {
    type Error = WriteError;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), WriteError>> + Send + 'static {
        let input = Arc::clone(&self.input);
        self.silent |= matches!(message, JsonRpcMessage::Request(_));
        async move {
            let mut line = serde_json::to_vec(&message)?;
            line.push(b'\n');
            let mut input = input.lock().await;
            let input = input.as_mut().ok_or(WriteError::Closed)?;
            let mut written = 0;
            while written < line.len() {
                match input.write(&line[written..]).await {
                    Ok(0) => {
                        return Err(WriteError::Io {
                            written,
                            error: io::ErrorKind::WriteZero.into(),
                        });
                    }
                    Ok(count) => written += count,
                    Err(error) => return Err(WriteError::Io { written, error }),
                }
            }
            input
                .flush()
                .await
                .map_err(|error| WriteError::Io { written, error })
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            match self.next_line().await {
                Ok(Some(line)) => {
                    if let Some(message) = self.message(&line) {
                        self.silent = false;
                        self.noise = 0;
                        return Some(message);
                    }
                    // Reading on would only take the processor from those who have something to say.
                    self.noise = self.noise.saturating_add(match line {
                        Line::Whole(text) => text.len() + 1,
                        Line::Ends(_) => self.limits.bytes + 1,
                    });
                    if self.noise > self.limits.bytes {
                        let reason = format!("{}, and no message", self.limits.too_many_bytes());
                        tracing::warn!(server = self.server, reason, "the server is given up");
                        self.reason = Some(reason);
                        return None;
                    }
                }
                Ok(None) => {
                    tracing::debug!(server = self.server, "the server closed its output");
                    return None;
                }
                Err(error) => {
                    tracing::warn!(server = self.server, %error, "the server's output is unreadable");
                    self.reason = Some(error.to_string());
                    return None;
                }
            }
        }
    }

    /// Closes the child's input, which asks it to end, and kills it if it does not.
    async fn close(&mut self) -> Result<(), WriteError> {
        // A write that hangs because the child stopped reading must not keep us here.
        if let Ok(mut input) = tokio::time::timeout(self.shutdown_grace, self.input.lock()).await {
            input.take();
        }
        let ended = tokio::time::timeout(self.shutdown_grace, self.end()).await;
        match ended {
            Ok(Ok(status)) => tracing::debug!(server = self.server, %status, "the server ended"),
            Ok(Err(error)) => tracing::warn!(server = self.server, %error, "the server is lost"),
            Err(_) => {
                tracing::debug!(
                    server = self.server,
                    "the server is killed, as it did not end"
                );
                self.signal(Signal::KILL);
                // Killed processes are gone at once; waiting takes them off the process table.
                let _ = self.child.wait().await;
            }
        }
        Ok(())
    }
}

fn program(config: &StdioConfig, options: &Options) -> PathBuf {
    match &options.self_exe {
        Some(own) if config.command == SELF => own.clone(),
        _ => PathBuf::from(&config.command),
    }
}

async fn log_lines(server: String, errors: impl AsyncRead + Unpin) {
    let mut lines = BufReader::new(errors);
    let mut line = Vec::new();
    // What exceeds the limit is read and dropped, or the child would block on a full pipe.
    while let Ok(chunk) = lines.fill_buf().await {
        if chunk.is_empty() {
            break;
        }
        let end = chunk.iter().position(|byte| *byte == b'\n');
        let taken = end.unwrap_or(chunk.len());
        let room = MAX_LOGGED_LINE.saturating_sub(line.len());
        line.extend_from_slice(&chunk[..taken.min(room)]);
        lines.consume(taken + usize::from(end.is_some()));
        if end.is_some() {
            tracing::debug!(server, "{}", String::from_utf8_lossy(&line).trim_end());
            line.clear();
        }
    }
    if !line.is_empty() {
        tracing::debug!(server, "{}", String::from_utf8_lossy(&line).trim_end());
    }
}
