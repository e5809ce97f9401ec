//! The end of an engine: whoever waits through it is told so instead of waiting for ever.

use std::sync::OnceLock;

use convoke_store::Hint;
use tokio_util::sync::CancellationToken;

use crate::engine::WAIT_POLL;
use crate::error::EngineError;

/// Whether an engine is closed, and why.
#[derive(Debug, Default)]
pub(crate) struct Closing {
    token: CancellationToken,
    reason: OnceLock<String>,
}

impl Closing {
    /// The first reason stays.
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

    /// Waits for a hint, a moment, or the engine's end.
    pub(crate) async fn until_hint(&self, hint: &mut Hint) {
        tokio::select! {
            _ = tokio::time::timeout(WAIT_POLL, hint.changed()) => {}
            () = self.closed() => {}
        }
    }

    /// What is told to whoever waited.
    pub(crate) fn error(&self) -> EngineError {
        EngineError::Closed {
            reason: self.reason.get().cloned().unwrap_or_default(),
        }
    }
}
