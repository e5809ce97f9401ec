//! Runs one task from its claim until it is released or has ended. The loop below waits for the next report, signal or
//! timer:
//!
//! - [`take_up`]: resumes a claimed task.
//! - [`calls`]: starts calls and handles their outcomes.
//! - [`inbox`]: handles signals.
//! - [`record`]: applies events and appends entries.
//!
//! Output commit: a call with a possible effect waits until the entry that requested it is durable. Everything else
//! continues while the store writes.

mod calls;
mod inbox;
mod record;
mod take_up;

use std::collections::{BTreeSet, VecDeque};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use convoke_model::TaskState;
use convoke_store::{ClaimedTask, Fence, Scope, Signal, StateWriter};
use convoke_telemetry::TraceContext;
use futures::future::{BoxFuture, Fuse, FusedFuture};
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use jiff::Timestamp;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;
use uuid::Uuid;

use crate::call::{CallContext, Executor};
use crate::children::{ChildRunner, ChildWaits};
use crate::engine::TaskOutcome;
use crate::error::EngineError;
use crate::event::Event;
use crate::journal_writer::{Durable, JournalWriter};
use crate::live::Live;
use crate::live_hub::TaskLive;
use crate::local_queue::HandOff;
use crate::machine::Machine;
use crate::measured::{self, StageTimer};
use crate::messages::Messages;
use crate::permits::Permit;
use crate::program::{Facts, Program};
use crate::snapshot::{Rest, Snapshot};
use crate::spans;
use crate::worker_context::WorkerContext;

pub(crate) use calls::Report;
pub(crate) use inbox::answer_of;
use record::RowState;

/// The phase of a task in its worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The task is being resumed; no entry releases it yet.
    TakingUp,
    AtWork,
    /// The newest entry has released the task, until a signal or a timer makes it ready.
    GivenUp,
}

/// A running task.
pub(crate) struct TaskDriver<P: Program, X: Executor<P>> {
    context: Arc<WorkerContext<P, X>>,
    machine: Box<Machine<P>>,
    journal: JournalWriter,
    /// The status in the task's row.
    row: RowState,
    states: StateWriter,
    stage_timer: StageTimer,
    under_way: FuturesUnordered<BoxFuture<'static, Report<P>>>,
    /// The permit. Released while all calls wait for children.
    permit: Option<Permit>,
    child_waits: Arc<ChildWaits>,
    /// Reports that arrived without a permit, and whether signals did.
    arrived: VecDeque<Report<P>>,
    inbox_waits: bool,
    /// The context of all calls.
    call_context: CallContext,
    /// The submitter's listener, and the live text for followers.
    listener: Option<Live>,
    live: Arc<TaskLive>,
    /// Calls that this worker has started and that have not returned.
    started_calls: BTreeSet<Uuid>,
    /// Calls that were verified not to have taken effect, once per verification.
    not_done: Vec<Uuid>,
    /// Signals from before the claim.
    signals: Vec<Signal>,
    /// Consumed signals, which may not be durable yet.
    taken: Vec<i64>,
    phase: Phase,
    /// The time of the newest entry at the claim.
    rested_at: Option<Timestamp>,
    /// Since when the task's time stands still: all it waits for are children that wait for people.
    time_stands_since: Option<Timestamp>,
    /// Whether the worker is stopping; no more calls are then started. Read once per turn, so that an entry and the
    /// handling of its calls agree.
    stopping: bool,
    waiter: Option<oneshot::Sender<TaskOutcome>>,
}

impl<P: Program, X: Executor<P>> TaskDriver<P, X> {
    /// A task that this process accepted.
    pub(crate) fn hand_off(
        context: Arc<WorkerContext<P, X>>,
        hand_off: HandOff<P>,
        permit: Permit,
    ) -> Box<Self> {
        let mut task_driver =
            Self::new(context, hand_off.machine, hand_off.fence, hand_off.durable);
        task_driver.permit = Some(permit);
        task_driver.row.status = TaskState::Working;
        task_driver.row.progress = true;
        task_driver.waiter = hand_off.waiter;
        task_driver.listener = hand_off.live;
        task_driver
    }

