//! A server in a child process, connected over standard input and output.

use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use convoke_model::StdioConfig;
use rmcp::RoleClient;
use rmcp::model::{JsonRpcMessage, ServerJsonRpcMessage};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::Mutex;

use super::child_end::WatchedChild;
use super::tracked::{DeliveryError, EndReason, SendOutcome};
use super::wire::{self, END_BYTES, MessageLimits};
use crate::options::Options;

/// The command that means the running binary.
const SELF: &str = "convoke";

/// Limit of a line that is read just to find its end, as a multiple of the message limit.
const MAX_DROPPED_FACTOR: usize = 8;

/// How long a child with an open request may take to exit before it gets a signal.
const STUCK_GRACE: Duration = Duration::from_millis(100);

/// A running child process. Dropping it kills the process and all that it started.
pub(crate) struct StdioTransport {
    server: String,
    child: Child,
    /// `None` after the transport is closed, which asks the child to exit.
    input: Arc<Mutex<Option<ChildStdin>>>,
    output: BufReader<ChildStdout>,
    line: Vec<u8>,
    /// Bytes dropped from the current line because it is too long.
    dropped: usize,
    limits: MessageLimits,
    /// Why reading stopped.
    reason: Option<String>,
    /// Bytes without a message since the last message.
    bytes_without_message: usize,
    /// Whether it has not answered since the last request.
    is_silent: bool,
    shutdown_grace: Duration,
    watched: WatchedChild,
}

/// One line of a child's output.
enum Line {
    Whole(Vec<u8>),
    /// The first and last part of a line that was too long.
    Ends(Vec<u8>),
}

/// Why a line could not be written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WriteError {
    #[error("the message could not be written as JSON: {0}")]
    Json(#[from] serde_json::Error),
    #[error("the server's input is closed")]
    Closed,
    #[error("{}", exit.clone().unwrap_or_else(|| format!("the server stopped reading after {written} bytes: {error}")))]
    Io {
        written: usize,
        error: io::Error,
        /// How the child exited, if it did.
        exit: Option<String>,
    },
}

impl DeliveryError for WriteError {
    fn outcome(&self) -> SendOutcome {
        match self {
            Self::Json(_) => SendOutcome::RejectedUnread,
            // A message counts once it has been read completely; what is in the pipe may still be read.
            Self::Closed | Self::Io { written: 0, .. } => SendOutcome::NeverLeft,
            Self::Io { .. } => SendOutcome::Broken,
        }
    }

    fn message(&self) -> String {
        self.to_string()
    }
}

impl StdioTransport {
    /// Starts the child process with the inherited and declared environment variables.
    pub(crate) fn start(server: &str, config: &StdioConfig, options: &Options) -> io::Result<Self> {
        let folder = folder(config, options)?;
        let mut command = Command::new(program(config, options, folder.as_deref()));
        if let Some(folder) = folder {
            command.current_dir(folder);
        }
        let mut child = command
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
            // A process group of its own, so that everything the server starts can be killed with it, and so
            // that Ctrl-C in the terminal reaches only this process, which then ends its servers in order.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        let missing = || io::Error::other("the child process has no pipes");
        let input = child.stdin.take().ok_or_else(missing)?;
        let output = child.stdout.take().ok_or_else(missing)?;
        let errors = child.stderr.take().ok_or_else(missing)?;
        let watched = WatchedChild::watch(server, child.id(), errors);
        Ok(Self {
            server: server.to_owned(),
            child,
            input: Arc::new(Mutex::new(Some(input))),
            output: BufReader::new(output),
            line: Vec::new(),
            dropped: 0,
            limits: MessageLimits::of(options),
            reason: None,
            bytes_without_message: 0,
            is_silent: false,
            shutdown_grace: options.shutdown_grace,
            watched,
        })
    }

    /// The child, to be asked how it ended.
    pub(crate) fn watched(&self) -> WatchedChild {
        self.watched.clone()
    }

