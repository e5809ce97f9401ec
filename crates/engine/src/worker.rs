//! The worker: claims tasks, drives many at once, and keeps their leases.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use convoke_model::TaskState;
use convoke_store::{
    Batch, Claim, ClaimedTask, Definition, Fence, LeaseAction, NewEntry, Scope, StatusUpdate,
    StoreError, text_of,
};
use futures::FutureExt;
use serde_json::Value;
use tokio::sync::{Notify, mpsc};
use tokio::task::{AbortHandle, JoinError, JoinSet};
use tokio::time::{Interval, MissedTickBehavior};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::call::Executor;
use crate::edition::{Edition, EditionError, Editions};
use crate::engine::{Engine, read_snapshot};
use crate::error::EngineError;
use crate::event::Event;
use crate::local_queue::HandOff;
use crate::permits::{Permit, Permits};
use crate::program::Program;
use crate::snapshot::Snapshot;
use crate::task_driver::{TaskDriver, WorkerContext};

/// What a worker may do, and how long things may take.
#[derive(Debug, Clone)]
pub struct Options {
    /// The worker's id, unlike any other's.
    pub worker: String,
    /// Tasks worked on at once.
    pub concurrent_tasks: usize,
    /// How long a claim holds unless renewed.
    pub lease: Duration,
    /// How often to look for work where no hint comes.
    pub poll: Duration,
    /// Claims without progress after which a task is set aside.
    pub max_claims: u32,
    /// How long a question waits for its answer.
    pub question_time: Duration,
    /// How often a repeatable call whose outcome is unknown is made again.
    pub repeats: u32,
    /// The pause before each repetition, times its number.
    pub repeat_pause: Duration,
    /// How long stopping waits for calls under way.
    pub grace: Duration,
}

impl Options {
    /// The defaults, for a worker of this name.
    pub fn for_worker(worker: impl Into<String>) -> Self {
        Self {
            worker: worker.into(),
            concurrent_tasks: 64,
            lease: Duration::from_secs(10),
            poll: Duration::from_millis(500),
            max_claims: 5,
            question_time: Duration::from_hours(24),
            repeats: 3,
            repeat_pause: Duration::from_millis(200),
            grace: Duration::from_secs(5),
        }
    }
}

/// Works on tasks of one app.
pub struct Worker<P: Program, X: Executor<P>> {
    engine: Engine<P>,
    executor: Arc<X>,
    options: Options,
    permits: Permits,
    hand_off: mpsc::UnboundedReceiver<(HandOff<P>, Permit)>,
    editions: Option<Arc<dyn Editions<P, X>>>,
}

impl<P: Program, X: Executor<P>> Worker<P, X> {
    /// A worker for an engine's app. From now on the engine hands it tasks, which wait until it runs.
    pub fn new(engine: Engine<P>, executor: Arc<X>, options: Options) -> Self {
        let permits = Permits::new(options.concurrent_tasks);
        let local_queue = &engine.0.local_queue;
        Self {
            hand_off: local_queue.open(&options.worker, options.lease, permits.clone()),
            engine,
            executor,
            options,
            permits,
            editions: None,
        }
    }

    /// Works also on tasks that were begun with another edition of the app, each with its own. Without
    /// this they are left to others.
    #[must_use]
    pub fn with_editions(mut self, editions: Arc<dyn Editions<P, X>>) -> Self {
        self.editions = Some(editions);
        self
    }

    /// Works until told to stop. Then it takes nothing more, waits for calls under way as long as
    /// the grace lasts, and puts the rest down for the next worker.
    pub async fn run(self, stop: CancellationToken) -> Result<(), EngineError> {
        let mut state = WorkerState {
            context: Arc::new(WorkerContext {
                engine: self.engine,
                executor: self.executor,
                options: self.options,
                stop,
                permits: self.permits,
            }),
            hand_off: self.hand_off,
            running: JoinSet::new(),
            held: HashMap::new(),
            editions: self.editions,
            earlier: HashMap::new(),
        };
        state.work().await?;
        state.finish().await;
        Ok(())
    }
}

/// A task in the worker's hands: under which epoch, and how to reach its driver.
struct HeldTask {
    epoch: u64,
    driver: AbortHandle,
    signalled: Arc<Notify>,
}

/// A worker at work.
struct WorkerState<P: Program, X: Executor<P>> {
    context: Arc<WorkerContext<P, X>>,
    hand_off: mpsc::UnboundedReceiver<(HandOff<P>, Permit)>,
    running: JoinSet<(Uuid, u64)>,
    held: HashMap<Uuid, HeldTask>,
    editions: Option<Arc<dyn Editions<P, X>>>,
    /// Where tasks of earlier editions are worked on.
    earlier: HashMap<String, Arc<WorkerContext<P, X>>>,
}

