//! The worker: claims tasks, runs many at once, and renews their leases. It survives an outage of the store: it keeps
//! open calls running and continues when the store is back.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use convoke_store::{
    Claim, Claimed, ClaimedTask, FIRST_EPOCH, Fence, INLINE_BYTES, RenewedLease, Scope, StoreError,
};
use convoke_telemetry::metrics;
use futures::FutureExt;
use futures::future::{BoxFuture, Fuse, FusedFuture};
use jiff::Timestamp;
use tokio::sync::{Notify, mpsc};
use tokio::task::{AbortHandle, JoinError, JoinSet};
use tokio::time::{Instant, Interval, MissedTickBehavior};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, Span};
use uuid::Uuid;

use crate::call::Executor;
use crate::edition::Editions;
use crate::edition_cache::EditionCache;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::local_queue::HandOff;
use crate::measured;
use crate::permits::{Permit, Permits};
use crate::program::{Facts, Program};
use crate::spans;
use crate::task_driver::TaskDriver;
use crate::worker_context::{LeaseTime, WorkerContext};

/// Settings of a worker.
#[derive(Debug, Clone)]
pub struct Options {
    /// The worker's id, unique among all workers.
    pub worker: String,
    /// Limit of tasks that run at once.
    pub concurrent_tasks: usize,
    /// Duration of a lease.
    pub lease: Duration,
    /// How often to claim without a hint from the store.
    pub poll: Duration,
    /// Larger values, in bytes, are stored as blobs beside the journal.
    pub inline_bytes: usize,
    /// Claims without progress after which a task is set aside.
    pub max_claims: u32,
    /// How long a question stays open.
    pub question_time: Duration,
    /// Limit of repetitions of a repeatable call whose outcome is unknown.
    pub repeats: u32,
    /// How often one call may be postponed. After that its failure stands.
    pub postponements: u32,
    /// The pause before each repetition, times its number.
    pub repeat_pause: Duration,
    /// How long a stop waits for open calls. Leases are renewed meanwhile.
    pub grace: Duration,
    /// A task that waits longer than this for a timer is released until the timer is due.
    pub hold_timers: Duration,
    /// How long an earlier edition of the app stays open without a task that uses it.
    pub edition_idle: Duration,
}

impl Options {
    /// The defaults, for a worker of this name.
    pub fn for_worker(worker: impl Into<String>) -> Self {
        Self {
            worker: worker.into(),
            concurrent_tasks: 64,
            lease: Duration::from_secs(10),
            poll: Duration::from_millis(500),
            inline_bytes: INLINE_BYTES,
            max_claims: 5,
            question_time: Duration::from_hours(24),
            repeats: 3,
            postponements: 16,
            repeat_pause: Duration::from_millis(200),
            grace: Duration::from_secs(5),
            hold_timers: Duration::from_secs(2),
            edition_idle: Duration::from_mins(1),
        }
    }
}

/// Runs the tasks of one app.
pub struct Worker<P: Program, X: Executor<P>> {
    engine: Engine<P>,
    executor: Arc<X>,
    options: Options,
    permits: Permits,
    hand_off: mpsc::UnboundedReceiver<(HandOff<P>, Permit)>,
    reloads: Reloads<P, X>,
    editions: Option<Arc<dyn Editions<P, X>>>,
}

/// A new edition for a worker.
pub(crate) struct Reload<P: Program, X> {
    pub(crate) engine: Engine<P>,
    pub(crate) executor: Arc<X>,
    pub(crate) options: Options,
}

/// Both ends: the sender keeps the channel open if there is no reloader.
type Reloads<P, X> = (
    mpsc::UnboundedSender<Reload<P, X>>,
    mpsc::UnboundedReceiver<Reload<P, X>>,
);

/// Gives a worker another edition of its app while it runs.
pub struct Reloader<P: Program, X>(mpsc::UnboundedSender<Reload<P, X>>);

impl<P: Program, X> Reloader<P, X> {
    /// Makes an engine's edition the current one. The engine comes from [`Engine::of_edition`]. Tasks that started with
    /// another edition keep it. The options take effect, except the worker's name, its leases and its number of tasks.
    pub fn reload(&self, engine: Engine<P>, executor: Arc<X>, options: Options) {
        // The worker may have ended.
        let _ = self.0.send(Reload {
            engine,
            executor,
            options,
        });
    }
}

