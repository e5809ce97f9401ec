//! One task from claim to rest: performs its calls, takes in what happens, and writes each step down.
//!
//! Output commit: a call that may change the world waits until the entry that asked for it is on
//! disk. Everything else goes on while the writer works.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use convoke_model::{Stage, TaskState};
use convoke_store::{
    Batch, ClaimedTask, Fence, LeaseAction, NewEntry, Scope, Signal, SignalKind, StateWriter,
    StatusUpdate, StoreError, StoreFuture, text_of,
};
use futures::future::{BoxFuture, Fuse, FusedFuture, Shared};
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use jiff::Timestamp;
use tokio::sync::{Notify, oneshot};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::attempts::perform;
use crate::call::{Call, CallContext, Effect, Executor, Failure, FailureKind, Outcome, Verdict};
use crate::children::{ChildRunner, ChildWaits};
use crate::engine::{Engine, TaskOutcome};
use crate::error::EngineError;
use crate::event::{Event, QuestionAnswer};
use crate::live::Live;
use crate::local_queue::HandOff;
use crate::machine::{Machine, Transition};
use crate::permits::{Permit, Permits};
use crate::program::{Facts, Program};
use crate::snapshot::{Question, QuestionKind, Snapshot};
use crate::worker::Options;

/// Why it is not known what came of a call that was under way when its worker was gone.
const CUT_SHORT: &str = "the worker that made it was gone before an answer came";

/// Characters of a cause that stand in a question. It is written with every entry until it is answered.
const CAUSE_CHARACTERS: usize = 500;

/// What all tasks of a worker share.
pub(crate) struct WorkerContext<P: Program, X: Executor<P>> {
    pub(crate) engine: Engine<P>,
    pub(crate) executor: Arc<X>,
    pub(crate) options: Options,
    pub(crate) stop: CancellationToken,
    pub(crate) permits: Permits,
}

impl<P: Program, X: Executor<P>> WorkerContext<P, X> {
    /// Whether a call's time goes on beyond a pause.
    pub(crate) fn has_time(
        &self,
        call_context: &CallContext,
        call: &Call<P::Request>,
        pause: Duration,
    ) -> bool {
        let then = self.engine.0.clock.now().checked_add(pause);
        then.is_ok_and(|then| then < self.executor.ends(call_context, call))
    }
}

/// A task in a worker's hands.
pub(crate) struct TaskDriver<P: Program, X: Executor<P>> {
    context: Arc<WorkerContext<P, X>>,
    machine: Machine<P>,
    fence: Fence,
    /// The newest append; once it is durable, so is everything before it, because the store takes
    /// them in order and refuses one whose predecessor is missing.
    durable: Durable,
    /// Where the task's row says that it stands.
    row: RowState,
    states: StateWriter,
    under_way: FuturesUnordered<BoxFuture<'static, Report<P>>>,
    /// Leave to work on the task. It is given up while there is nothing to do but wait for children.
    permit: Option<Permit>,
    child_waits: Arc<ChildWaits>,
    /// Reports that came in without a permit, and whether signals did.
    arrived: VecDeque<Report<P>>,
    inbox_waits: bool,
    /// What every call is told.
    call_context: CallContext,
    /// Calls that this worker has begun.
    begun: Vec<Uuid>,
    /// Calls that were found not to have taken effect, once for each time.
    not_done: Vec<Uuid>,
    /// Signals that came in before the task was claimed.
    signals: Vec<Signal>,
    /// Signals that were taken in, though the store may not have written that down yet.
    taken: Vec<i64>,
    /// Whether the task is still being picked up, so that no entry may put it down yet.
    taking_up: bool,
    /// Whether the worker is stopping: from then on no call is begun. Asked once a turn, so that what an
    /// entry says of a call and what becomes of the call cannot differ.
    stopping: bool,
    waiter: Option<oneshot::Sender<TaskOutcome>>,
}