impl<P: Program, X: Executor<P>> WorkerState<P, X> {
    async fn work(&mut self) -> Result<(), EngineError> {
        let context = Arc::clone(&self.context);
        let mut work = context.engine.0.store.watch(Scope::Work);
        let mut renew = interval(context.options.lease / 3);
        let mut poll = interval(context.options.poll);
        // Whether there may be something to claim.
        let mut look = true;
        loop {
            let room = context.permits.free();
            if look && room > 0 && !context.stop.is_cancelled() {
                let claimed = self.claim(room).await?;
                look = claimed.len() == room;
                for claimed in claimed {
                    self.take_up(claimed).await?;
                }
            }
            tokio::select! {
                biased;
                () = context.stop.cancelled() => return Ok(()),
                _ = renew.tick() => self.renew().await?,
                _ = poll.tick() => look = true,
                () = work.changed() => look = true,
                Some((hand_off, permit)) = self.hand_off.recv() => self.begin(hand_off, permit),
                Some(ended) = self.running.join_next() => self.forget(ended),
            }
        }
    }

    /// Takes nothing more, and waits for calls under way as long as the grace lasts.
    async fn finish(&mut self) {
        self.context.engine.0.local_queue.close();
        self.hand_off.close();
        while let Ok((hand_off, permit)) = self.hand_off.try_recv() {
            self.begin(hand_off, permit);
        }
        let finish = async { while self.running.join_next().await.is_some() {} };
        if tokio::time::timeout(self.context.options.grace, finish)
            .await
            .is_err()
        {
            tracing::warn!(
                "some calls did not finish in time; their tasks go on when they are claimed again"
            );
        }
    }

    async fn claim(&self, limit: usize) -> Result<Vec<ClaimedTask>, EngineError> {
        let claim = Claim {
            worker: self.context.options.worker.clone(),
            apps: vec![self.context.engine.app().to_owned()],
            except: self.context.engine.unrunnable().into_keys().collect(),
            lease: self.context.options.lease,
            limit,
        };
        Ok(self.context.engine.0.store.claim(claim).await?)
    }

    /// Goes to work on a task, unless it cannot be worked on. Claims are counted before anything of the
    /// task is opened, so that a task which takes its worker with it is set aside all the same.
    async fn take_up(&mut self, claimed: ClaimedTask) -> Result<(), EngineError> {
        let (task, epoch) = (claimed.record.id, claimed.record.epoch);
        let claims = claimed.record.claims;
        if claims > self.context.options.max_claims {
            return self.set_aside(claimed, Event::Poisoned { claims }).await;
        }
        let context = match self.context_of(&claimed.record.definition).await? {
            Ok(context) => context,
            Err(EditionError::Unavailable(why)) => return self.put_back(claimed, why).await,
            Err(EditionError::Invalid(cause)) => {
                return self.set_aside(claimed, Event::SetAside { cause }).await;
            }
        };
        let snapshot = match read_snapshot(task, &claimed.entry.state) {
            Ok(snapshot) => snapshot,
            Err(error) => {
                let cause = error.to_string();
                return self.set_aside(claimed, Event::SetAside { cause }).await;
            }
        };
        let permit = self.context.permits.take();
        let live = self.context.engine.0.listeners.take(task);
        let task_driver = TaskDriver::claimed(context, claimed, snapshot, permit, live);
        self.start(task_driver, task, epoch);
        Ok(())
    }

    /// Where tasks of a definition are worked on, or why they cannot be here.
    async fn context_of(
        &mut self,
        definition: &str,
    ) -> Result<Result<Arc<WorkerContext<P, X>>, EditionError>, EngineError> {
        let current = &self.context.engine.0;
        if current.definition.hash == definition {
            return Ok(Ok(Arc::clone(&self.context)));
        }
        if let Some(context) = self.earlier.get(definition) {
            return Ok(Ok(Arc::clone(context)));
        }
        let Some(editions) = &self.editions else {
            let why = "only the app as it is now is run here";
            return Ok(Err(EditionError::Unavailable(why.into())));
        };
        let Some(kept) = current.store.definition(definition).await? else {
            let why = "what the task was begun with is not in the store";
            return Ok(Err(EditionError::Unavailable(why.into())));
        };
        let Edition {
            program,
            executor,
            task_time,
        } = match open(editions.as_ref(), kept.clone()).await {
            Ok(edition) => edition,
            Err(error) => return Ok(Err(error)),
        };
        let engine = Engine::new(
            program,
            Arc::clone(&current.store),
            Arc::clone(&current.clock),
            Arc::clone(&current.ids),
            &current.app,
            Arc::new(kept),
            task_time,
        );
        let context = Arc::new(WorkerContext {
            engine,
            executor,
            options: self.context.options.clone(),
            stop: self.context.stop.clone(),
            permits: self.context.permits.clone(),
        });
        self.earlier
            .insert(definition.to_owned(), Arc::clone(&context));
        Ok(Ok(context))
    }

    /// Leaves a task to somebody who can run it, and takes no more of its kind.
    async fn put_back(&self, claimed: ClaimedTask, why: String) -> Result<(), EngineError> {
        let record = &claimed.record;
        tracing::warn!(task = %record.id, definition = record.definition, why, "a task cannot be run here");
        let engine = &self.context.engine;
        engine.cannot_run(record.definition.clone(), why.clone());
        let standing = StatusUpdate {
            status: record.status,
            stage: record.stage,
            hold: LeaseAction::Release {
                wake_at: Some(engine.0.clock.now()),
            },
            result: None,
            error: None,
            // Nobody has tried, so that nobody has failed.
            progress: true,
        };
        let state = claimed.entry.state.as_str().to_owned();
        self.let_go(&claimed, Event::PutBack { why }, state, standing)
            .await
    }