    /// The next line without its end. Keeps what was read if the call is cancelled.
    async fn next_line(&mut self) -> io::Result<Option<Line>> {
        loop {
            let chunk = self.output.fill_buf().await?;
            if chunk.is_empty() {
                let rest = std::mem::take(&mut self.line);
                return Ok((!rest.is_empty()).then_some(Line::Whole(rest)));
            }
            let end = chunk.iter().position(|byte| *byte == b'\n');
            let length = end.unwrap_or(chunk.len());
            self.line.extend_from_slice(&chunk[..length]);
            self.output.consume(length + usize::from(end.is_some()));
            let limit = self.limits.bytes.max(2 * END_BYTES);
            if self.line.len() > limit {
                self.drop_middle();
                if self.dropped / MAX_DROPPED_FACTOR > limit {
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

    /// Keeps both ends of a line that is too long; they tell which request it answers.
    fn drop_middle(&mut self) {
        let middle = END_BYTES..self.line.len() - END_BYTES;
        self.dropped = self.dropped.saturating_add(middle.len());
        self.line.drain(middle);
    }

    /// The message in a line, if it is one.
    fn message(&self, line: &Line) -> Option<ServerJsonRpcMessage> {
        match line {
            Line::Whole(text) => wire::read(&self.server, text, &self.limits),
            Line::Ends(ends) => {
                let (head, tail) = ends.split_at(END_BYTES.min(ends.len()));
                let message = self.limits.too_many_bytes();
                tracing::warn!(server = self.server, "{message}");
                wire::answered_by_ends(head, tail).map(|id| wire::too_large(id, message))
            }
        }
    }

    /// Waits for the child to exit. One with an open request is probably stuck and also gets a signal.
    async fn exited(&mut self) -> io::Result<ExitStatus> {
        if self.is_silent {
            let ended = tokio::time::timeout(STUCK_GRACE, self.child.wait()).await;
            if let Ok(ended) = ended {
                return ended;
            }
            self.signal(Signal::TERM);
        }
        self.child.wait().await
    }

    /// Sends a signal to the child's process group. The child has not been waited for, so its id cannot
    /// have been reused.
    fn signal(&mut self, signal: Signal) {
        if let Some(group) = self
            .child
            .id()
            .and_then(|id| Pid::from_raw(i32::try_from(id).ok()?))
        {
            // The group may have exited just now, which is fine.
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
        let (input, end) = (Arc::clone(&self.input), Arc::clone(self.watched.end()));
        self.is_silent |= matches!(message, JsonRpcMessage::Request(_));
        async move {
            let mut line = serde_json::to_vec(&message)?;
            line.push(b'\n');
            let mut input = input.lock().await;
            let input = input.as_mut().ok_or(WriteError::Closed)?;
            let mut written = 0;
            let error = loop {
                if written == line.len() {
                    match input.flush().await {
                        Ok(()) => return Ok(()),
                        Err(error) => break error,
                    }
                }
                match input.write(&line[written..]).await {
                    Ok(0) => break io::ErrorKind::WriteZero.into(),
                    Ok(count) => written += count,
                    Err(error) => break error,
                }
            };
            Err(WriteError::Io {
                written,
                error,
                exit: end.exit().await,
            })
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            match self.next_line().await {
                Ok(Some(line)) => {
                    if let Some(message) = self.message(&line) {
                        self.is_silent = false;
                        self.bytes_without_message = 0;
                        return Some(message);
                    }
                    // Continuing to read would waste CPU time.
                    self.bytes_without_message =
                        self.bytes_without_message.saturating_add(match line {
                            Line::Whole(text) => text.len() + 1,
                            Line::Ends(_) => self.limits.bytes + 1,
                        });
                    if self.bytes_without_message > self.limits.bytes {
                        let reason = format!("{}, and no message", self.limits.too_many_bytes());
                        tracing::warn!(server = self.server, reason, "giving up on the server");
                        self.reason = Some(reason);
                        return None;
                    }
                }
                Ok(None) => {
                    let exit = self.watched.end().exit().await;
                    let reason = exit.unwrap_or_else(|| "it closed its output".to_owned());
                    tracing::debug!(server = self.server, reason, "the server's output ended");
                    self.reason = Some(reason);
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

    /// Closes the child's input, which asks it to exit, and kills it if it does not.
    async fn close(&mut self) -> Result<(), WriteError> {
        // A write that hangs because the child stopped reading must not block closing.
        if let Ok(mut input) = tokio::time::timeout(self.shutdown_grace, self.input.lock()).await {
            input.take();
        }
        let ended = tokio::time::timeout(self.shutdown_grace, self.exited()).await;
        match ended {
            Ok(Ok(status)) => tracing::debug!(server = self.server, %status, "the server ended"),
            Ok(Err(error)) => {
                tracing::warn!(server = self.server, %error, "lost track of the server's process");
            }
            Err(_) => {
                tracing::debug!(
                    server = self.server,
                    "killed the server because it did not exit"
                );
                self.signal(Signal::KILL);
                // Killed processes end at once; waiting removes them from the process table.
                let _ = self.child.wait().await;
            }
        }
        Ok(())
    }
}

/// The program. With a working directory, a relative path is relative to it.
fn program(config: &StdioConfig, options: &Options, folder: Option<&Path>) -> PathBuf {
    match (&options.self_exe, folder) {
        (Some(own), _) if config.command == SELF => own.clone(),
        (_, Some(folder)) if config.command.contains('/') => folder.join(&config.command),
        _ => PathBuf::from(&config.command),
    }
}

/// The working directory that the app names.
fn folder(config: &StdioConfig, options: &Options) -> io::Result<Option<PathBuf>> {
    let Some(cwd) = &config.cwd else {
        return Ok(None);
    };
    let folder = match &options.app_folder {
        Some(app) => app.join(cwd),
        None => std::path::absolute(cwd)?,
    };
    if folder.is_dir() {
        return Ok(Some(folder));
    }
    let message = format!(
        "its working directory `{}` is not a folder (cwd)",
        folder.display()
    );
    Err(io::Error::new(io::ErrorKind::NotFound, message))
}
