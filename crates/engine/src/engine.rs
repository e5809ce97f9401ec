//! The handle that everybody else holds: it accepts tasks, passes signals on and waits for ends.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use convoke_model::{Answer, Channel, Clock, Ids, Message, TaskState};
use convoke_store::{Definition, Entry, Filter, Hint, Scope, StateText, Store, TaskRecord, Viewer};
use jiff::Timestamp;
use serde_json::Value;
use uuid::Uuid;

use crate::backlog::Backlog;
use crate::backoff::Backoff;
use crate::closing::{Closer, Closing};
use crate::error::EngineError;
use crate::listeners::Listeners;
use crate::live::Live;
use crate::live_hub::{LiveHub, LiveReader};
use crate::local_queue::LocalQueue;
use crate::program::{Facts, Program};
use crate::snapshot::{Question, Snapshot};
use crate::store_clock::StoreClock;

/// How often a wait looks again where no hint comes, as when another process does the work.
pub(crate) const WAIT_POLL: Duration = Duration::from_millis(200);

/// The longest pause between two looks at a store that is unavailable.
pub(crate) const OUTAGE_PAUSE: Duration = Duration::from_secs(2);

/// Accepts tasks for one app's program. Cheap to clone.
pub struct Engine<P: Program>(pub(crate) Arc<Parts<P>>);

pub(crate) struct Parts<P: Program> {
    pub(crate) program: Arc<P>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<StoreClock>,
    pub(crate) ids: Arc<dyn Ids>,
    pub(crate) app: Box<str>,
    pub(crate) definition: Arc<Definition>,
    /// Definitions that the worker of this process cannot run, each with why.
    unrunnable: Arc<Mutex<BTreeMap<String, String>>>,
    pub(crate) task_time: Duration,
    /// Where the worker of this process takes tasks.
    pub(crate) local_queue: Arc<LocalQueue<P>>,
    /// Who listens to tasks that were not handed to it at once.
    pub(crate) listeners: Arc<Listeners>,
    pub(crate) live_hub: Arc<LiveHub>,
    pub(crate) closing: Arc<Closing>,
    pub(crate) backlog: Arc<Backlog>,
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
    /// How long it waits before it is begun. That time is not the task's.
    pub not_before: Option<Duration>,
    /// The trace that the request belongs to, as W3C trace context writes it.
    pub trace: Option<String>,
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
            clock: Arc::new(StoreClock::new(clock)),
            ids,
            app: app.into(),
            definition,
            unrunnable: Arc::default(),
            task_time,
            local_queue: Arc::default(),
            listeners: Arc::default(),
            live_hub: Arc::default(),
            closing: Arc::default(),
            backlog: Arc::default(),
        }))
    }

    /// An engine that starts tasks with another edition of the same app. It shares everything else with this one: the
    /// worker, the backlog, and the end.
    #[must_use]
    pub fn of_edition(
        &self,
        program: Arc<P>,
        definition: Arc<Definition>,
        task_time: Duration,
    ) -> Self {
        let parts = &self.0;
        Self(Arc::new(Parts {
            program,
            store: Arc::clone(&parts.store),
            clock: Arc::clone(&parts.clock),
            ids: Arc::clone(&parts.ids),
            app: parts.app.clone(),
            definition,
            unrunnable: Arc::clone(&parts.unrunnable),
            task_time,
            local_queue: Arc::clone(&parts.local_queue),
            listeners: Arc::clone(&parts.listeners),
            live_hub: Arc::clone(&parts.live_hub),
            closing: Arc::clone(&parts.closing),
            backlog: Arc::clone(&parts.backlog),
        }))
    }

    /// Refuses new tasks of users (`engine.busy`) while so many of the app wait to be begun. Without it there is no
    /// bound.
    pub fn bound_backlog(&self, limit: usize) {
        self.0.backlog.bound(limit);
    }

    /// How many tasks of the app wait to be begun. Counting stops at `at_most`.
    pub async fn waiting_tasks(&self, at_most: usize) -> Result<usize, EngineError> {
        let waiting = Filter {
            states: vec![TaskState::Submitted],
            ..Filter::default()
        };
        let viewer = Viewer::operator(self.app());
        Ok(self.store().count(&viewer, waiting, at_most).await?)
    }

    /// The store underneath.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.0.store
    }

    /// The store's time, as far as it is known here.
    pub(crate) fn now(&self) -> Timestamp {
        self.0.clock.now()
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
        self.closer().close(reason);
    }

    /// What closes the engine without keeping its program.
    pub fn closer(&self) -> Closer<P> {
        Closer {
            closing: Arc::clone(&self.0.closing),
            local_queue: Arc::clone(&self.0.local_queue),
            listeners: Arc::clone(&self.0.listeners),
        }
    }

    /// Whether the engine is closed.
    pub fn is_closed(&self) -> bool {
        self.0.closing.is_closed()
    }

    /// Returns once the engine is closed, with what whoever waits is told.
    pub async fn closed(&self) -> EngineError {
        self.closer().closed().await
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

    pub(crate) fn full_time(&self) -> Timestamp {
        let end = self.now().checked_add(self.0.task_time);
        end.unwrap_or(Timestamp::MAX)
    }

    /// Waits until a task has ended or waits for a person. An outage of the store only makes it take longer.
    pub async fn wait(&self, viewer: &Viewer, task: Uuid) -> Result<TaskOutcome, EngineError> {
        self.wait_beyond(viewer, task, 0).await
    }

    /// The same once its journal has gone on beyond an entry, such as after an answer.
    pub async fn wait_beyond(
        &self,
        viewer: &Viewer,
        task: Uuid,
        seq: u64,
    ) -> Result<TaskOutcome, EngineError> {
        let mut hint = self.0.store.watch(Scope::Rest(task));
        let mut backoff = Backoff::new(WAIT_POLL, OUTAGE_PAUSE);
        loop {
            // Asked before the look, so that what came to rest until then is seen.
            let closed = self.is_closed();
            let (record, entry) = match self.store().newest(viewer, task).await {
                Ok(newest) => newest.ok_or(EngineError::UnknownTask(task))?,
                Err(error) if error.is_outage() && !closed => {
                    backoff.pause().await;
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
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

    /// Reads what a task's calls say while they are under way in this process. Nothing is said of a task that another
    /// process works on, nor of a call that began before anybody read. Whether the reader may see the task is for the
    /// caller to check.
    pub fn live(&self, task: Uuid) -> LiveReader {
        self.0.live_hub.of(task).read()
    }

    /// Waits for a hint, a moment, or the engine's end.
    pub(crate) async fn until_hint(&self, hint: &mut Hint) {
        self.0.closing.until_hint(hint).await;
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
