//! One task from claim to rest. The loop below waits for whatever comes next; what happens then is in a file each:
//!
//! - [`take_up`]: picks up where the journal left off.
//! - [`calls`]: begins calls, and takes in what came of them.
//! - [`inbox`]: takes in signals.
//! - [`record`]: applies an event to the machine and writes it down.
//!
//! Output commit: a call that may change the world waits until the entry that asked for it is on disk. Everything else
//! goes on while the store writes.

mod calls;
mod inbox;
mod record;
mod take_up;

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use convoke_model::TaskState;
use convoke_store::{ClaimedTask, Fence, Scope, Signal, StateWriter};
use futures::future::{BoxFuture, Fuse, FusedFuture};
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use jiff::Timestamp;
use tokio::sync::{Notify, oneshot};
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
use crate::permits::Permit;
use crate::program::{Facts, Program};
use crate::snapshot::{Rest, Snapshot};
use crate::worker_context::WorkerContext;

pub(crate) use calls::Report;
pub(crate) use inbox::answer_of;
use record::RowState;

/// How far the worker is with a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The task is being picked up, so that no entry gives it up yet.
    TakingUp,
    AtWork,
    /// The newest entry has given the task up, until a signal or a timer makes it ready again.
    GivenUp,
}

/// A task in a worker's hands.
pub(crate) struct TaskDriver<P: Program, X: Executor<P>> {
    context: Arc<WorkerContext<P, X>>,
    machine: Machine<P>,
    journal: JournalWriter,
    /// Where the task's row says that it stands.
    row: RowState,
    states: StateWriter,
    under_way: FuturesUnordered<BoxFuture<'static, Report<P>>>,
    /// Permission to work on the task. It is given back while every call only waits for a child.
    permit: Option<Permit>,
    child_waits: Arc<ChildWaits>,
    /// Reports that came in without a permit, and whether signals did.
    arrived: VecDeque<Report<P>>,
    inbox_waits: bool,
    /// What every call is told.
    call_context: CallContext,
    /// Who listens because they handed the task in, and who follows it.
    listener: Option<Live>,
    live: Arc<TaskLive>,
    /// Calls that this worker has begun.
    begun: Vec<Uuid>,
    /// Calls that were found not to have taken effect, once for each time.
    not_done: Vec<Uuid>,
    /// Signals that came in before the task was claimed.
    signals: Vec<Signal>,
    /// Signals that were taken in, though the store may not have written that down yet.
    taken: Vec<i64>,
    phase: Phase,
    /// When the newest entry was written, of a task that was claimed.
    rested_at: Option<Timestamp>,
    /// Whether the worker is stopping: from then on no call is begun. Asked once a turn, so that what an
    /// entry says of a call and what becomes of the call cannot differ.
    stopping: bool,
    waiter: Option<oneshot::Sender<TaskOutcome>>,
}

impl<P: Program, X: Executor<P>> TaskDriver<P, X> {
    /// A task that this process has just accepted.
    pub(crate) fn hand_off(
        context: Arc<WorkerContext<P, X>>,
        hand_off: HandOff<P>,
        permit: Permit,
    ) -> Self {
        let mut task_driver =
            Self::new(context, hand_off.machine, hand_off.fence, hand_off.durable);
        task_driver.permit = Some(permit);
        task_driver.row.status = TaskState::Working;
        task_driver.row.progress = true;
        task_driver.waiter = hand_off.waiter;
        task_driver.listener = hand_off.live;
        task_driver
    }

    /// A task that was claimed, as its journal has it.
    pub(crate) fn claimed(
        context: Arc<WorkerContext<P, X>>,
        claimed: ClaimedTask,
        snapshot: Snapshot<P::State, P::Request>,
        permit: Option<Permit>,
        live: Option<Live>,
    ) -> Self {
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
        let mut task_driver = Self::new(context, machine, fence, Durable::Now);
        task_driver.row.status = record.status;
        task_driver.row.stage = record.stage;
        task_driver.permit = permit;
        task_driver.listener = live;
        task_driver.signals = claimed.signals;
        task_driver.rested_at = Some(claimed.entry.at);
        task_driver.states = StateWriter::after(&claimed.entry.state);
        task_driver
    }

