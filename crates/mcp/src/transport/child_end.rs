//! What is known of a child process that ended: how it exited, and the last lines of its error output.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Limit of one line of a child's error output, in bytes.
const MAX_LINE: usize = 8 * 1024;

/// How many of the last lines of a child's error output are kept.
const KEPT_LINES: usize = 10;

/// How long a child that closed its output may take to exit, and its error output to end.
const END_GRACE: Duration = Duration::from_millis(200);

/// The pause between two looks whether a child has exited.
const POLL_PAUSE: Duration = Duration::from_millis(2);

/// A child process whose error output is read as long as somebody holds this: its transport, or whoever starts it.
#[derive(Clone)]
pub(crate) struct WatchedChild {
    end: Arc<ChildEnd>,
    _reading: Arc<JoinSet<()>>,
}

impl WatchedChild {
    /// Begins to read the child's error output.
    pub(crate) fn watch(
        server: &str,
        pid: Option<u32>,
        errors: impl AsyncRead + Send + Unpin + 'static,
    ) -> Self {
        let end = Arc::new(ChildEnd::new(pid));
        let mut reading = JoinSet::new();
        let (server, reader) = (server.to_owned(), Arc::clone(&end));
        reading.spawn(async move { reader.read(&server, errors).await });
        Self {
            end,
            _reading: Arc::new(reading),
        }
    }

    /// What is known of the child's end.
    pub(crate) fn end(&self) -> &Arc<ChildEnd> {
        &self.end
    }
}

/// What is known of the end of a child process.
#[derive(Debug)]
pub(crate) struct ChildEnd {
    /// `None` if the child's id is unknown.
    pid: Option<Pid>,
    /// How it exited, once that is known.
    exit: OnceLock<String>,
    lines: Mutex<VecDeque<String>>,
    /// Cancelled at the end of the error output.
    silent: CancellationToken,
}

impl ChildEnd {
    fn new(pid: Option<u32>) -> Self {
        Self {
            pid: pid.and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?)),
            exit: OnceLock::new(),
            lines: Mutex::default(),
            silent: CancellationToken::new(),
        }
    }

    /// Reads the child's error output to its end: logs each line, and keeps the last ones.
    async fn read(&self, server: &str, errors: impl AsyncRead + Unpin) {
        let mut lines = BufReader::new(errors);
        let mut line = Vec::new();
        // The rest of a long line is read and dropped, because a full pipe would block the child.
        while let Ok(chunk) = lines.fill_buf().await {
            if chunk.is_empty() {
                break;
            }
            let end = chunk.iter().position(|byte| *byte == b'\n');
            let length = end.unwrap_or(chunk.len());
            let room = MAX_LINE.saturating_sub(line.len());
            line.extend_from_slice(&chunk[..length.min(room)]);
            lines.consume(length + usize::from(end.is_some()));
            if end.is_some() {
                self.keep(server, &line);
                line.clear();
            }
        }
        if !line.is_empty() {
            self.keep(server, &line);
        }
        self.silent.cancel();
    }

    fn keep(&self, server: &str, line: &[u8]) {
        let line = String::from_utf8_lossy(line).trim_end().to_owned();
        tracing::debug!(server, "{line}");
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == KEPT_LINES {
            lines.pop_front();
        }
        lines.push_back(line);
    }

    /// How the child exited, if somebody found out while its connection was still there.
    pub(crate) fn known_exit(&self) -> Option<&str> {
        self.exit.get().map(String::as_str)
    }

    /// How the child exited, in words. Waits a moment for a child that is about to exit; `None` if it does not. The
    /// child is not reaped, so its process group can still be signalled.
    pub(crate) async fn exit(&self) -> Option<String> {
        if let Some(exit) = self.exit.get() {
            return Some(exit.clone());
        }
        let pid = self.pid?;
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let exited = async {
            loop {
                match waitid(WaitId::Pid(pid), options) {
                    Ok(Some(status)) => break Some(status),
                    Ok(None) => tokio::time::sleep(POLL_PAUSE).await,
                    // Somebody else has waited for it.
                    Err(_) => break None,
                }
            }
        };
        let status = tokio::time::timeout(END_GRACE, exited).await.ok()??;
        let exit = if let Some(code) = status.exit_status() {
            format!("it exited with code {code}")
        } else {
            let signal = status.terminating_signal()?;
            format!("it was ended by signal {signal}")
        };
        Some(self.exit.get_or_init(|| exit).clone())
    }

    /// The last lines of the error output, oldest first. Waits a moment for its end.
    pub(crate) async fn last_lines(&self) -> Vec<String> {
        let _ = tokio::time::timeout(END_GRACE, self.silent.cancelled()).await;
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_last_lines_are_kept_and_long_ones_are_cut() {
        let end = ChildEnd::new(None);
        let mut written: Vec<String> = (0..25).map(|number| number.to_string()).collect();
        written.push("x".repeat(3 * MAX_LINE));
        end.read("s", written.join("\n").as_bytes()).await;
        let lines = end.last_lines().await;
        assert_eq!(lines.len(), KEPT_LINES);
        assert_eq!((lines[0].as_str(), lines[9].len()), ("16", MAX_LINE));
        assert_eq!(end.exit().await, None);
    }
}
