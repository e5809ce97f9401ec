//! What a call says while it is under way. It is live only: nothing of it is in the journal, and whoever
//! listens later hears nothing.

use std::fmt;
use std::sync::Arc;

/// A piece of what is being said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LiveUpdate<'a> {
    /// More of the text.
    Text(&'a str),
    /// What was said so far is not the answer: it starts over.
    Again,
}

/// Somebody who listens to a task. Cheap to clone.
#[derive(Clone)]
pub struct Live(Arc<dyn Fn(LiveUpdate<'_>) + Send + Sync>);

impl Live {
    /// Listens by way of a function, which must not block.
    pub fn new(listener: impl Fn(LiveUpdate<'_>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(listener))
    }

    /// Says something.
    pub fn say(&self, heard: LiveUpdate<'_>) {
        (self.0)(heard);
    }
}

impl fmt::Debug for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Live")
    }
}
