//! The handle that everybody else holds: it accepts tasks, passes signals on and waits for ends.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use convoke_model::{Answer, Channel, Clock, Ids, Message, TaskState};
use convoke_store::{
    Definition, Entry, FIRST_EPOCH, Fence, Hint, NewEntry, NewMessage, NewTask, Scope, StateText,
    Store, StoreError, Submission, TaskRecord, text_of,
};
use jiff::Timestamp;
use serde_json::Value;
use sha2::{Digest, Sha256};
use tokio::sync::oneshot;
use uuid::Uuid;

use crate::closing::Closing;
use crate::error::EngineError;
use crate::event::Event;
use crate::listeners::Listeners;
use crate::live::Live;
use crate::local_queue::{HandOff, LocalQueue};
use crate::machine::Machine;
use crate::program::{Facts, Program};
use crate::snapshot::{Question, Snapshot};
use crate::task_driver::Durable;

/// How often a wait looks again where no hint comes, as when another process does the work.
const WAIT_POLL: Duration = Duration::from_millis(200);

/// Accepts tasks for one app's program. Cheap to clone.
pub struct Engine<P: Program>(pub(crate) Arc<Parts<P>>);

pub(crate) struct Parts<P: Program> {
    pub(crate) program: Arc<P>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ids: Arc<dyn Ids>,
    pub(crate) app: Box<str>,
    pub(crate) definition: Arc<Definition>,
    /// Definitions that the worker of this process cannot run, each with why.
    unrunnable: Mutex<BTreeMap<String, String>>,
    pub(crate) task_time: Duration,
    /// Where the worker of this process takes tasks.
    pub(crate) local_queue: LocalQueue<P>,
    /// Who listens to tasks that were not handed to it at once.
    pub(crate) listeners: Listeners,
    pub(crate) closing: Closing,
}

impl<P: Program> Clone for Engine<P> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
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
    /// Who listens while it is worked on, as long as that is in this process.
    pub live: Option<Live>,
    /// How long it is kept once it has ended.
    pub keeping: Retention,
}

/// How long a task is kept once it has ended, where it has a wish of its own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Retention {
    /// So many days, whatever the policy says.
    pub days: Option<u32>,
    /// Words that the policy and people find it by.
    pub tags: Vec<String>,
}

/// Where a task stands once it has ended or waits for a person.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct TaskOutcome {
    /// Which task it is, and whose.
    pub facts: Arc<Facts>,
    /// The public state.
    pub status: TaskState,
    /// What went wrong, for an operator.
    pub error: Option<String>,
    /// The answer, if there is one.
    pub answer: Option<Answer>,
    /// What a person is asked.
    pub questions: Vec<Question>,
}

impl TaskOutcome {
    /// Where a task stands by its row and its newest entry, whether or not it has come to rest.
    pub fn read(record: TaskRecord, newest: &Entry) -> Result<Self, EngineError> {
        let snapshot: Snapshot<Value, Value> = read_snapshot(record.id, &newest.state)?;
        Ok(Self {
            facts: Arc::new(Facts::from(&record)),
            status: record.status,
            error: record.error,
            answer: snapshot.answer,
            questions: snapshot.questions,
        })
    }
}

impl<P: Program> Engine<P> {
    /// An engine for one app's program over a store.
    pub fn new(
        program: Arc<P>,
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn Ids>,
        app: &str,
        definition: Arc<Definition>,
        task_time: Duration,
    ) -> Self {
        Self(Arc::new(Parts {
            program,
            store,
            clock,
            ids,
            app: app.into(),
            definition,
            unrunnable: Mutex::default(),
            task_time,
            local_queue: LocalQueue::default(),
            listeners: Listeners::default(),
            closing: Closing::default(),
        }))
    }

