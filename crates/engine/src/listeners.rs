//! Listeners of tasks that wait for a worker of this process.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use uuid::Uuid;

use crate::live::Live;

/// Limit of listeners. A task that another process claims never takes its listener, so without a limit they would
/// accumulate.
const MAX_WAITING: usize = 10_000;

/// Listeners of accepted tasks until a worker starts the task. Above the limit, the oldest are dropped.
#[derive(Debug, Default)]
pub(crate) struct Listeners(Mutex<BTreeMap<Uuid, Live>>);

impl Listeners {
    pub(crate) fn add(&self, task: Uuid, live: Live) {
        let mut waiting = self.lock();
        waiting.insert(task, live);
        // Ids sort by creation time.
        if waiting.len() > MAX_WAITING {
            waiting.pop_first();
        }
    }

    /// Takes a task's listener, for its driver.
    pub(crate) fn take(&self, task: Uuid) -> Option<Live> {
        self.lock().remove(&task)
    }

    /// Drops all listeners.
    pub(crate) fn clear(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Uuid, Live>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listeners_that_nobody_takes_do_not_add_up() {
        let listeners = Listeners::default();
        for task in 0..=MAX_WAITING as u128 {
            listeners.add(Uuid::from_u128(task), Live::new(|_| {}));
        }
        assert_eq!(listeners.lock().len(), MAX_WAITING);
        assert!(listeners.take(Uuid::nil()).is_none(), "the oldest goes");
        assert!(listeners.take(Uuid::from_u128(1)).is_some());
        assert!(listeners.take(Uuid::from_u128(1)).is_none());
    }
}
