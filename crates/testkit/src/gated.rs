//! A store whose appends can be delayed, like those of a slow disk.

use std::sync::Arc;

use convoke_store::{Batch, Fence, Store, StoreFuture};
use futures::FutureExt;
use tokio::sync::watch;

/// Delegates everything, but reports appends as durable only while the gate is open.
#[derive(Debug)]
pub struct GatedStore<S> {
    inner: S,
    open: watch::Sender<bool>,
    appended: watch::Sender<usize>,
}

impl<S: Store> GatedStore<S> {
    /// A store with an open gate.
    pub fn new(inner: S) -> Self {
        Self {
            inner,
            open: watch::Sender::new(true),
            appended: watch::Sender::new(0),
        }
    }

    /// Delays all appends from now on.
    pub fn close(&self) {
        self.appended.send_replace(0);
        self.open.send_replace(false);
    }

    /// Completes all appends.
    pub fn open(&self) {
        self.open.send_replace(true);
    }

    /// Waits for this many appends since the gate was closed.
    pub async fn until_appended(&self, count: usize) {
        // The sender lives as long as the store, so the wait ends only when the condition holds.
        let _ = self
            .appended
            .subscribe()
            .wait_for(|appended| *appended >= count)
            .await;
    }
}

impl<S: Store> Store for GatedStore<S> {
    fn append(&self, fence: Fence, batch: Arc<Batch>) -> StoreFuture<u64> {
        let done = self.inner.append(fence, batch);
        self.appended.send_modify(|count| *count += 1);
        let mut open = self.open.subscribe();
        async move {
            let _ = open.wait_for(|open| *open).await;
            done.await
        }
        .boxed()
    }

    crate::delegate!(inner: now submit claim renew signal task newest load conversation rest);
}
