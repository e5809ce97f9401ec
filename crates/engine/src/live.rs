//! Live text of a call for a listener. It is not journaled, and a later listener does not get it.

use std::fmt;
use std::sync::Arc;

/// A piece of live text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LiveUpdate<'a> {
    /// More of the text.
    Text(&'a str),
    /// Discard the text so far; the call starts over.
    Again,
}

/// A listener of a task's live text. Cheap to clone.
#[derive(Clone)]
pub struct Live(Arc<dyn Fn(LiveUpdate<'_>) + Send + Sync>);

impl Live {
    /// Calls a function for every piece. It must not block.
    pub fn new(listener: impl Fn(LiveUpdate<'_>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(listener))
    }

    /// Sends a piece.
    pub fn say(&self, heard: LiveUpdate<'_>) {
        (self.0)(heard);
    }
}

impl fmt::Debug for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Live")
    }
}