impl<P: Program, X: Executor<P>> Worker<P, X> {
    /// A worker for an engine's app. The engine queues tasks for it from now on; they wait until it runs.
    pub fn new(engine: Engine<P>, executor: Arc<X>, options: Options) -> Self {
        let permits = Permits::new(options.concurrent_tasks);
        Self::sharing(permits, engine, executor, options)
    }

    /// A worker that shares permits with workers of other apps. `concurrent_tasks` has no effect.
    pub fn sharing(
        permits: Permits,
        engine: Engine<P>,
        executor: Arc<X>,
        options: Options,
    ) -> Self {
        let local_queue = &engine.0.local_queue;
        Self {
            hand_off: local_queue.open(&options.worker, options.lease, permits.clone()),
            engine,
            executor,
            options,
            permits,
            reloads: mpsc::unbounded_channel(),
            editions: None,
        }
    }

    /// Reloads this worker's app later.
    pub fn reloader(&self) -> Reloader<P, X> {
        Reloader(self.reloads.0.clone())
    }

    /// Also runs tasks that started with another edition of the app, each with its own edition. Otherwise they are left
    /// to other workers.
    #[must_use]
    pub fn with_editions(mut self, editions: Arc<dyn Editions<P, X>>) -> Self {
        self.editions = Some(editions);
        self
    }

    /// Runs until `stop`. Then accepts nothing more, waits up to `grace` for open calls, and releases the remaining
    /// tasks. Fails only if the store is permanently unusable.
    pub async fn run(self, stop: CancellationToken) -> Result<(), EngineError> {
        let lease = self.options.lease;
        let context = Arc::new(WorkerContext {
            engine: self.engine,
            executor: self.executor,
            options: self.options,
            stop,
            permits: self.permits,
            lease_time: LeaseTime::new(lease),
        });
        let mut state = WorkerState {
            editions: Arc::new(EditionCache::new(Arc::clone(&context), self.editions)),
            context,
            hand_off: self.hand_off,
            reloads: self.reloads,
            running: JoinSet::new(),
            held: HashMap::new(),
            claiming: Fuse::terminated(),
            reserved: None,
            renewing: Fuse::terminated(),
        };
        let worked = state.work().await;
        state.finish().await;
        worked
    }
}

/// A task that the worker runs: its epoch and its driver.
struct HeldTask {
    epoch: u64,
    driver: AbortHandle,
    signalled: Arc<Notify>,
}

/// An open request to the store, with the times at which it was made by the process's two clocks.
type Request<T> = Fuse<BoxFuture<'static, (Timestamp, Instant, Result<T, StoreError>)>>;

/// The state of a running worker.
struct WorkerState<P: Program, X: Executor<P>> {
    context: Arc<WorkerContext<P, X>>,
    editions: Arc<EditionCache<P, X>>,
    hand_off: mpsc::UnboundedReceiver<(HandOff<P>, Permit)>,
    reloads: Reloads<P, X>,
    running: JoinSet<(Uuid, u64)>,
    held: HashMap<Uuid, HeldTask>,
    claiming: Request<Claimed>,
    /// A permit for the first task of the next claim, if none was free.
    reserved: Option<Permit>,
    renewing: Request<Vec<RenewedLease>>,
}