    /// A claimed task, restored from its journal.
    pub(crate) fn claimed(
        context: Arc<WorkerContext<P, X>>,
        claimed: ClaimedTask,
        snapshot: Snapshot<P::State, P::Request>,
        permit: Option<Permit>,
        live: Option<Live>,
    ) -> Box<Self> {
        let fence = claimed.fence();
        let record = &claimed.record;
        let messages = claimed.messages.into_iter().map(|stored| stored.message);
        let machine = Machine::restore(
            Arc::clone(&context.engine.0.program),
            Facts::from(record),
            snapshot,
            messages.collect(),
            record.seq,
        );
        let mut task_driver = Self::new(context, Box::new(machine), fence, Durable::Now);
        task_driver.row.status = record.status;
        task_driver.row.stage = record.stage;
        task_driver.permit = permit;
        task_driver.listener = live;
        task_driver.signals = claimed.signals;
        task_driver.rested_at = Some(claimed.entry.at);
        task_driver.states = StateWriter::after(&claimed.entry.state);
        task_driver
    }

    /// Boxed, because it is large, and the future that runs it is moved several times.
    fn new(
        context: Arc<WorkerContext<P, X>>,
        machine: Box<Machine<P>>,
        fence: Fence,
        durable: Durable,
    ) -> Box<Self> {
        let child_waits = Arc::default();
        let children = Arc::new(ChildRunner::new(
            context.engine.clone(),
            Arc::clone(machine.facts()),
            Arc::clone(&child_waits),
        ));
        Box::new(Self {
            call_context: CallContext {
                facts: Arc::clone(machine.facts()),
                messages: Messages::default(),
                deadline: machine.deadline(),
                scratch: Arc::default(),
                children,
                live: None,
                trace: machine.facts().span(),
                postponed: 0,
            },
            listener: None,
            live: context.engine.0.live_hub.of(fence.task),
            row: RowState {
                status: machine.snapshot().status,
                stage: machine.snapshot().stage,
                progress: false,
            },
            states: StateWriter::default(),
            stage_timer: StageTimer::begin(),
            journal: JournalWriter::new(Arc::clone(context.engine.store()), fence, durable),
            context,
            machine,
            under_way: FuturesUnordered::new(),
            permit: None,
            child_waits,
            arrived: VecDeque::new(),
            inbox_waits: false,
            started_calls: BTreeSet::new(),
            not_done: Vec::new(),
            signals: Vec::new(),
            taken: Vec::new(),
            phase: Phase::TakingUp,
            rested_at: None,
            time_stands_since: None,
            stopping: false,
            waiter: None,
        })
    }

    /// Runs the task until it ends, waits, or is released.
    pub(crate) async fn run(mut self: Box<Self>, signalled: &Notify) -> Result<(), EngineError> {
        let task = self.journal.fence().task;
        let mut inbox = self.context.engine.store().watch(Scope::Inbox(task));
        if self.permit.is_none() {
            self.permit = self.context.permits.wait().await;
        }
        if self.machine.snapshot().status.is_final() {
            self.close_row();
        } else {
            self.notice_stop();
            self.take_up();
        }
        let mut time = pin!(tokio::time::sleep(self.time_left()));
        let mut timed_deadline = self.machine.deadline();
        let child_waits = Arc::clone(&self.child_waits);
        let mut permit = Fuse::terminated();
        while !self.at_rest() {
            if self.only_waits_for_children() {
                self.permit = None;
            }
            self.stop_or_start_time();
            if self.machine.deadline() != timed_deadline {
                timed_deadline = self.machine.deadline();
                time.as_mut().reset(Instant::now() + self.time_left());
            }
            let time_stands = self.time_stands_since.is_some();
            let wants_permit = !self.arrived.is_empty() || self.inbox_waits;
            if wants_permit && self.permit.is_none() && permit.is_terminated() {
                let permits = self.context.permits.clone();
                permit = async move { permits.wait().await }.boxed().fuse();
            }
            let next_due = self.until_due();
            tokio::select! {
                biased;
                granted = &mut permit, if !permit.is_terminated() => {
                    self.permit = granted;
                    self.take_arrived()?;
                    if std::mem::take(&mut self.inbox_waits) {
                        self.take_inbox().await?;
                    }
                }
                Some(report) = self.under_way.next() => {
                    self.arrived.push_back(report);
                    self.stop_or_start_time();
                    if self.permit.is_some() {
                        self.take_arrived()?;
                    }
                }
                () = inbox.changed() => self.take_inbox().await?,
                () = signalled.notified() => self.take_inbox().await?,
                () = child_waits.changed() => {}
                () = next_due => self.begin_due(),
                () = &mut time, if !time_stands => { self.record(Event::DeadlineReached, None); }
            }
            // A clock that was set forward counts too.
            if self.time_stands_since.is_none() && self.time_left().is_zero() && !self.at_rest() {
                self.record(Event::DeadlineReached, None);
            }
        }
        self.rest().await
    }

