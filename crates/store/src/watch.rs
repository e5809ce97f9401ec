//! Hints that something changed, which make frequent polling unnecessary. A hint may come without a change, and a
//! change by another process gives no hint.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use uuid::Uuid;

/// What a hint is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scope {
    /// Tasks that may have become ready to be claimed.
    Work,
    /// One task's journal.
    Task(Uuid),
    /// A task that ended, waits for a person, or was released.
    Rest(Uuid),
    /// One task's signals.
    Inbox(Uuid),
}

/// Resolves when something in a scope may have changed.
#[derive(Debug)]
pub struct Hint {
    version: watch::Receiver<u64>,
    scope: Scope,
    hints: Hints,
}

impl Hint {
    /// Waits for the next hint. Never returns after the store is dropped.
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

/// Distributes hints. Scopes without watchers are removed.
#[derive(Debug, Clone, Default)]
pub(crate) struct Hints(Arc<[ScopeTable; 4]>);

/// The scopes of one kind.
#[derive(Debug, Default)]
struct ScopeTable {
    /// The number of watched scopes, so that a hint without watchers is free.
    watched: AtomicUsize,
    senders: Mutex<HashMap<Scope, WatchedScope>>,
}

/// A watched scope.
#[derive(Debug, Default)]
struct WatchedScope {
    sender: watch::Sender<u64>,
    /// Counted under the lock, so exactly one of several concurrent drops is the last.
    hints: usize,
}

impl Hints {
    pub(crate) fn watch(&self, scope: Scope) -> Hint {
        let rack = self.rack(scope);
        let mut senders = rack.lock();
        let watched = senders.entry(scope).or_default();
        watched.hints += 1;
        let version = watched.sender.subscribe();
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
        if let Some(watched) = rack.lock().get(&scope) {
            watched.sender.send_modify(|version| *version += 1);
        }
    }

    /// Removes a watcher of the scope.
    fn forget(&self, scope: Scope) {
        let rack = self.rack(scope);
        let mut senders = rack.lock();
        let Some(watched) = senders.get_mut(&scope) else {
            return;
        };
        watched.hints -= 1;
        if watched.hints == 0 {
            senders.remove(&scope);
            rack.watched.store(senders.len(), Ordering::Release);
        }
    }

    fn rack(&self, scope: Scope) -> &ScopeTable {
        &self.0[match scope {
            Scope::Work => 0,
            Scope::Task(_) => 1,
            Scope::Rest(_) => 2,
            Scope::Inbox(_) => 3,
        }]
    }
}

impl ScopeTable {
    fn lock(&self) -> MutexGuard<'_, HashMap<Scope, WatchedScope>> {
        self.senders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn of_two_hints_that_are_dropped_at_once_nothing_is_left() {
        let hints = Hints::default();
        for round in 0..2_000 {
            let scope = Scope::Task(Uuid::from_u128(round));
            let both = [hints.watch(scope), hints.watch(scope)];
            let start = Barrier::new(2);
            std::thread::scope(|threads| {
                for hint in both {
                    threads.spawn(|| {
                        start.wait();
                        drop(hint);
                    });
                }
            });
        }
        let left = hints.rack(Scope::Task(Uuid::nil())).lock().len();
        assert_eq!(left, 0, "scopes that nobody watches are forgotten");
    }
}
