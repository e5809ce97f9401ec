//! The handle that everybody else holds: it accepts tasks, passes signals on and waits for ends.

use std::sync::Arc;
use std::time::Duration;

use convoke_model::{Answer, Channel, Clock, Ids, Message};
use convoke_store::{
    NewEntry, NewMessage, NewSignal, NewTask, Scope, Signalled, Store, Submitted, TaskRecord,
};
use jiff::Timestamp;
use serde_json::Value;
use uuid::Uuid;

use crate::error::EngineError;
use crate::event::Event;
use crate::machine::Machine;
use crate::program::{Facts, Program};
use crate::snapshot::{Question, Snapshot};

/// How often a wait looks again where no hint comes, as when another process does the work.
const WAIT_POLL: Duration = Duration::from_millis(200);

/// When a wait looks for the first time at the latest, should a task end before anybody listens.
const FIRST_LOOK: Duration = Duration::from_millis(20);

/// Accepts tasks for one app's program. Cheap to clone.
pub struct Engine<P: Program> {
    pub(crate) program: Arc<P>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    app: Arc<str>,
    definition: Arc<str>,
    pub(crate) task_time: Duration,
}

impl<P: Program> Clone for Engine<P> {
    fn clone(&self) -> Self {
        Self {
            program: Arc::clone(&self.program),
            store: Arc::clone(&self.store),
            clock: Arc::clone(&self.clock),
            ids: Arc::clone(&self.ids),
            app: Arc::clone(&self.app),
            definition: Arc::clone(&self.definition),
            task_time: self.task_time,
        }
    }
}

/// What is to become a task.
#[derive(Debug, Clone)]
pub struct NewRequest {
    /// The user, from the verified token.
    pub owner: Uuid,
    /// The conversation, if it is part of one.
    pub conversation: Option<Uuid>,
    /// Where it came in.
    pub channel: Channel,
    /// The same owner's same key is the same task.
    pub key: Option<String>,
    /// What the user said.
    pub message: Message,
    /// What else the program works on.
    pub input: Value,
}

/// Where a task stands once it has ended or waits for a person.
#[derive(Debug, Clone)]
pub struct Ended {
    /// The row.
    pub record: TaskRecord,
    /// The answer, if there is one.
    pub answer: Option<Answer>,
    /// What a person is asked.
    pub questions: Vec<Question>,
}

impl<P: Program> Engine<P> {
    /// An engine for one app's program over a store.
    pub fn new(
        program: Arc<P>,
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn Ids>,
        app: &str,
        definition: &str,
        task_time: Duration,
    ) -> Self {
        Self {
            program,
            store,
            clock,
            ids,
            app: app.into(),
            definition: definition.into(),
            task_time,
        }
    }

    /// The store underneath.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// The app whose tasks these are.
    pub fn app(&self) -> &str {
        &self.app
    }

    /// Accepts a task. Once this returns, the task is on disk and will be carried out.
    pub async fn submit(&self, request: NewRequest) -> Result<Submitted, EngineError> {
        let deadline = self
            .clock
            .now()
            .checked_add(self.task_time)
            .unwrap_or(Timestamp::MAX);
        self.accept(request, None, deadline).await
    }

    /// Accepts a child of another task, which has no more time than its parent.
    pub(crate) async fn submit_child(
        &self,
        request: NewRequest,
        parent: Uuid,
        deadline: Timestamp,
    ) -> Result<Submitted, EngineError> {
        self.accept(request, Some(parent), deadline).await
    }

    async fn accept(
        &self,
        request: NewRequest,
        parent: Option<Uuid>,
        deadline: Timestamp,
    ) -> Result<Submitted, EngineError> {
        let now = self.clock.now();
        let id = self.ids.next();
        let facts = Facts {
            id,
            owner: request.owner,
            conversation: request.conversation,
            channel: request.channel,
            parent,
            created_at: now,
        };
        let mut machine = Machine::new(Arc::clone(&self.program), facts, deadline);
        machine.begin_with([request.message.clone()]);
        let description = request.message.content.clone();
        let event = Event::Submitted {
            input: request.input,
        };
        let transition = machine.apply(&event, now);
        let mut messages = vec![NewMessage {
            message: request.message,
            spoken: true,
        }];
        messages.extend(transition.messages);
        let task = NewTask {
            id,
            key: request.key,
            owner: request.owner,
            conversation: request.conversation,
            channel: request.channel,
            app: self.app.to_string(),
            definition: self.definition.to_string(),
            description,
            parent,
            deadline,
            retention_days: None,
            tags: Vec::new(),
            entry: NewEntry {
                at: now,
                kind: event.kind(),
                event: to_json(&event),
                state: to_json(machine.snapshot()),
            },
            messages,
        };
        Ok(self.store.submit(task).await?)
    }

    /// Tells a running or waiting task something.
    pub async fn signal(&self, signal: NewSignal) -> Result<Signalled, EngineError> {
        Ok(self.store.signal(signal).await?)
    }

    /// Accepts a task and waits until it has ended or waits for a person.
    pub async fn run(&self, request: NewRequest) -> Result<Ended, EngineError> {
        let task = self.submit(request).await?.id();
        // A task that was accepted a moment ago is not done: the first look can wait for its hint.
        let mut hint = self.store.watch(Scope::Rest(task));
        let _ = tokio::time::timeout(FIRST_LOOK, hint.changed()).await;
        self.wait(task).await
    }

    /// Waits until a task has ended or waits for a person.
    pub async fn wait(&self, task: Uuid) -> Result<Ended, EngineError> {
        let mut hint = self.store.watch(Scope::Rest(task));
        loop {
            let (record, entry) = self
                .store
                .newest(task)
                .await?
                .ok_or(EngineError::UnknownTask(task))?;
            if record.status.is_final() || record.status.awaits_person() {
                let snapshot: Snapshot<Value> = read_snapshot(record.id, entry.state)?;
                return Ok(Ended {
                    record,
                    answer: snapshot.answer,
                    questions: snapshot.questions,
                });
            }
            let _ = tokio::time::timeout(WAIT_POLL, hint.changed()).await;
        }
    }

    /// Waits for a hint that a task has changed, or a moment.
    pub(crate) async fn until_changed(&self, task: Uuid) {
        let mut hint = self.store.watch(Scope::Task(task));
        let _ = tokio::time::timeout(WAIT_POLL, hint.changed()).await;
    }
}

/// Serialising our own plain types cannot fail; should it ever, the journal says so instead of lying.
pub(crate) fn to_json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value)
        .unwrap_or_else(|error| serde_json::json!({ "unwritable": error.to_string() }).to_string())
}

pub(crate) fn read_snapshot<S: serde::de::DeserializeOwned>(
    task: Uuid,
    state: Value,
) -> Result<Snapshot<S>, EngineError> {
    serde_json::from_value(state).map_err(|error| EngineError::UnreadableJournal {
        task,
        reason: error.to_string(),
    })
}
