//! The engine's handle: accepts tasks, forwards signals, and waits for outcomes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use convoke_model::{Answer, Channel, Clock, Ids, Message, TaskState};
use convoke_store::{
    Blob, Definition, Entry, Filter, Hint, Scope, StateText, Store, TaskRecord, Viewer,
};
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
use crate::program::{ChangeCheck, Facts, Program};
use crate::snapshot::{Question, Snapshot};
use crate::store_clock::StoreClock;

/// Poll interval of waits without hints, as when another process runs the task.
pub(crate) const WAIT_POLL: Duration = Duration::from_millis(200);

/// The longest pause between reads of an unavailable store.
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
    /// Definitions that this process's worker cannot run, with the reason.
    unrunnable: Arc<Mutex<BTreeMap<String, String>>>,
    pub(crate) task_time: Duration,
    /// The queue of this process's worker.
    pub(crate) local_queue: Arc<LocalQueue<P>>,
    /// Listeners of tasks that were not queued directly.
    pub(crate) listeners: Arc<Listeners>,
    pub(crate) live_hub: Arc<LiveHub>,
    pub(crate) closing: Arc<Closing>,
    pub(crate) backlog: Arc<Backlog>,
    /// Checks people's changes besides the program.
    pub(crate) change_check: Option<Arc<dyn ChangeCheck<P>>>,
}

impl<P: Program> Clone for Parts<P> {
    fn clone(&self) -> Self {
        Self {
            program: Arc::clone(&self.program),
            store: Arc::clone(&self.store),
            clock: Arc::clone(&self.clock),
            ids: Arc::clone(&self.ids),
            app: self.app.clone(),
            definition: Arc::clone(&self.definition),
            unrunnable: Arc::clone(&self.unrunnable),
            task_time: self.task_time,
            local_queue: Arc::clone(&self.local_queue),
            listeners: Arc::clone(&self.listeners),
            live_hub: Arc::clone(&self.live_hub),
            closing: Arc::clone(&self.closing),
            backlog: Arc::clone(&self.backlog),
            change_check: self.change_check.clone(),
        }
    }
}

impl<P: Program> Clone for Engine<P> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

/// A request for a new task.
#[derive(Debug, Clone)]
pub struct NewRequest {
    /// The user, from the verified token.
    pub owner: Uuid,
    /// The conversation, if it is part of one.
    pub conversation: Option<Uuid>,
    /// Refuses it while a task of the conversation runs or is ready to.
    pub refused_if_busy: bool,
    /// The channel.
    pub channel: Channel,
    /// Idempotency key: the same key of the same owner is the same task.
    pub key: Option<String>,
    /// The user's message.
    pub message: Message,
    /// The contents of the files and images that the message carries.
    pub blobs: Vec<Blob>,
    /// The input for the program.
    pub input: Value,
    /// The listener for live text, if the task runs in this process.
    pub live: Option<Live>,
    /// How long the task is stored after it has ended.
    pub retention: Retention,
    /// Delay before it starts. It does not count against the task's time limit.
    pub not_before: Option<Duration>,
    /// The trace of the request, as a W3C `traceparent`.
    pub trace: Option<String>,
}

/// How long a task is stored after it has ended, if it overrides the policy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Retention {
    /// Number of days. Overrides the policy.
    pub days: Option<u32>,
    /// Tags for the policy and for filters.
    pub tags: Vec<String>,
}

/// The state of a task that has ended or waits for a person.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct TaskOutcome {
    /// The task's facts.
    pub facts: Arc<Facts>,
    /// The public state.
    pub status: TaskState,
    /// What went wrong, for an operator.
    pub error: Option<String>,
    /// The answer, if there is one.
    pub answer: Option<Answer>,
    /// Its open questions.
    pub questions: Vec<Question>,
}

impl TaskOutcome {
    /// Reads the state of a task from its row and its newest entry, even if it is still running.
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
            change_check: None,
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
        Self(Arc::new(Parts {
            program,
            definition,
            task_time,
            change_check: None,
            ..Parts::clone(&self.0)
        }))
    }

    /// The same engine, which lets this check what people change in their answers.
    #[must_use]
    pub fn with_change_check(&self, check: Arc<dyn ChangeCheck<P>>) -> Self {
        Self(Arc::new(Parts {
            change_check: Some(check),
            ..Parts::clone(&self.0)
        }))
    }

    /// Rejects new tasks of users (`engine.busy`) while this many tasks of the app wait. The default is no limit.
    pub fn bound_backlog(&self, limit: usize) {
        self.0.backlog.bound(limit);
    }

    /// The number of waiting tasks of the app, at most `at_most`.
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

    /// The store's time, as estimated from this process's clock.
    pub(crate) fn now(&self) -> Timestamp {
        self.0.clock.now()
    }

    /// The app's name.
    pub fn app(&self) -> &str {
        &self.0.app
    }

    /// The hash of the app's definition.
    pub fn definition(&self) -> &str {
        &self.0.definition.hash
    }

    /// Closes the engine and all its clones. It accepts no more tasks, pending waits end with the reason, and listeners
    /// of waiting tasks are dropped. Only the first reason is stored.
    pub fn close(&self, reason: impl Into<String>) {
        self.closer().close(reason);
    }

    /// A handle that closes the engine without holding its program.
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

    /// Returns when the engine is closed, with the error for pending waits.
    pub async fn closed(&self) -> EngineError {
        self.closer().closed().await
    }

    /// Definitions that this process's worker cannot run and does not claim, with the reason.
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

    /// Waits until a task has ended or waits for a person. Continues through an outage of the store.
    pub async fn wait(&self, viewer: &Viewer, task: Uuid) -> Result<TaskOutcome, EngineError> {
        self.wait_beyond(viewer, task, 0).await
    }

    /// Waits as [`wait`](Self::wait) does, for an entry after this one, such as after an answer.
    pub async fn wait_beyond(
        &self,
        viewer: &Viewer,
        task: Uuid,
        seq: u64,
    ) -> Result<TaskOutcome, EngineError> {
        let mut hint = self.0.store.watch(Scope::Rest(task));
        let mut backoff = Backoff::new(WAIT_POLL, OUTAGE_PAUSE);
        loop {
            // Checked before the read, so that a task that stopped before it is seen.
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

    /// Reads the live text of a task's open calls in this process. There is none for a task that another process runs.
    /// The caller checks whether the reader may see the task.
    pub fn live(&self, task: Uuid) -> LiveReader {
        self.0.live_hub.of(task).read()
    }

    /// Waits for a hint, a timeout, or the closing of the engine.
    pub(crate) async fn until_hint(&self, hint: &mut Hint) {
        self.0.closing.until_hint(hint).await;
    }

    /// Waits for a hint that a task has changed, or a timeout.
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

/// Parses a state, or a part of it.
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
