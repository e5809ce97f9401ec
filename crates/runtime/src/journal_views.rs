//! What a task's journal says to whoever may see the task: its entries, its state at a point, its trace, and how it differs
//! from another task. Personal data is removed by the rules of the task's own app.

use std::path::Path;

use convoke_engine::EngineError;
use convoke_model::{Invalid, Redaction, Trace};
use convoke_store::{TaskRecord, Viewer};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use uuid::Uuid;

use crate::compare::Difference;
use crate::error::RuntimeError;
use crate::loader::stored_definition;
use crate::onlooker::Onlooker;
use crate::runtime::Runtime;
use crate::task_diff::{TaskDiff, TaskPoint};
use crate::task_history::{HistoryEntry, TaskHistory};
use crate::task_tree::TaskTree;

/// Entries that one page of a history may have.
pub const MAX_HISTORY_ENTRIES: usize = 500;

/// Steps of a task, with its children's, that a trace is made of at most.
pub const MAX_TRACED_STEPS: u64 = 20_000;

/// Entries that are read at once.
const ENTRIES_AT_ONCE: u64 = 100;

/// A task as it stood after an entry.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StatePoint {
    /// The entry.
    pub seq: u64,
    /// When it was written.
    pub at: Timestamp,
    /// What happened.
    pub kind: String,
    /// The state after it.
    pub state: Value,
}

impl Runtime {
    /// The entries of a task after one of them, at most [`MAX_HISTORY_ENTRIES`].
    pub async fn history(
        &self,
        who: impl Into<Onlooker>,
        task: Uuid,
        after: u64,
        limit: usize,
    ) -> Result<Vec<HistoryEntry>, RuntimeError> {
        let viewer = who.into().viewer(self);
        let record = self.seen(&viewer, task).await?;
        let limit = limit.min(MAX_HISTORY_ENTRIES);
        let mut history = TaskHistory::new(self.redaction_of(&record).await);
        let mut entries = Vec::new();
        let mut from = 1;
        // A condition belongs to the first entry whose state has it, so the entries before are read, too.
        while from <= record.seq && entries.len() < limit {
            let seqs = from..=from.saturating_add(ENTRIES_AT_ONCE - 1);
            for entry in self.store().entries(&viewer, task, seqs).await? {
                let entry = history.next(&entry);
                if entry.seq > after && entries.len() < limit {
                    entries.push(entry);
                }
            }
            from = from.saturating_add(ENTRIES_AT_ONCE);
        }
        Ok(entries)
    }

    /// A task as it stood after an entry; after the newest one without.
    pub async fn state_at(
        &self,
        who: impl Into<Onlooker>,
        task: Uuid,
        seq: Option<u64>,
    ) -> Result<StatePoint, RuntimeError> {
        let viewer = who.into().viewer(self);
        let record = self.seen(&viewer, task).await?;
        let seq = seq.unwrap_or(record.seq);
        let entry = self.store().entries(&viewer, task, seq..=seq).await?.pop();
        let entry = entry.ok_or_else(|| EngineError::Refused {
            code: "task.no_such_step",
            message: format!("the task has {} steps; there is no step {seq}", record.seq),
        })?;
        let redaction = self.redaction_of(&record).await;
        Ok(StatePoint {
            seq,
            at: entry.at,
            kind: entry.kind,
            state: redaction.value(&entry.state.value()),
        })
    }

    /// The steps of a task. One of more than [`MAX_TRACED_STEPS`] is refused (`trace.too_long`).
    pub async fn trace(&self, who: impl Into<Onlooker>, task: Uuid) -> Result<Trace, RuntimeError> {
        let viewer = who.into().viewer(self);
        let record = self.seen(&viewer, task).await?;
        if record.seq > MAX_TRACED_STEPS {
            let message = format!("a trace has at most {MAX_TRACED_STEPS} steps; read the history");
            return Err(Invalid::one("trace.too_long", message).into());
        }
        let tree = TaskTree::read_shallow(&**self.store(), &viewer, task).await?;
        let tree = tree.ok_or(EngineError::UnknownTask(task))?;
        Ok(tree.trace(&self.redaction_of(&record).await)?)
    }

    /// What differs between two points of tasks; each is a task and an entry, or its newest one.
    pub async fn diff(
        &self,
        who: impl Into<Onlooker>,
        one: (Uuid, Option<u64>),
        other: (Uuid, Option<u64>),
    ) -> Result<TaskDiff, RuntimeError> {
        let viewer = who.into().viewer(self);
        let store = &**self.store();
        let redaction = self.redaction_of(&self.seen(&viewer, one.0).await?).await;
        let one = TaskPoint::read(store, &viewer, one.0, one.1).await?;
        let other = TaskPoint::read(store, &viewer, other.0, other.1).await?;
        let mut diff = one.diff(&other);
        let (before, after) = diff.parted.as_mut().map_or((None, None), |parted| {
            (parted.0.as_mut(), parted.1.as_mut())
        });
        for event in before.into_iter().chain(after) {
            event.event = redaction.value(&event.event);
        }
        for Difference { one, other, .. } in &mut diff.differences {
            (*one, *other) = (redaction.value(one), redaction.value(other));
        }
        Ok(diff)
    }

    /// A task that a viewer sees.
    async fn seen(&self, viewer: &Viewer, task: Uuid) -> Result<TaskRecord, RuntimeError> {
        let found = self.store().task(viewer, task).await?;
        Ok(found.ok_or(EngineError::UnknownTask(task))?)
    }

    /// The rules of the app as it was when a task started. If it cannot be read, everything that may be private is removed.
    async fn redaction_of(&self, record: &TaskRecord) -> Redaction {
        let app = self.app();
        if app.hash == record.definition {
            return app.config.redaction.clone();
        }
        let stored = stored_definition(&**self.store(), &record.definition).await;
        let read = stored
            .ok()
            .filter(|stored| stored.trusted)
            .and_then(|stored| {
                let app = self.loader().load_stored(&stored, Path::new(""));
                app.ok()
            });
        read.map(|app| app.config.redaction).unwrap_or_default()
    }
}
