//! Removal of expired tasks from memory.

use jiff::Timestamp;
use uuid::Uuid;

use super::Inner;
use crate::task::{EndedTask, Sweep, SweepReport, expired};

impl Inner {
    pub(super) fn sweep(&mut self, sweep: &Sweep, now: Timestamp) -> SweepReport {
        let live = |task: Uuid| {
            self.stored(task)
                .is_some_and(|stored| !stored.record.status.is_final())
        };
        let over: Vec<_> = self
            .tasks
            .values()
            .map(|stored| &stored.record)
            .filter(|record| record.app == sweep.app)
            .filter(|record| {
                EndedTask::of(record).is_some_and(|ended| expired(&ended, &sweep.policy, now))
            })
            .filter(|record| !record.parent.is_some_and(live))
            .map(|record| (record.ordinal, record.id))
            .collect();
        if !sweep.dry_run {
            for (ordinal, _) in &over {
                self.remove(*ordinal);
            }
            let tasks = &self.tasks;
            let named = |hash: &str| {
                tasks
                    .values()
                    .any(|stored| stored.record.definition == *hash)
            };
            self.definitions.retain(|hash, _| named(hash));
        }
        SweepReport {
            tasks: over.into_iter().map(|(_, id)| id).collect(),
        }
    }
}
