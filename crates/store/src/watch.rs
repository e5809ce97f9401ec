//! Hints that something changed, so that nobody has to poll often. They are not the truth: a hint
//! may come without a change, and a change made by another process comes without a hint.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use uuid::Uuid;

/// What to be told about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scope {
    /// Anything that may have become ready to be claimed.
    Work,
    /// One task's journal.
    Task(Uuid),
    /// One task's coming to rest: it has ended, waits for a person or was put down.
    Rest(Uuid),
    /// One task's signals.
    Inbox(Uuid),
}

/// Tells when something in a scope may have changed.
#[derive(Debug)]
pub struct Hint(watch::Receiver<u64>);

impl Hint {
    /// Waits for the next hint. Never returns once the store is gone.
    pub async fn changed(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// Gives out hints, and forgets scopes that nobody watches.
#[derive(Debug, Clone, Default)]
pub(crate) struct Hints(Arc<Mutex<HashMap<Scope, watch::Sender<u64>>>>);

impl Hints {
    pub(crate) fn watch(&self, scope: Scope) -> Hint {
        let mut senders = self.lock();
        senders.retain(|_, sender| sender.receiver_count() > 0);
        Hint(senders.entry(scope).or_default().subscribe())
    }

    pub(crate) fn tell(&self, scope: Scope) {
        if let Some(sender) = self.lock().get(&scope) {
            sender.send_modify(|version| *version += 1);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Scope, watch::Sender<u64>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
