//! One store for all clients of a server.

use std::sync::{Arc, Mutex, PoisonError};

/// A store that is used by one call at a time.
#[derive(Debug)]
pub struct Shared<S>(Arc<Mutex<S>>);

impl<S> Clone for Shared<S> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<S> Shared<S> {
    pub fn new(store: S) -> Self {
        Self(Arc::new(Mutex::new(store)))
    }

    /// Runs `act` with exclusive access to the store.
    pub fn with<T>(&self, act: impl FnOnce(&mut S) -> T) -> T {
        // A panic in a transaction rolls it back, so the store stays valid.
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
