//! What differs between two tasks, or between two points of one: where their steps part, and how they stand.

use convoke_engine::{EngineError, Event};
use convoke_store::{JournalEvent, Store, Viewer};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::compare::{Difference, differences};

/// A point of a task: the steps until then, and the state.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskPoint {
    task: Uuid,
    seq: u64,
    events: Vec<JournalEvent>,
    state: Value,
}

/// Two steps, where there are any.
type Steps<'a> = (Option<&'a JournalEvent>, Option<&'a JournalEvent>);

/// What differs between two points.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskDiff {
    /// The first steps that are not the same. What a task did before it was forked is what the other did.
    pub parted: Option<(Option<JournalEvent>, Option<JournalEvent>)>,
    /// Where the states differ. Ids and times, which always do, are left out.
    pub differences: Vec<Difference>,
}

impl TaskPoint {
    /// Reads a task until an entry, or until its newest one.
    pub async fn read(
        store: &dyn Store,
        viewer: &Viewer,
        task: Uuid,
        seq: Option<u64>,
    ) -> Result<Self, EngineError> {
        let record = store.task(viewer, task).await?;
        let last = record.ok_or(EngineError::UnknownTask(task))?.seq;
        let seq = seq.unwrap_or(last);
        let missing = || EngineError::Refused {
            code: "task.no_such_step",
            message: format!("the task has {last} steps; there is no step {seq}"),
        };
        let newest = store.entries(viewer, task, seq..=seq).await?.pop();
        let newest = newest.ok_or_else(missing)?;
        Ok(Self {
            task,
            seq,
            events: store.events(viewer, task, 1..=seq).await?,
            state: newest.state.value(),
        })
    }

    /// The task.
    pub fn task(&self) -> Uuid {
        self.task
    }

    /// The entry.
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// What differs between this point and another one.
    pub fn diff(&self, other: &Self) -> TaskDiff {
        let parted = self.parting(other);
        TaskDiff {
            parted: parted.map(|(before, after)| (before.cloned(), after.cloned())),
            differences: differences(&self.state, &other.state, differs_always),
        }
    }

    fn parting<'a>(&'a self, other: &'a Self) -> Option<Steps<'a>> {
        let (from, to) = if let Some(at) = other.forked_at(self.task) {
            (at, 1)
        } else if let Some(at) = self.forked_at(other.task) {
            (1, at)
        } else {
            (0, 0)
        };
        let (before, after) = (self.steps_after(from), other.steps_after(to));
        let longest = before.len().max(after.len());
        (0..longest)
            .map(|index| (before.get(index).copied(), after.get(index).copied()))
            .find(|(before, after)| before.map(essence) != after.map(essence))
    }

    /// The events after a step, without resumes.
    fn steps_after(&self, seq: u64) -> Vec<&JournalEvent> {
        let by_worker = |kind: &str| matches!(kind, "started" | "resumed" | "put_back");
        let events = self.events.iter();
        events
            .filter(|event| event.seq > seq && !by_worker(&event.kind))
            .collect()
    }

    /// The step of another task at which this one was begun.
    fn forked_at(&self, from: Uuid) -> Option<u64> {
        let first = self.events.first()?;
        match serde_json::from_value::<Event<Value>>(first.event.clone()).ok()? {
            Event::Forked {
                from: other, at, ..
            } if other == from => Some(at),
            _ => None,
        }
    }
}

/// An event without ids and times.
fn essence(event: &JournalEvent) -> Value {
    without_chance(&json!({ "kind": event.kind, "event": event.event }))
}

fn without_chance(value: &Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .iter()
            .filter(|(key, _)| !differs_always(key))
            .map(|(key, value)| (key.clone(), without_chance(value)))
            .collect(),
        Value::Array(items) => items.iter().map(without_chance).collect(),
        plain => plain.clone(),
    }
}

/// Whether a key names ids or times, which always differ.
pub fn differs_always(key: &str) -> bool {
    const CHANCE: [&str; 14] = [
        "id",
        "call",
        "task",
        "question",
        "at",
        "deadline",
        "expires_at",
        "duration_ms",
        "total_ms",
        "total_execution_time_ms",
        "execution_time_ms",
        "until_ms",
        "timestamp",
        "spent",
    ];
    CHANCE.contains(&key) || key.ends_with("_at")
}