    /// The store underneath.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.0.store
    }

    /// The app whose tasks these are.
    pub fn app(&self) -> &str {
        &self.0.app
    }

    /// The content hash of the app whose tasks these are.
    pub fn definition(&self) -> &str {
        &self.0.definition.hash
    }

    /// Closes the engine and all its clones: from now on it accepts no task, whoever waits for one is told the
    /// reason, unless the task has come to rest by then, and listeners of queued tasks are let go of. The first
    /// reason stays.
    pub fn close(&self, reason: impl Into<String>) {
        self.0.closing.close(reason.into());
        self.0.local_queue.close();
        self.0.listeners.clear();
    }

    /// Whether the engine is closed.
    pub fn is_closed(&self) -> bool {
        self.0.closing.is_closed()
    }

    /// Returns once the engine is closed, with what whoever waits is told.
    pub async fn closed(&self) -> EngineError {
        self.0.closing.closed().await;
        self.0.closing.error()
    }

    /// The definitions whose tasks the worker of this process leaves alone because it cannot run
    /// them, each with why.
    pub fn unrunnable(&self) -> BTreeMap<String, String> {
        self.lock_unrunnable().clone()
    }

    pub(crate) fn cannot_run(&self, definition: String, why: String) {
        self.lock_unrunnable().insert(definition, why);
    }

    fn lock_unrunnable(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, String>> {
        let unrunnable = self.0.unrunnable.lock();
        unrunnable.unwrap_or_else(PoisonError::into_inner)
    }

    /// Accepts a task. Once this returns, the task is on disk and will be carried out.
    pub async fn submit(&self, request: NewRequest) -> Result<Submission, EngineError> {
        self.accept(request, None, self.full_time(), None, true)
            .await
    }

    /// Accepts a task and waits until it has ended or waits for a person.
    pub async fn run(&self, request: NewRequest) -> Result<TaskOutcome, EngineError> {
        self.run_until(request, None, self.full_time()).await
    }

    /// The same for a child of another task, which has no more time than its parent.
    pub(crate) async fn run_until(
        &self,
        request: NewRequest,
        parent: Option<Uuid>,
        deadline: Timestamp,
    ) -> Result<TaskOutcome, EngineError> {
        let (waiter, mut ended) = oneshot::channel();
        let accepted = self
            .accept(request, parent, deadline, Some(waiter), false)
            .await?;
        tokio::select! {
            biased;
            ended = &mut ended => if let Ok(ended) = ended {
                return Ok(ended);
            },
            () = self.0.closing.closed() => {}
        }
        // Somebody else works on it.
        self.wait(accepted.id()).await
    }

    pub(crate) fn full_time(&self) -> Timestamp {
        let end = self.0.clock.now().checked_add(self.0.task_time);
        end.unwrap_or(Timestamp::MAX)
    }

    /// Writes a task down, and hands it to the worker of this process where that has a place for it.
    async fn accept(
        &self,
        request: NewRequest,
        parent: Option<Uuid>,
        deadline: Timestamp,
        waiter: Option<oneshot::Sender<TaskOutcome>>,
        once_durable: bool,
    ) -> Result<Submission, EngineError> {
        if self.is_closed() {
            return Err(self.0.closing.error());
        }
        let now = self.0.clock.now();
        let id = self.0.ids.next();
        let facts = Facts {
            id,
            owner: request.owner,
            conversation: request.conversation,
            channel: request.channel,
            parent,
            created_at: now,
            deadline,
        };
        // A task with neither a key nor a conversation can meet no other, so that work on it begins
        // while the store still writes it down.
        let at_once = request.key.is_none() && request.conversation.is_none();
        // What a parent asks of a child may be worded otherwise after a crash, and is still the same call.
        let fingerprint = match (&request.key, parent) {
            (Some(_), None) => Some(fingerprint(&request)),
            _ => None,
        };
        let mut machine = Machine::new(Arc::clone(&self.0.program), facts);
        let description = request.message.content.clone();
        let mut messages = vec![NewMessage::spoken(&request.message)];
        machine.begin_with([request.message]);
        let event = Event::Submitted {
            input: request.input,
        };
        let (kind, text) = (event.kind(), text_of(&event));
        messages.extend(machine.apply(event, now).messages);
        let local_worker = self.0.local_queue.take();
        let task = NewTask {
            id,
            fingerprint,
            key: request.key,
            owner: request.owner,
            conversation: request.conversation,
            channel: request.channel,
            app: self.0.app.to_string(),
            definition: Arc::clone(&self.0.definition),
            description,
            parent,
            deadline,
            retention_days: request.keeping.days,
            tags: request.keeping.tags,
            stage: machine.snapshot().stage,
            entry: NewEntry {
                at: now,
                kind: kind.into(),
                event: text,
                state: text_of(machine.snapshot()),
            },
            messages,
            hold: local_worker
                .as_ref()
                .map(|(local_worker, _)| local_worker.lease().clone()),
        };
        let mut live = request.live;
        let queues = local_worker.is_none() || !at_once;
        if queues && let Some(live) = live.take() {
            // A task can be claimed as soon as it is in the store, so its listener is there first.
            self.0.listeners.add(id, live);
            if self.is_closed() {
                // It may have been closed since the first look, and then this came too late to be let go of.
                self.0.listeners.clear();
                return Err(self.0.closing.error());
            }
        }
        let submitted = self.0.store.submit(task);
        let Some((local_worker, permit)) = local_worker else {
            return self.queued(id, submitted.await);
        };
        let fence = Fence {
            task: id,
            epoch: FIRST_EPOCH,
            seq: machine.seq(),
        };
        let durable = if at_once {
            Durable::of(submitted)
        } else {
            let submitted = submitted.await;
            if !matches!(submitted, Ok(Submission::Created { held: true, .. })) {
                return self.queued(id, submitted);
            }
            live = self.0.listeners.take(id);
            Durable::Now
        };
        let hand_off = HandOff {
            machine,
            fence,
            durable: durable.clone(),
            live,
            waiter,
        };
        local_worker.hand_over(hand_off, permit);
        if once_durable {
            durable.wait().await?;
        }
        Ok(Submission::Created { id, held: true })
    }

    /// What became of a task that is left to be claimed. Nobody claims one that was not created.
    fn queued(
        &self,
        id: Uuid,
        submitted: Result<Submission, StoreError>,
    ) -> Result<Submission, EngineError> {
        if !matches!(submitted, Ok(Submission::Created { .. })) {
            self.0.listeners.take(id);
        }
        Ok(submitted?)
    }

    /// Waits until a task has ended or waits for a person.
    pub async fn wait(&self, task: Uuid) -> Result<TaskOutcome, EngineError> {
        self.wait_beyond(task, 0).await
    }

    /// The same once its journal has gone on beyond an entry, such as after an answer.
    pub async fn wait_beyond(&self, task: Uuid, seq: u64) -> Result<TaskOutcome, EngineError> {
        let mut hint = self.0.store.watch(Scope::Rest(task));
        loop {
            // Asked before the look, so that what came to rest until then is seen.
            let closed = self.is_closed();
            let (record, entry) = self
                .store()
                .newest(task)
                .await?
                .ok_or(EngineError::UnknownTask(task))?;
            let rests = record.status.is_final() || record.status.awaits_person();
            if rests && record.seq > seq {
                return TaskOutcome::read(record, &entry);
            }
            if closed {
                return Err(self.0.closing.error());
            }
            self.until_hint(&mut hint).await;
        }
    }

    /// Waits for a hint, a moment, or the engine's end.
    pub(crate) async fn until_hint(&self, hint: &mut Hint) {
        tokio::select! {
            _ = tokio::time::timeout(WAIT_POLL, hint.changed()) => {}
            () = self.0.closing.closed() => {}
        }
    }

    /// Waits for a hint that a task has changed, or a moment.
    pub(crate) async fn until_changed(&self, task: Uuid) -> Result<(), EngineError> {
        let mut hint = self.0.store.watch(Scope::Task(task));
        self.until_hint(&mut hint).await;
        if self.is_closed() {
            return Err(self.0.closing.error());
        }
        Ok(())
    }
}

/// A hash of what is asked, as hexadecimal digits.
fn fingerprint(request: &NewRequest) -> String {
    // Whoever repeats a request may mint another conversation for it.
    let asked = (&request.message.content, &request.input);
    let digest = Sha256::digest(text_of(&asked));
    let digits = digest.iter().map(|byte| format!("{byte:02x}"));
    digits.collect()
}

pub(crate) fn read_snapshot<S, R>(
    task: Uuid,
    state: &StateText,
) -> Result<Snapshot<S, R>, EngineError>
where
    S: serde::de::DeserializeOwned,
    R: serde::de::DeserializeOwned,
{
    read_state(task, state)
}

/// Reads a state, or a part of it.
pub(crate) fn read_state<T>(task: Uuid, state: &StateText) -> Result<T, EngineError>
where
    T: serde::de::DeserializeOwned,
{
    state
        .read()
        .map_err(|error| EngineError::UnreadableJournal {
            task,
            reason: error.to_string(),
        })
}
