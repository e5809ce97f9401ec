//! Closing of an engine: pending waits end with an error.

use std::sync::{Arc, OnceLock};

use convoke_store::Hint;
use tokio_util::sync::CancellationToken;

use crate::engine::WAIT_POLL;
use crate::error::EngineError;
use crate::listeners::Listeners;
use crate::local_queue::LocalQueue;
use crate::program::Program;

/// Closes an engine in all its editions, without holding any of them.
pub struct Closer<P: Program> {
    pub(crate) closing: Arc<Closing>,
    pub(crate) local_queue: Arc<LocalQueue<P>>,
    pub(crate) listeners: Arc<Listeners>,
}

impl<P: Program> Clone for Closer<P> {
    fn clone(&self) -> Self {
        Self {
            closing: Arc::clone(&self.closing),
            local_queue: Arc::clone(&self.local_queue),
            listeners: Arc::clone(&self.listeners),
        }
    }
}

impl<P: Program> Closer<P> {
    /// See [`Engine::close`](crate::Engine::close).
    pub fn close(&self, reason: impl Into<String>) {
        self.closing.close(reason.into());
        self.local_queue.close();
        self.listeners.clear();
    }

    /// See [`Engine::closed`](crate::Engine::closed).
    pub async fn closed(&self) -> EngineError {
        self.closing.closed().await;
        self.closing.error()
    }
}

/// Whether an engine is closed, and why.
#[derive(Debug, Default)]
pub(crate) struct Closing {
    token: CancellationToken,
    reason: OnceLock<String>,
}

impl Closing {
    /// Only the first reason is stored.
    pub(crate) fn close(&self, reason: String) {
        let _ = self.reason.set(reason);
        self.token.cancel();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.token.is_cancelled()
    }

    /// Returns once the engine is closed.
    pub(crate) async fn closed(&self) {
        self.token.cancelled().await;
    }

    /// Waits for a hint, a timeout, or the closing of the engine.
    pub(crate) async fn until_hint(&self, hint: &mut Hint) {
        tokio::select! {
            _ = tokio::time::timeout(WAIT_POLL, hint.changed()) => {}
            () = self.closed() => {}
        }
    }

    /// The error for pending waits.
    pub(crate) fn error(&self) -> EngineError {
        EngineError::Closed {
            reason: self.reason.get().cloned().unwrap_or_default(),
        }
    }
}