    /// Ends a task that nobody can work on, with the cause. Needs neither its program nor a state that can
    /// be read.
    async fn set_aside(
        &self,
        claimed: ClaimedTask,
        event: Event<Value>,
    ) -> Result<(), EngineError> {
        let task = claimed.record.id;
        let mut snapshot: Snapshot<Value, Value> =
            read_snapshot(task, &claimed.entry.state).unwrap_or_default();
        if let Some(cause) = event.set_aside_cause() {
            tracing::error!(%task, cause, "a task is set aside");
            snapshot.stop(TaskState::Failed, cause);
        }
        let standing = StatusUpdate {
            status: snapshot.status,
            stage: snapshot.stage,
            hold: LeaseAction::Release { wake_at: None },
            result: snapshot.answer.as_ref().map(|answer| answer.text.clone()),
            error: snapshot.error.clone(),
            progress: false,
        };
        self.let_go(&claimed, event, text_of(&snapshot), standing)
            .await
    }

    /// Writes the last entry that this worker writes for a task it never went to work on.
    async fn let_go(
        &self,
        claimed: &ClaimedTask,
        event: Event<Value>,
        state: String,
        standing: StatusUpdate,
    ) -> Result<(), EngineError> {
        let engine = &self.context.engine;
        let batch = Batch {
            entries: vec![NewEntry {
                at: engine.0.clock.now(),
                kind: event.kind().into(),
                event: text_of(&event),
                state,
            }],
            messages: Vec::new(),
            consumed: Vec::new(),
            standing: Some(standing),
        };
        match engine.0.store.append(claimed.fence(), batch).await {
            Ok(_) | Err(StoreError::Fenced { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn begin(&mut self, hand_off: HandOff<P>, permit: Permit) {
        let (task, epoch) = (hand_off.fence.task, hand_off.fence.epoch);
        let task_driver = TaskDriver::hand_off(Arc::clone(&self.context), hand_off, permit);
        self.start(task_driver, task, epoch);
    }

    fn start(&mut self, task_driver: TaskDriver<P, X>, task: Uuid, epoch: u64) {
        let signalled = Arc::new(Notify::new());
        let inbox = Arc::clone(&signalled);
        // In a box, because a task of the runtime is moved several times before it stays.
        let work = Box::pin(async move {
            if let Err(error) = task_driver.run(&inbox).await {
                tell_dropped(task, &error);
            }
            (task, epoch)
        });
        let driver = self.running.spawn(work);
        let held = HeldTask {
            epoch,
            driver,
            signalled,
        };
        self.held.insert(task, held);
    }

    /// Prolongs every lease. A task that is no longer ours is dropped at once.
    async fn renew(&mut self) -> Result<(), EngineError> {
        if self.held.is_empty() {
            return Ok(());
        }
        let fences = self.held.iter().map(|(task, held)| Fence {
            task: *task,
            epoch: held.epoch,
            seq: 0,
        });
        let store = &self.context.engine.0.store;
        let lease = self.context.options.lease;
        for renewed in store.renew(fences.collect(), lease).await? {
            if renewed.held {
                if renewed.signalled
                    && let Some(held) = self.held.get(&renewed.task)
                {
                    held.signalled.notify_one();
                }
            } else if let Some(lost) = self.held.remove(&renewed.task) {
                lost.driver.abort();
            }
        }
        Ok(())
    }

    /// The same task may have been claimed again already; only the claim that ended is forgotten.
    fn forget(&mut self, ended: Result<(Uuid, u64), JoinError>) {
        match ended {
            Ok((task, epoch)) => {
                if self.held.get(&task).is_some_and(|held| held.epoch == epoch) {
                    self.held.remove(&task);
                }
            }
            Err(error) => {
                if error.is_panic() {
                    tracing::error!(%error, "a task's driver panicked; the task is claimed again");
                }
                self.held.retain(|_, held| !held.driver.is_finished());
            }
        }
    }
}

impl<P: Program, X: Executor<P>> Drop for WorkerState<P, X> {
    fn drop(&mut self) {
        self.context.engine.0.local_queue.close();
    }
}

/// Opens an edition. One that panics on the way is as broken as one that says so.
async fn open<P: Program, X: Executor<P>>(
    editions: &dyn Editions<P, X>,
    definition: Definition,
) -> Result<Edition<P, X>, EditionError> {
    let opened = AssertUnwindSafe(editions.open(definition)).catch_unwind();
    let panicked = |_| Err(EditionError::Invalid("opening it panicked".into()));
    opened.await.unwrap_or_else(panicked)
}

fn interval(period: Duration) -> Interval {
    let mut interval = tokio::time::interval(period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}

/// The task stays in the store as its journal has it, and is claimed again.
fn tell_dropped(task: Uuid, error: &EngineError) {
    tracing::warn!(%task, %error, code = error.code(), "a task was dropped by its worker");
}
