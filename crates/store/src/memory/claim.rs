//! Claims of ready tasks, in the order of their conversations.

use std::time::Duration;

use convoke_model::TaskState;
use jiff::Timestamp;

use super::Inner;
use crate::error::StoreError;
use crate::task::{Claim, ClaimedTask, TaskRecord, later, unreadable};

impl Inner {
    pub(super) fn claim(
        &mut self,
        claim: &Claim,
        now: Timestamp,
    ) -> Result<Vec<ClaimedTask>, StoreError> {
        let mut ready: Vec<_> = self
            .live
            .iter()
            .filter_map(|ordinal| self.tasks.get(ordinal))
            .map(|stored| &stored.record)
            .filter(|record| record.ready_at.is_some_and(|ready| ready <= now))
            .filter(|record| claim.apps.contains(&record.app))
            .filter(|record| !claim.except.contains(&record.definition))
            .filter(|record| !self.waits_its_turn(record, now))
            .map(|record| (record.ready_at, record.ordinal))
            .collect();
        ready.sort_unstable();
        ready.truncate(claim.limit);
        let mut claimed = Vec::with_capacity(ready.len());
        for (_, ordinal) in ready {
            match self.hold(ordinal, claim, now) {
                Ok(task) => claimed.extend(task),
                Err(StoreError::Corrupt(cause)) => self.set_aside(ordinal, &cause, now),
                Err(error) => return Err(error),
            }
        }
        Ok(claimed)
    }

    /// The time until another task of the claim's apps becomes ready.
    pub(super) fn next_ready_in(&self, claim: &Claim, now: Timestamp) -> Option<Duration> {
        let open = self
            .live
            .iter()
            .filter_map(|ordinal| self.tasks.get(ordinal));
        let next = open
            .filter(|stored| claim.apps.contains(&stored.record.app))
            .filter_map(|stored| stored.record.ready_at)
            .filter(|ready| *ready > now)
            .min();
        next.and_then(|next| next.duration_since(now).try_into().ok())
    }

    /// Assigns a task to a worker.
    fn hold(
        &mut self,
        ordinal: u64,
        claim: &Claim,
        now: Timestamp,
    ) -> Result<Option<ClaimedTask>, StoreError> {
        let Some(stored) = self.tasks.get_mut(&ordinal) else {
            return Ok(None);
        };
        // Reads everything before changing anything.
        let entry = stored.entries(stored.record.seq..=u64::MAX)?.pop();
        let entry = entry.ok_or_else(|| StoreError::Corrupt("the task has no entry".into()))?;
        let (messages, signals) = (stored.messages()?, stored.waiting());
        let record = &mut stored.record;
        record.epoch += 1;
        record.claims += 1;
        record.worker = Some(claim.worker.clone());
        record.ready_at = Some(later(now, claim.lease));
        record.started_at.get_or_insert(now);
        if record.status == TaskState::Submitted {
            record.status = TaskState::Working;
        }
        Ok(Some(ClaimedTask {
            record: record.clone(),
            entry,
            messages,
            signals,
        }))
    }

    /// Ends an unreadable task, so that it blocks no other one. Its journal is unchanged.
    fn set_aside(&mut self, ordinal: u64, cause: &str, now: Timestamp) {
        tracing::error!(ordinal, cause, "a task cannot be read and is set aside");
        if let Some(stored) = self.tasks.get_mut(&ordinal) {
            let record = &mut stored.record;
            record.status = TaskState::Failed;
            record.error = Some(unreadable(cause));
            record.completed_at = Some(now);
            record.worker = None;
            record.ready_at = None;
            self.note_end(ordinal);
        }
    }

    /// Whether another task of the conversation comes first: the running one, then the earliest ready one.
    pub(super) fn waits_its_turn(&self, record: &TaskRecord, now: Timestamp) -> bool {
        let Some(conversation) = record
            .conversation
            .and_then(|id| self.conversations.get(&id))
        else {
            return false;
        };
        let open = conversation
            .open
            .iter()
            .filter_map(|ordinal| self.tasks.get(ordinal));
        let mut others = open
            .map(|stored| &stored.record)
            .filter(|other| other.ordinal != record.ordinal);
        others.any(|other| {
            let earlier = other.ordinal < record.ordinal;
            match (&other.worker, &record.worker) {
                (Some(_), held) => held.is_none() || earlier,
                (None, Some(_)) => false,
                (None, None) => earlier && is_ready(other, now),
            }
        })
    }
}

/// Whether a task without a lease is ready.
fn is_ready(record: &TaskRecord, now: Timestamp) -> bool {
    record.ready_at.is_some_and(|ready| ready <= now)
}
