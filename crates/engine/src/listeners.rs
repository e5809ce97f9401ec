//! Who listens to tasks that wait for a worker of this process.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use uuid::Uuid;

use crate::live::Live;

/// Listeners kept at most. A task that another process takes never claims its listener here, so that
/// without a bound they would add up.
const MAX_WAITING: usize = 10_000;

/// Listeners of accepted tasks until a worker takes the task up. Past the bound the oldest hear nothing.
#[derive(Debug, Default)]
pub(crate) struct Listeners(Mutex<BTreeMap<Uuid, Live>>);

impl Listeners {
    pub(crate) fn add(&self, task: Uuid, live: Live) {
        let mut waiting = self.lock();
        waiting.insert(task, live);
        // Ids sort by the time they were minted.
        if waiting.len() > MAX_WAITING {
            waiting.pop_first();
        }
    }

    /// Gives a task's listener to whoever works on it.
    pub(crate) fn take(&self, task: Uuid) -> Option<Live> {
        self.lock().remove(&task)
    }

    /// Lets go of all of them: nobody takes them any more.
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