    fn new(
        context: Arc<WorkerContext<P, X>>,
        machine: Machine<P>,
        fence: Fence,
        durable: Durable,
    ) -> Self {
        let child_waits = Arc::default();
        let children = Arc::new(ChildRunner::new(
            context.engine.clone(),
            Arc::clone(machine.facts()),
            Arc::clone(&child_waits),
        ));
        Self {
            call_context: CallContext {
                facts: Arc::clone(machine.facts()),
                messages: Arc::default(),
                deadline: machine.deadline(),
                scratch: Arc::default(),
                children,
                live: None,
            },
            listener: None,
            live: context.engine.0.live_hub.of(fence.task),
            row: RowState {
                status: machine.snapshot().status,
                stage: machine.snapshot().stage,
                progress: false,
            },
            states: StateWriter::default(),
            journal: JournalWriter::new(Arc::clone(context.engine.store()), fence, durable),
            context,
            machine,
            under_way: FuturesUnordered::new(),
            permit: None,
            child_waits,
            arrived: VecDeque::new(),
            inbox_waits: false,
            begun: Vec::new(),
            not_done: Vec::new(),
            signals: Vec::new(),
            taken: Vec::new(),
            phase: Phase::TakingUp,
            rested_at: None,
            stopping: false,
            waiter: None,
        }
    }

    /// Works on the task until it ends, waits for a person, or is put down.
    pub(crate) async fn run(mut self, signalled: &Notify) -> Result<(), EngineError> {
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
        let child_waits = Arc::clone(&self.child_waits);
        let mut permit = Fuse::terminated();
        while !self.at_rest() {
            if self.only_waits_for_children() {
                self.permit = None;
            }
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
                    if self.permit.is_some() {
                        self.take_arrived()?;
                    }
                }
                () = inbox.changed() => self.take_inbox().await?,
                () = signalled.notified() => self.take_inbox().await?,
                () = child_waits.begun() => {}
                () = next_due => self.begin_due(),
                () = &mut time => { self.record(Event::DeadlineReached, None); }
            }
            // A clock that was moved forward counts too.
            if self.time_left().is_zero() && !self.at_rest() {
                self.record(Event::DeadlineReached, None);
            }
        }
        self.rest().await
    }

    /// Whether every call under way waits for a child, and nothing else is to be done.
    fn only_waits_for_children(&self) -> bool {
        let waiting = self.child_waits.number();
        waiting > 0 && waiting == self.under_way.len() && self.arrived.is_empty()
    }

    fn take_arrived(&mut self) -> Result<(), EngineError> {
        self.notice_stop();
        while let Some(report) = self.arrived.pop_front() {
            // What fails because the time is over is not what went wrong.
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

    /// Whether the worker has nothing more to do for the task. When it stops, what is under way is
    /// still waited for, and what is not begun yet is left to the next worker.
    fn at_rest(&self) -> bool {
        let idle = self.under_way.is_empty() && self.arrived.is_empty();
        let waits_for_timer = !self.stopping && self.machine.snapshot().rest().is_some();
        self.machine.snapshot().status.is_final()
            || self.phase == Phase::GivenUp
            || (idle && !waits_for_timer)
    }

    /// Whether the worker gives the task up at this point: it waits for a person, or for a timer that is not due soon.
    fn gives_up(&self, now: Timestamp) -> Option<Duration> {
        let Some(Rest::Until { wake_at, asks }) = self.machine.snapshot().rest() else {
            return None;
        };
        let wake_in = Duration::try_from(wake_at.duration_since(now)).unwrap_or_default();
        (asks || wake_in > self.context.options.hold_timers).then_some(wake_in)
    }

    /// Returns when the next timer of the task is due, and never if there is none.
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

    /// Leaves the task as its journal has it, once that is durable. A task that still has something to do
    /// is given back: nothing is done for it after that.
    async fn rest(mut self) -> Result<(), EngineError> {
        if !self.machine.snapshot().status.is_final() && self.phase != Phase::GivenUp {
            let why = "the worker stopped".into();
            self.write(Event::PutBack { why }, None);
        }
        self.journal.durable().wait().await?;
        let facts = Arc::clone(self.machine.facts());
        let snapshot = self.machine.into_snapshot();
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

    fn time_left(&self) -> Duration {
        let deadline = self.machine.deadline();
        deadline
            .duration_since(self.context.engine.now())
            .try_into()
            .unwrap_or_default()
    }
}
