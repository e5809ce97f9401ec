//! Stopping of commands: gracefully at the first signal, immediately at the second.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::output;

/// Handles Ctrl-C and SIGTERM. Once created, neither ends the process by itself.
pub(crate) struct StopSignals {
    interrupt: Signal,
    terminate: Signal,
}

impl StopSignals {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// Waits for the first signal, and prints what happens next.
    pub(crate) async fn asked(&mut self) {
        self.next().await;
        output::note(
            "stopping: calls under way are finished, what is left goes on next time; a second signal ends at once",
        );
    }

    /// Waits for work that leaves nothing behind. A signal ends it, without a result.
    pub(crate) async fn unless_asked<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            done = work => Some(done),
            () = self.next() => {
                output::note("stopped; what was done until now is thrown away");
                None
            }
        }
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }

    /// Waits for a graceful end. A second signal ends the wait; interrupted work is resumed as after a crash.
    pub(crate) async fn unless_again<T>(&mut self, end: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            ended = end => Some(ended),
            () = self.next() => {
                output::note("stopped at once; calls under way were cut off");
                None
            }
        }
    }
}
