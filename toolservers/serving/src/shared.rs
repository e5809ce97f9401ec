//! One store for all the clients of a server.

use std::sync::{Arc, Mutex, PoisonError};

/// A store that is used by one call at a time, however many handlers hold it.
#[derive(Debug)]
pub struct Shared<S>(Arc<Mutex<S>>);

impl<S> Clone for Shared<S> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<S> Shared<S> {
    /// Shares this store.
    pub fn new(store: S) -> Self {
        Self(Arc::new(Mutex::new(store)))
    }

    /// Acts on the store as soon as nobody else does.
    pub fn with<T>(&self, act: impl FnOnce(&mut S) -> T) -> T {
        // A panic in the middle of a transaction rolls it back, so that the store stays sound.
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
