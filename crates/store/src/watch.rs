//! Hints that something changed, so that nobody has to poll often. They are not the truth: a hint
//! may come without a change, and a change made by another process comes without a hint.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
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
pub struct Hint {
    version: watch::Receiver<u64>,
    scope: Scope,
    hints: Hints,
}

impl Hint {
    /// Waits for the next hint. Never returns once the store is gone.
    pub async fn changed(&mut self) {
        if self.version.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for Hint {
    fn drop(&mut self) {
        self.hints.forget(self.scope);
    }
}

/// Gives out hints, and forgets scopes that nobody watches.
#[derive(Debug, Clone, Default)]
pub(crate) struct Hints(Arc<[Rack; 4]>);

/// The scopes of one kind.
#[derive(Debug, Default)]
struct Rack {
    /// How many there are, so that telling nobody costs nothing.
    watched: AtomicUsize,
    senders: Mutex<HashMap<Scope, watch::Sender<u64>>>,
}

impl Hints {
    pub(crate) fn watch(&self, scope: Scope) -> Hint {
        let rack = self.rack(scope);
        let mut senders = rack.lock();
        let version = senders.entry(scope).or_default().subscribe();
        rack.watched.store(senders.len(), Ordering::Release);
        Hint {
            version,
            scope,
            hints: self.clone(),
        }
    }

    pub(crate) fn tell(&self, scope: Scope) {
        let rack = self.rack(scope);
        if rack.watched.load(Ordering::Acquire) == 0 {
            return;
        }
        if let Some(sender) = rack.lock().get(&scope) {
            sender.send_modify(|version| *version += 1);
        }
    }

    /// One who watched the scope is about to go.
    fn forget(&self, scope: Scope) {
        let rack = self.rack(scope);
        let mut senders = rack.lock();
        let is_last = senders
            .get(&scope)
            .is_some_and(|sender| sender.receiver_count() == 1);
        if is_last {
            senders.remove(&scope);
            rack.watched.store(senders.len(), Ordering::Release);
        }
    }

    fn rack(&self, scope: Scope) -> &Rack {
        &self.0[match scope {
            Scope::Work => 0,
            Scope::Task(_) => 1,
            Scope::Rest(_) => 2,
            Scope::Inbox(_) => 3,
        }]
    }
}

impl Rack {
    fn lock(&self) -> MutexGuard<'_, HashMap<Scope, watch::Sender<u64>>> {
        self.senders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