/// When something is on disk, if it is not already.
#[derive(Clone)]
pub(crate) enum Durable {
    Now,
    Coming(Shared<BoxFuture<'static, Result<(), StoreError>>>),
}

impl Durable {
    /// Of something that the store was just told. A store in memory has it at once.
    pub(crate) fn of<T: Send + 'static>(mut done: StoreFuture<T>) -> Self {
        let mut context = Context::from_waker(Waker::noop());
        match done.poll_unpin(&mut context) {
            Poll::Ready(Ok(_)) => Self::Now,
            Poll::Ready(Err(error)) => {
                Self::Coming(std::future::ready(Err(error)).boxed().shared())
            }
            Poll::Pending => Self::Coming(done.map(|done| done.map(drop)).boxed().shared()),
        }
    }

    pub(crate) async fn wait(self) -> Result<(), StoreError> {
        match self {
            Self::Now => Ok(()),
            Self::Coming(coming) => coming.await,
        }
    }
}

/// What a task's row says of where it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct RowState {
    status: TaskState,
    stage: Option<Stage>,
    /// Whether it knows of progress since the task was claimed.
    progress: bool,
}

/// What a call under way has to say.
pub(crate) enum Report<P: Program> {
    /// It was open when the task was claimed, and this is what it may do to the world.
    Classified {
        call: Arc<Call<P::Request>>,
        effect: Result<Effect, Failure>,
    },
    /// It has an outcome.
    Returned {
        call: Arc<Call<P::Request>>,
        outcome: Outcome<P::Reply>,
        started_at: Timestamp,
    },
    /// It may have taken effect, and must not be made again unasked.
    Unknown {
        call: Arc<Call<P::Request>>,
        cause: String,
    },
    /// It was found out whether it took effect.
    Verified {
        call: Arc<Call<P::Request>>,
        verdict: Verdict<P::Reply>,
        /// Why that was not known.
        cause: String,
    },
    /// The journal could not be written, so it was not made.
    NotDurable(StoreError),
}

