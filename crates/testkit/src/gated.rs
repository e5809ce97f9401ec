//! A store whose appends can be held up, as a slow disk would.

use std::sync::Arc;

use convoke_store::{Batch, Fence, Store, StoreFuture};
use futures::FutureExt;
use tokio::sync::watch;

/// Passes everything on, but says that an append is durable only while the gate is open.
#[derive(Debug)]
pub struct GatedStore<S> {
    inner: S,
    open: watch::Sender<bool>,
    appended: watch::Sender<usize>,
}

impl<S: Store> GatedStore<S> {
    /// A store with its gate open.
    pub fn new(inner: S) -> Self {
        Self {
            inner,
            open: watch::Sender::new(true),
            appended: watch::Sender::new(0),
        }
    }

    /// From now on no append becomes durable.
    pub fn close(&self) {
        self.appended.send_replace(0);
        self.open.send_replace(false);
    }

    /// Lets all appends through.
    pub fn open(&self) {
        self.open.send_replace(true);
    }

    /// Waits until so many appends have been made since the gate was closed.
    pub async fn until_appended(&self, count: usize) {
        // The sender lives as long as this store, so the wait only ends with the condition.
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

    crate::passes_on!(inner: now submit claim renew signal task newest load conversation rest);
}