impl<P: Program, X: Executor<P>> WorkerState<P, X> {
    async fn work(&mut self) -> Result<(), EngineError> {
        let mut context = Arc::clone(&self.context);
        let mut work = context.engine.store().watch(Scope::Work);
        let mut renew = interval(context.options.lease / 3);
        let mut poll = interval(context.options.poll);
        // Whether there may be tasks to claim.
        let mut look = true;
        let mut claim_limit = 0;
        // When a timer of a task that no worker holds is due, or a lease expires, by the newest claim.
        let mut next_ready: Option<Instant> = None;
        loop {
            let free = context.permits.free() + usize::from(self.reserved.is_some());
            self.measure();
            // While leases are in doubt, a claim could take this worker's own tasks from its drivers.
            let may_claim =
                look && self.claiming.is_terminated() && context.lease_time.is_certain();
            if may_claim && free > 0 && !context.stop.is_cancelled() {
                look = false;
                claim_limit = free;
                self.claiming = self.claim(free);
            }
            tokio::select! {
                biased;
                () = context.stop.cancelled() => return Ok(()),
                Some(next) = self.reloads.1.recv() => {
                    self.reload(next).await;
                    context = Arc::clone(&self.context);
                }
                claimed = &mut self.claiming, if !self.claiming.is_terminated() => {
                    let (requested_at, _, claimed) = claimed;
                    let claimed = unless_outage(claimed, "claim", "no task could be claimed")?;
                    if let Some(claimed) = claimed {
                        context.engine.0.clock.correct(requested_at, claimed.now);
                        let next = claimed.next_ready_in;
                        next_ready = next.and_then(|wait| Instant::now().checked_add(wait));
                        look |= claimed.tasks.len() == claim_limit;
                        for claimed in claimed.tasks {
                            self.take_up(claimed);
                        }
                    }
                    self.reserved = None;
                }
                renewed = &mut self.renewing, if !self.renewing.is_terminated() => {
                    self.renewed(renewed)?;
                }
                _ = renew.tick(), if self.renewing.is_terminated() => {
                    self.renewing = self.renew();
                    self.editions.close_idle().await;
                }
                () = until(next_ready), if next_ready.is_some() => {
                    next_ready = None;
                    look = true;
                }
                _ = poll.tick() => look = true,
                () = work.changed() => look = true,
                Some((hand_off, permit)) = self.hand_off.recv() => {
                    // A task of a new edition is accepted after the reload was sent.
                    while let Ok(next) = self.reloads.1.try_recv() {
                        self.reload(next).await;
                    }
                    context = Arc::clone(&self.context);
                    self.begin(hand_off, permit);
                }
                Some(ended) = self.running.join_next() => self.forget(ended),
                // Keeps the permit for the claim: otherwise several workers could wake each other forever.
                permit = context.permits.wait(), if may_claim && free == 0 => self.reserved = permit,
            }
        }
    }

    /// Accepts nothing more, and waits up to the grace period for open calls. Their leases are renewed.
    async fn finish(&mut self) {
        self.context.engine.0.local_queue.close();
        self.hand_off.close();
        while let Ok((hand_off, permit)) = self.hand_off.try_recv() {
            self.begin(hand_off, permit);
        }
        let grace = self.context.options.grace;
        if tokio::time::timeout(grace, self.finish_running())
            .await
            .is_err()
        {
            tracing::warn!(
                "some calls did not finish in time; their tasks go on when they are claimed again"
            );
        }
    }

    async fn finish_running(&mut self) {
        if !self.claiming.is_terminated()
            && let (_, _, Ok(claimed)) = (&mut self.claiming).await
        {
            // Their drivers release them.
            for claimed in claimed.tasks {
                self.take_up(claimed);
            }
        }
        let mut renew = interval(self.context.options.lease / 3);
        while !self.running.is_empty() {
            tokio::select! {
                biased;
                Some(ended) = self.running.join_next() => self.forget(ended),
                renewed = &mut self.renewing, if !self.renewing.is_terminated() => {
                    if let Err(error) = self.renewed(renewed) {
                        tracing::warn!(%error, "leases could not be prolonged");
                    }
                }
                _ = renew.tick(), if self.renewing.is_terminated() => self.renewing = self.renew(),
            }
        }
    }

    fn measure(&self) {
        if convoke_telemetry::is_collected() {
            let app = [self.context.engine.app()];
            metrics::TASKS_HELD.set(self.held.len(), app);
            metrics::PERMITS_USED.set(self.context.permits.used(), app);
            metrics::LOCAL_QUEUE.set(self.hand_off.len(), app);
        }
    }

    fn claim(&self, limit: usize) -> Request<Claimed> {
        let context = &self.context;
        let claim = Claim {
            worker: context.options.worker.clone(),
            apps: vec![context.engine.app().to_owned()],
            except: context.engine.unrunnable().into_keys().collect(),
            lease: context.options.lease,
            limit,
        };
        let requested_at = (context.engine.0.clock.local(), Instant::now());
        let claimed = context.engine.store().claim(claim);
        claimed
            .map(move |claimed| (requested_at.0, requested_at.1, claimed))
            .boxed()
            .fuse()
    }

    /// Starts a claimed task.
    fn take_up(&mut self, claimed: ClaimedTask) {
        let (facts, epoch) = (Facts::from(&claimed.record), claimed.record.epoch);
        let task = facts.id;
        metrics::CLAIMS.increment([self.context.engine.app()]);
        let permit = self.reserved.take();
        let permit = permit.or_else(|| self.context.permits.take());
        let live = self.context.engine.0.listeners.take(task);
        let editions = Arc::clone(&self.editions);
        self.start(&facts, epoch, |signalled| {
            async move { editions.work_on(claimed, permit, live, &signalled).await }.boxed()
        });
    }