    /// Whether all open calls wait for children and nothing else is pending.
    fn only_waits_for_children(&self) -> bool {
        let waiting = self.child_waits.number();
        waiting > 0 && waiting == self.under_way.len() && self.arrived.is_empty()
    }

    /// The task's time stands still while all it waits for are children that wait for people, as it does while the task waits
    /// for a person itself. Afterwards, its deadline is later by that time.
    fn stop_or_start_time(&mut self) {
        let stands = self.only_waits_for_children() && self.child_waits.are_for_people();
        match (self.time_stands_since, stands) {
            (None, true) => self.time_stands_since = Some(self.context.engine.now()),
            (Some(since), false) => {
                self.time_stands_since = None;
                let waited = self.context.engine.now().duration_since(since);
                let deadline = self.machine.deadline().checked_add(waited);
                let deadline = deadline.unwrap_or(Timestamp::MAX);
                self.record(Event::Resumed { deadline }, None);
            }
            _ => {}
        }
    }

    fn take_arrived(&mut self) -> Result<(), EngineError> {
        self.notice_stop();
        while let Some(report) = self.arrived.pop_front() {
            // A call that fails because of the deadline is not the cause.
            if report.is_failure() && self.time_left().is_zero() {
                self.record(Event::DeadlineReached, None);
            } else {
                self.take_report(report)?;
            }
        }
        Ok(())
    }

    fn notice_stop(&mut self) {
        self.stopping = self.context.stop.is_cancelled();
    }

    /// Whether the driver is done with the task. When the worker stops, started calls are awaited, and the others are
    /// left to the next worker.
    fn at_rest(&self) -> bool {
        let idle = self.under_way.is_empty() && self.arrived.is_empty();
        let waits_for_timer = !self.stopping && self.machine.snapshot().rest().is_some();
        self.machine.snapshot().status.is_final()
            || self.phase == Phase::GivenUp
            || (idle && !waits_for_timer)
    }

    /// Whether the worker releases the task now: it waits for a person, or for a timer that is not due soon.
    fn gives_up(&self, now: Timestamp) -> Option<Duration> {
        let Some(Rest::Until { wake_at, asks }) = self.machine.snapshot().rest() else {
            return None;
        };
        let wake_in = Duration::try_from(wake_at.duration_since(now)).unwrap_or_default();
        (asks || wake_in > self.context.options.hold_timers).then_some(wake_in)
    }

    /// Returns when the task's next timer is due; never without a timer.
    fn until_due(&self) -> impl Future<Output = ()> + use<P, X> {
        let due = self
            .machine
            .snapshot()
            .open
            .iter()
            .filter_map(|call| call.due_at);
        let pause = due.min().map(|due| {
            let pause = due.duration_since(self.context.engine.now());
            Duration::try_from(pause).unwrap_or_default()
        });
        async move {
            match pause {
                Some(pause) => tokio::time::sleep(pause).await,
                None => std::future::pending().await,
            }
        }
    }

    /// Finishes with the task once its journal is durable. A task with pending work is released.
    async fn rest(mut self: Box<Self>) -> Result<(), EngineError> {
        if !self.machine.snapshot().status.is_final() && self.phase != Phase::GivenUp {
            let why = "the worker stopped".into();
            let now = self.context.engine.now();
            self.write(now, Event::PutBack { why }, None);
        }
        self.journal.durable().wait().await?;
        let facts = Arc::clone(self.machine.facts());
        let snapshot = self.machine.into_snapshot();
        let engine = &self.context.engine;
        tracing::Span::current().record("convoke.task.state", snapshot.status.as_str());
        if snapshot.status.is_final() {
            measured::ended(
                engine.app(),
                snapshot.status,
                facts.created_at,
                engine.now(),
            );
        }
        if let Some(waiter) = self.waiter
            && (snapshot.status.is_final() || snapshot.status.awaits_person())
        {
            let _ = waiter.send(TaskOutcome {
                facts,
                status: snapshot.status,
                error: snapshot.error,
                answer: snapshot.answer,
                questions: snapshot.questions,
            });
        }
        Ok(())
    }

    /// The task's span in this worker.
    fn span(&self) -> TraceContext {
        spans::context(self.machine.facts(), self.journal.fence().epoch)
    }

    fn time_left(&self) -> Duration {
        let deadline = self.machine.deadline();
        deadline
            .duration_since(self.context.engine.now())
            .try_into()
            .unwrap_or_default()
    }
}
