//! Forks: new tasks that start at a point of another task's journal.

use std::sync::Arc;

use convoke_store::{LoadedTask, NewEntry, NewMessage, NewTask, Viewer, text_of};
use convoke_telemetry::{TraceContext, metrics};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::engine::{Engine, read_snapshot};
use crate::error::EngineError;
use crate::event::Event;
use crate::machine::Machine;
use crate::program::{Facts, Program};

impl<P: Program> Engine<P> {
    /// Starts a task from another task's state after an entry, with changes to it. Its open calls are made again with
    /// new ids, open questions are asked again, and it belongs to no conversation.
    pub async fn fork(
        &self,
        viewer: &Viewer,
        from: Uuid,
        at: u64,
        set: Map<String, Value>,
    ) -> Result<Uuid, EngineError> {
        let loaded = self.store().load(viewer, from, 1).await?;
        let loaded = loaded.ok_or(EngineError::UnknownTask(from))?;
        let LoadedTask {
            record,
            entries,
            messages,
            ..
        } = loaded;
        let entry = entries.into_iter().find(|entry| entry.seq == at);
        let entry = entry.ok_or_else(|| {
            let message = format!("the task has {} steps; there is no step {at}", record.seq);
            EngineError::refused("task.no_such_step", message)
        })?;
        let origin = read_snapshot::<P::State, P::Request>(from, &entry.state)?;
        if origin.status.is_final() {
            let message = format!("the task had ended with step {at}; take an earlier one");
            return Err(EngineError::refused("task.fork_ended", message));
        }
        let now = self.now();
        let id = self.0.ids.next();
        let facts = Facts {
            id,
            trace: TraceContext::begin(id),
            conversation: None,
            parent: None,
            created_at: now,
            deadline: self.full_time(),
            ..Facts::from(&record)
        };
        let mut earlier = messages;
        earlier.retain(|stored| stored.seq <= at);
        let new_messages = earlier
            .iter()
            .map(|stored| NewMessage::new(&stored.message, stored.in_conversation))
            .collect();
        let messages = earlier.into_iter().map(|stored| stored.message).collect();
        let program = Arc::clone(&self.0.program);
        let machine = Machine::fork(program, facts.clone(), origin, messages, &set)
            .map_err(|reason| EngineError::refused("task.fork_refused", reason))?;
        let event: Event<Value> = Event::Forked { from, at, set };
        let task = NewTask {
            id,
            key: None,
            fingerprint: None,
            owner: record.owner,
            conversation: None,
            refused_if_busy: false,
            channel: record.channel,
            app: self.0.app.to_string(),
            definition: Arc::clone(&self.0.definition),
            description: record.description,
            parent: None,
            deadline: facts.deadline,
            not_before: None,
            trace: Some(facts.trace.to_string()),
            retention_days: record.retention_days,
            tags: record.tags,
            stage: machine.snapshot().stage,
            entry: NewEntry {
                at: now,
                kind: event.kind().into(),
                event: text_of(&event),
                state: text_of(machine.snapshot()),
            },
            messages: new_messages,
            blobs: Vec::new(),
            hold: None,
        };
        let channel = task.channel;
        let id = self.0.store.submit(task).await?.id();
        metrics::TASKS_ACCEPTED.increment([self.app(), channel.as_str()]);
        Ok(id)
    }
}