impl<P: Program> Report<P> {
    /// Whether it is that a call did not work.
    fn is_failure(&self) -> bool {
        let Self::Returned { outcome, .. } = self else {
            return false;
        };
        matches!(outcome, Outcome::Failed(_))
    }
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
        task_driver.call_context.live = hand_off.live;
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
        task_driver.call_context.live = live;
        task_driver.signals = claimed.signals;
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
            row: RowState {
                status: machine.snapshot().status,
                stage: machine.snapshot().stage,
                progress: false,
            },
            states: StateWriter::default(),
            context,
            machine,
            fence,
            durable,
            under_way: FuturesUnordered::new(),
            permit: None,
            child_waits,
            arrived: VecDeque::new(),
            inbox_waits: false,
            begun: Vec::new(),
            not_done: Vec::new(),
            signals: Vec::new(),
            taken: Vec::new(),
            taking_up: true,
            stopping: false,
            waiter: None,
        }
    }

    /// Works on the task until it ends, waits for a person, or is put down.
    pub(crate) async fn run(mut self, signalled: &Notify) -> Result<(), EngineError> {
        let mut inbox = self
            .context
            .engine
            .0
            .store
            .watch(Scope::Inbox(self.fence.task));
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
        let status = self.machine.snapshot().status;
        let idle = self.under_way.is_empty() && self.arrived.is_empty();
        status.is_final() || status == TaskState::InputRequired || idle
    }

    /// Leaves the task as its journal has it, once that is durable. A task that still has something to do
    /// is given back: nothing is done for it after that.
    async fn rest(mut self) -> Result<(), EngineError> {
        let status = self.machine.snapshot().status;
        if !status.is_final() && !status.awaits_person() {
            let why = "the worker stopped".into();
            self.write(Event::PutBack { why }, None);
        }
        self.durable.wait().await?;
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

    /// Picks up where the journal left off.
    fn take_up(&mut self) {
        let now = self.context.engine.0.clock.now();
        let interrupted = self.machine.snapshot().open.iter().any(|call| call.started);
        if interrupted || now >= self.machine.deadline() {
            let deadline = now
                .checked_add(self.context.engine.0.task_time)
                .unwrap_or(Timestamp::MAX);
            self.record(Event::Resumed { deadline }, None);
        }
        for signal in std::mem::take(&mut self.signals) {
            self.take_signal(signal);
        }
        let expired: Vec<Uuid> = (self.machine.snapshot().questions.iter())
            .filter(|question| question.expires_at <= now)
            .map(|question| question.id)
            .collect();
        for question in expired {
            let answer = QuestionAnswer::Expired;
            self.record(Event::Answered { question, answer }, None);
        }
        let snapshot = self.machine.snapshot();
        let asked = |id: Uuid| snapshot.questions.iter().any(|question| question.id == id);
        let unasked: Vec<_> = snapshot
            .open
            .iter()
            .filter(|call| !asked(call.id))
            // A waiting signal may just have approved it.
            .filter(|call| !self.begun.contains(&call.id))
            .cloned()
            .collect();
        for call in unasked {
            let context = Arc::clone(&self.context);
            let call_context = self.call_context();
            self.under_way.push(
                async move {
                    let effect = context.executor.effect(&call_context, &call).await;
                    Report::Classified { call, effect }
                }
                .boxed(),
            );
        }
        self.taking_up = false;
        if self.under_way.is_empty() {
            // Nothing to do but wait for a person: the entry that says so also puts the task down.
            let deadline = self.machine.deadline();
            self.record(Event::Resumed { deadline }, None);
        }
    }

    fn take_report(&mut self, report: Report<P>) -> Result<(), EngineError> {
        match report {
            Report::Classified { call, effect } => self.take_classified(call, effect),
            Report::Returned {
                call,
                outcome,
                started_at,
            } => self.take_outcome(&call, outcome, started_at),
            Report::Unknown { call, cause } => self.verify(call, cause),
            Report::Verified {
                call,
                verdict,
                cause,
            } => self.take_verdict(call, verdict, &cause),
            Report::NotDurable(error) => return Err(error.into()),
        }
        Ok(())
    }

    fn take_outcome(
        &mut self,
        call: &Call<P::Request>,
        outcome: Outcome<P::Reply>,
        started_at: Timestamp,
    ) {
        let now = self.context.engine.0.clock.now();
        let duration = now.duration_since(started_at).as_millis();
        let event = Event::Returned {
            call: call.id,
            label: call.label.clone(),
            outcome,
            duration_ms: u64::try_from(duration).unwrap_or(0),
        };
        self.record(event, None);
    }

    /// A call that was open when the task was claimed: begun by nobody, or cut short.
    fn take_classified(&mut self, call: Arc<Call<P::Request>>, effect: Result<Effect, Failure>) {
        if self.stopping {
            return;
        }
        match (call.started, effect) {
            (_, Ok(Effect::None)) => self.perform(call, false),
            (true, Ok(Effect::Repeatable)) => self.perform(call, true),
            (false, Ok(_)) => {
                self.record(Event::Started { call: call.id }, None);
                self.perform(call, false);
            }
            // It may have been made, and must not be made again unasked.
            (true, Ok(Effect::Once) | Err(_)) => self.verify(call, CUT_SHORT.into()),
            (true, Ok(Effect::AtMostOnce)) => {
                let now = self.context.engine.0.clock.now();
                self.take_outcome(&call, Outcome::Failed(interrupted()), now);
            }
            (false, Err(failure)) => {
                let now = self.context.engine.0.clock.now();
                self.take_outcome(&call, Outcome::Failed(failure), now);
            }
        }
    }

    /// Asks whether a call took effect, where anybody can tell.
    fn verify(&mut self, call: Arc<Call<P::Request>>, cause: String) {
        let context = Arc::clone(&self.context);
        let call_context = self.call_context();
        let verify = async move {
            let verdict = context.executor.verify(&call_context, &call).await;
            Report::Verified {
                call,
                verdict,
                cause,
            }
        };
        self.under_way.push(verify.boxed());
    }

    /// What took effect is not made again; what did not is, a few times; the rest is for a person.
    fn take_verdict(
        &mut self,
        call: Arc<Call<P::Request>>,
        verdict: Verdict<P::Reply>,
        cause: &str,
    ) {
        let found = |took_effect| Event::Verified {
            call: call.id,
            took_effect,
        };
        match verdict {
            Verdict::Done(reply) => {
                self.record(found(Some(true)), None);
                let now = self.context.engine.0.clock.now();
                self.take_outcome(&call, Outcome::Done(reply), now);
            }
            Verdict::NotDone => {
                self.record(found(Some(false)), None);
                self.not_done.push(call.id);
                let times = self.not_done.iter().filter(|id| **id == call.id).count();
                if times > self.context.options.repeats as usize {
                    let tries = format!("{times} times it was found not to have, the last time");
                    self.ask_about(&call, &format!("{tries} after this: {cause}"));
                } else if !self.stopping {
                    self.perform(call, false);
                }
            }
            Verdict::Unknown => self.ask_about(&call, cause),
        }
    }

    fn ask_about(&mut self, call: &Call<P::Request>, cause: &str) {
        let now = self.context.engine.0.clock.now();
        let expires_at = now.checked_add(self.context.options.question_time);
        let cause: String = cause.chars().take(CAUSE_CHARACTERS).collect();
        let cause = cause.trim().trim_end_matches('.');
        let event = Event::OutcomeUnknown {
            call: call.id,
            expires_at: expires_at.unwrap_or(Timestamp::MAX),
            cause: (!cause.is_empty()).then(|| cause.to_owned()),
        };
        self.record(event, None);
    }

    async fn take_inbox(&mut self) -> Result<(), EngineError> {
        let store = &self.context.engine.0.store;
        let loaded = store.load(self.fence.task, u64::MAX).await?;
        self.notice_stop();
        for signal in loaded.map(|loaded| loaded.signals).unwrap_or_default() {
            // To end a task needs no permit; whatever may go on with it does.
            if self.permit.is_none() && signal.kind.parse() != Ok(SignalKind::Cancel) {
                self.inbox_waits = true;
                continue;
            }
            self.take_signal(signal);
        }
        Ok(())
    }

    fn take_signal(&mut self, signal: Signal) {
        let id = signal.id;
        if self.taken.contains(&id) {
            return;
        }
        self.taken.push(id);
        let event = if signal.kind.parse() == Ok(SignalKind::Cancel) {
            let reason = signal
                .payload
                .get("reason")
                .and_then(|reason| reason.as_str());
            Event::Canceled {
                reason: reason.map(str::to_owned),
            }
        } else if let Some((question, answer)) = answer_of(&signal) {
            Event::Answered { question, answer }
        } else {
            Event::Signalled {
                kind: signal.kind,
                payload: signal.payload,
            }
        };
        self.record(event, Some(id));
    }

    /// Applies an event, writes it down, and begins the calls that it asks for. Does not wait.
    fn record(&mut self, event: Event<P::Reply>, consumed: Option<i64>) {
        if self.machine.snapshot().status.is_final() {
            return;
        }
        // Of a call that a person has made again, an earlier attempt may have taken effect.
        let questions = &self.machine.snapshot().questions;
        let unknown = |open: &&Question| open.about == QuestionKind::OutcomeUnknown;
        let doubtful: Vec<Uuid> = questions
            .iter()
            .filter(unknown)
            .map(|open| open.id)
            .collect();
        let perform = self.write(event, consumed);
        if !self.stopping && !self.machine.snapshot().status.is_final() {
            for call in perform {
                let is_doubtful = doubtful.contains(&call.id);
                self.perform(call, is_doubtful);
            }
        }
    }

    /// Applies an event and writes it down. Gives the calls that it asks for.
    fn write(
        &mut self,
        event: Event<P::Reply>,
        consumed: Option<i64>,
    ) -> Vec<Arc<Call<P::Request>>> {
        let now = self.context.engine.0.clock.now();
        let (kind, progress, text) = (event.kind(), event.is_progress(), text_of(&event));
        let puts_back = matches!(event, Event::PutBack { .. });
        let Transition { messages, perform } = self.machine.apply(event, now);
        if self.stopping {
            self.machine.put_down(&perform);
        }
        let batch = Batch {
            entries: vec![NewEntry {
                at: now,
                kind: kind.into(),
                event: text,
                state: self.states.write(text_of(self.machine.snapshot())),
            }],
            messages,
            consumed: consumed.into_iter().collect(),
            // Whoever gives a task back has not failed at it.
            standing: self.standing(progress || puts_back, puts_back.then_some(now)),
        };
        let append = self.context.engine.0.store.append(self.fence, batch);
        self.fence.seq += 1;
        self.durable = Durable::of(append);
        perform
    }

    /// A task that ended with its very first step has its answer in the journal, and no row that says so.
    fn close_row(&mut self) {
        let now = self.context.engine.0.clock.now();
        let deadline = self.machine.deadline();
        let event: Event<P::Reply> = Event::Resumed { deadline };
        let batch = Batch {
            entries: vec![NewEntry {
                at: now,
                kind: event.kind().into(),
                event: text_of(&event),
                state: self.states.write(text_of(self.machine.snapshot())),
            }],
            messages: Vec::new(),
            consumed: Vec::new(),
            standing: self.standing(true, None),
        };
        let append = self.context.engine.0.store.append(self.fence, batch);
        self.durable = Durable::of(append);
    }

    /// Where the task stands now, if that is not what its row says already. A task that is given back is
    /// ready for the next worker at `given_back`.
    fn standing(&mut self, progress: bool, given_back: Option<Timestamp>) -> Option<StatusUpdate> {
        let snapshot = self.machine.snapshot();
        let hold = match snapshot.status {
            TaskState::InputRequired if !self.taking_up => LeaseAction::Release {
                wake_at: snapshot
                    .questions
                    .iter()
                    .map(|question| question.expires_at)
                    .min(),
            },
            _ => given_back.map_or(LeaseAction::Keep, |now| LeaseAction::Release {
                wake_at: Some(now),
            }),
        };
        let row = RowState {
            // A row is never less far than its claim made it.
            status: match snapshot.status {
                TaskState::Submitted => TaskState::Working,
                status => status,
            },
            stage: snapshot.stage,
            progress: self.row.progress || progress,
        };
        if row == self.row && hold == LeaseAction::Keep {
            return None;
        }
        self.row = row;
        Some(StatusUpdate {
            status: row.status,
            stage: row.stage,
            hold,
            result: snapshot.answer.as_ref().map(|answer| answer.text.clone()),
            error: snapshot.error.clone(),
            progress,
        })
    }

    /// Makes a call. It is doubtful where an earlier attempt may have taken effect.
    fn perform(&mut self, call: Arc<Call<P::Request>>, doubtful: bool) {
        self.begun.push(call.id);
        let context = Arc::clone(&self.context);
        let durable = self.durable.clone();
        let call_context = self.call_context();
        self.under_way
            .push(perform(context, call_context, durable, call, doubtful).boxed());
    }

    /// What a call is told now.
    fn call_context(&self) -> CallContext {
        CallContext {
            messages: Arc::clone(self.machine.messages()),
            deadline: self.machine.deadline(),
            ..self.call_context.clone()
        }
    }

    fn time_left(&self) -> Duration {
        let deadline = self.machine.deadline();
        deadline
            .duration_since(self.context.engine.0.clock.now())
            .try_into()
            .unwrap_or_default()
    }
}

/// What is said of a call that was cut short, that is not made again, and that nobody is asked about.
fn interrupted() -> Failure {
    Failure {
        code: "call.interrupted".into(),
        message: "the call was interrupted".into(),
        kind: FailureKind::Unknown,
        transient: false,
    }
}

/// The question and answer that a signal carries, if it is an answer.
pub(crate) fn answer_of(signal: &Signal) -> Option<(Uuid, QuestionAnswer)> {
    if signal.kind.parse() != Ok(SignalKind::Answer) {
        return None;
    }
    let question = signal.payload.get("question")?.as_str()?.parse().ok()?;
    let answer = serde_json::from_value(signal.payload.get("answer")?.clone()).ok()?;
    Some((question, answer))
}