    async fn reload(&mut self, next: Reload<P, X>) {
        self.editions.replace(next).await;
        self.context = self.editions.current();
    }

    fn begin(&mut self, hand_off: HandOff<P>, permit: Permit) {
        let facts = Arc::clone(hand_off.machine.facts());
        let epoch = hand_off.fence.epoch;
        if hand_off.definition.hash != self.context.engine.definition() {
            let editions = Arc::clone(&self.editions);
            self.start(&facts, epoch, |signalled| {
                let work = async move {
                    let worked = editions.work_on_accepted(hand_off, permit, &signalled);
                    worked.await
                };
                work.boxed()
            });
            return;
        }
        let task_driver = TaskDriver::hand_off(Arc::clone(&self.context), hand_off, permit);
        self.start(&facts, epoch, |signalled| {
            async move { task_driver.run(&signalled).await }.boxed()
        });
    }

    fn start(
        &mut self,
        facts: &Facts,
        epoch: u64,
        work: impl FnOnce(Arc<Notify>) -> BoxFuture<'static, Result<(), EngineError>>,
    ) {
        let signalled = Arc::new(Notify::new());
        let work = work(Arc::clone(&signalled));
        let (task, engine) = (facts.id, self.context.engine.clone());
        if epoch == FIRST_EPOCH {
            measured::task_started(engine.app(), facts, engine.now());
        }
        let span = spans::of_task(engine.app(), facts, epoch);
        let work = async move {
            if let Err(error) = work.await {
                // The task remains in the store and is claimed again.
                tracing::warn!(%task, %error, code = error.code(), "a task was dropped by its worker");
                Span::current().record("error.type", error.code());
                metrics::TASKS_DROPPED.increment([engine.app(), error.code()]);
            }
            (task, epoch)
        };
        let driver = self.running.spawn(work.instrument(span));
        let held = HeldTask {
            epoch,
            driver,
            signalled,
        };
        self.held.insert(task, held);
    }

    /// Renews all leases.
    fn renew(&self) -> Request<Vec<RenewedLease>> {
        let fences = self.held.iter().map(|(task, held)| Fence {
            task: *task,
            epoch: held.epoch,
            seq: 0,
        });
        let fences: Vec<_> = fences.collect();
        let requested_at = (self.context.engine.0.clock.local(), Instant::now());
        let renewed = if fences.is_empty() {
            std::future::ready(Ok(Vec::new())).boxed()
        } else {
            let store = self.context.engine.store();
            store.renew(fences, self.context.options.lease)
        };
        renewed
            .map(move |renewed| (requested_at.0, requested_at.1, renewed))
            .boxed()
            .fuse()
    }

    /// Aborts tasks whose lease was lost.
    fn renewed(
        &mut self,
        (_, requested_at, renewed): (Timestamp, Instant, Result<Vec<RenewedLease>, StoreError>),
    ) -> Result<(), EngineError> {
        let Some(renewed) = unless_outage(renewed, "renew", "leases could not be prolonged")?
        else {
            return Ok(());
        };
        for renewed in renewed {
            if renewed.held {
                if renewed.signalled
                    && let Some(held) = self.held.get(&renewed.task)
                {
                    held.signalled.notify_one();
                }
            } else if let Some(lost) = self.held.remove(&renewed.task) {
                lost.driver.abort();
                metrics::LEASES_LOST.increment([self.context.engine.app()]);
            }
        }
        // Only after the lost tasks are aborted, because drivers that wait for this continue at once.
        let context = &self.context;
        context
            .lease_time
            .prolong(requested_at, context.options.lease);
        Ok(())
    }

    /// Removes an ended task. It may have been claimed again; only the ended epoch is removed.
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

/// The store's result, or `None` during an outage.
fn unless_outage<T>(
    outcome: Result<T, StoreError>,
    operation: &'static str,
    consequence: &'static str,
) -> Result<Option<T>, EngineError> {
    match outcome {
        Ok(outcome) => Ok(Some(outcome)),
        Err(error) if error.is_outage() => {
            tracing::warn!(%error, code = error.code(), "{consequence}; it is tried again");
            metrics::STORE_OUTAGES.increment([operation]);
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

async fn until(instant: Option<Instant>) {
    match instant {
        Some(instant) => tokio::time::sleep_until(instant).await,
        None => std::future::pending().await,
    }
}

fn interval(period: Duration) -> Interval {
    let mut interval = tokio::time::interval(period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}
