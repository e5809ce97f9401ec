//! One task from claim to rest: performs its calls, takes in what happens, and writes each step down.
//!
//! Output commit: a call that may change the world waits until the entry that asked for it is on
//! disk. Everything else goes on while the writer works.

use std::any::Any;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use convoke_model::TaskState;
use convoke_store::{Batch, Claimed, Fence, Hold, NewEntry, Scope, Signal, StoreError};
use futures::future::{BoxFuture, Shared};
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use jiff::Timestamp;
use tokio::sync::{Notify, OnceCell};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::call::{Call, Effect, Executor, Failure, FailureKind, Outcome, Performing};
use crate::children::{self, ChildRunner};
use crate::engine::{Engine, read_snapshot, to_json};
use crate::error::EngineError;
use crate::event::{Answered, Event};
use crate::machine::{Machine, Transition};
use crate::program::{Facts, Program};
use crate::worker::Options;

/// A task in a worker's hands.
pub(crate) struct Drive<P: Program, X: Executor> {
    engine: Engine<P>,
    executor: Arc<X>,
    options: Arc<Options>,
    stop: CancellationToken,
    machine: Machine<P>,
    fence: Fence,
    /// The newest append; once it is durable, so is everything before it.
    durable: Durable,
    under_way: FuturesUnordered<BoxFuture<'static, Report>>,
    /// How many of the worker's tasks wait for children.
    waiting: Arc<AtomicUsize>,
    /// Whether the task has had children.
    has_children: Arc<AtomicBool>,
    /// What the executor keeps while this worker holds the task.
    scratch: Arc<OnceCell<Arc<dyn Any + Send + Sync>>>,
    /// Calls that this worker has begun.
    begun: HashSet<Uuid>,
    /// Whether the task is still being picked up, so that no entry may put it down yet.
    taking_up: bool,
}

type Durable = Shared<BoxFuture<'static, Result<(), StoreError>>>;

/// What a call under way has to say.
enum Report {
    /// It was open when the task was claimed, and this is what it may do to the world.
    Classified {
        call: Call,
        effect: Result<Effect, Failure>,
    },
    /// It has an outcome.
    Returned {
        call: Call,
        outcome: Outcome,
        started_at: Timestamp,
    },
    /// It may have taken effect, and must not be made again unasked.
    Unknown { call: Call },
    /// The journal could not be written, so it was not made.
    NotDurable(StoreError),
}

impl<P: Program, X: Executor> Drive<P, X> {
    pub(crate) fn new(
        engine: Engine<P>,
        executor: Arc<X>,
        options: Arc<Options>,
        stop: CancellationToken,
        waiting: Arc<AtomicUsize>,
        claimed: &Claimed,
    ) -> Result<Self, EngineError> {
        let record = &claimed.record;
        let snapshot = read_snapshot(record.id, claimed.entry.state.clone())?;
        let messages = claimed
            .messages
            .iter()
            .map(|stored| stored.message.clone())
            .collect();
        let machine = Machine::restore(
            Arc::clone(&engine.program),
            Facts::from(record),
            snapshot,
            messages,
            record.seq,
        );
        Ok(Self {
            engine,
            executor,
            options,
            stop,
            machine,
            fence: claimed.fence(),
            durable: std::future::ready(Ok(())).boxed().shared(),
            under_way: FuturesUnordered::new(),
            waiting,
            has_children: Arc::default(),
            scratch: Arc::default(),
            begun: HashSet::new(),
            taking_up: true,
        })
    }

    /// Works on the task until it ends, waits for a person, or is put down.
    pub(crate) async fn run(
        mut self,
        claimed: Claimed,
        signalled: &Notify,
    ) -> Result<(), EngineError> {
        let mut inbox = self.engine.store.watch(Scope::Inbox(self.fence.task));
        if claimed.record.claims > self.options.max_claims {
            self.record(
                &Event::Poisoned {
                    claims: claimed.record.claims,
                },
                None,
            );
        } else {
            self.take_up(&claimed);
        }
        loop {
            if self.at_rest() {
                return self.rest().await;
            }
            let time_left = self.time_left();
            tokio::select! {
                biased;
                Some(report) = self.under_way.next() => self.take_report(report)?,
                () = inbox.changed() => self.take_inbox().await?,
                () = signalled.notified() => self.take_inbox().await?,
                () = tokio::time::sleep(time_left) => { self.record(&Event::DeadlineReached, None); }
            }
        }
    }

    /// Whether the worker has nothing more to do for the task. When it stops, what is under way is
    /// still waited for, and what is not begun yet is left to the next worker.
    fn at_rest(&self) -> bool {
        let status = self.machine.snapshot().status;
        status.is_final() || status == TaskState::InputRequired || self.under_way.is_empty()
    }

    /// Leaves the task as its journal has it, once that is durable.
    async fn rest(self) -> Result<(), EngineError> {
        self.durable.await?;
        let ended = self.machine.snapshot().status.is_final();
        if ended && self.has_children.load(Ordering::Relaxed) {
            children::cancel_all(&self.engine, self.machine.facts()).await?;
        }
        Ok(())
    }

    /// Picks up where the journal left off.
    fn take_up(&mut self, claimed: &Claimed) {
        let now = self.engine.clock.now();
        let interrupted = self.machine.snapshot().open.iter().any(|call| call.started);
        if interrupted || now >= self.machine.snapshot().deadline {
            let deadline = now
                .checked_add(self.engine.task_time)
                .unwrap_or(Timestamp::MAX);
            self.record(&Event::Resumed { deadline }, None);
        }
        for signal in &claimed.signals {
            self.take_signal(signal);
        }
        let asked: Vec<_> = self.machine.snapshot().questions.clone();
        for question in asked.iter().filter(|question| question.expires_at <= now) {
            let event = Event::Answered {
                question: question.id,
                answer: Answered::Expired,
            };
            self.record(&event, None);
        }
        let snapshot = self.machine.snapshot();
        let unasked: Vec<Call> = snapshot
            .open
            .iter()
            .filter(|call| {
                !snapshot
                    .questions
                    .iter()
                    .any(|question| question.id == call.id)
            })
            // A waiting signal may just have approved it.
            .filter(|call| !self.begun.contains(&call.id))
            .cloned()
            .collect();
        for call in unasked {
            let executor = Arc::clone(&self.executor);
            self.under_way.push(
                async move {
                    let effect = executor.effect(&call).await;
                    Report::Classified { call, effect }
                }
                .boxed(),
            );
        }
        self.taking_up = false;
        if self.under_way.is_empty() {
            // Nothing to do but wait for a person: the entry that says so also puts the task down.
            let deadline = self.machine.snapshot().deadline;
            self.record(&Event::Resumed { deadline }, None);
        }
    }

    fn take_report(&mut self, report: Report) -> Result<(), EngineError> {
        match report {
            Report::Classified { call, effect } => self.take_classified(call, effect),
            Report::Returned {
                call,
                outcome,
                started_at,
            } => self.take_outcome(call, outcome, started_at),
            Report::Unknown { call } => self.ask_about(&call),
            Report::NotDurable(error) => return Err(error.into()),
        }
        Ok(())
    }

    fn take_outcome(&mut self, call: Call, outcome: Outcome, started_at: Timestamp) {
        let now = self.engine.clock.now();
        let duration = now.duration_since(started_at).as_millis();
        let event = Event::Returned {
            call: call.id,
            label: call.label,
            outcome,
            started_at,
            duration_ms: u64::try_from(duration).unwrap_or(0),
        };
        self.record(&event, None);
    }

    /// A call that was open when the task was claimed: begun by nobody, or cut short.
    fn take_classified(&mut self, call: Call, effect: Result<Effect, Failure>) {
        match (call.started, effect) {
            (_, Ok(Effect::None)) | (true, Ok(Effect::Repeatable)) => self.perform(call),
            (false, Ok(_)) => {
                self.record(&Event::Started { call: call.id }, None);
                self.perform(call);
            }
            // Nobody can say what the call does, and it may have been made: that is for a person.
            (true, Ok(Effect::Once) | Err(_)) => self.ask_about(&call),
            (false, Err(failure)) => {
                let now = self.engine.clock.now();
                self.take_outcome(call, Outcome::Failed(failure), now);
            }
        }
    }

    fn ask_about(&mut self, call: &Call) {
        let expires_at = self
            .engine
            .clock
            .now()
            .checked_add(self.options.question_time)
            .unwrap_or(Timestamp::MAX);
        self.record(
            &Event::OutcomeUnknown {
                call: call.id,
                expires_at,
            },
            None,
        );
    }

    async fn take_inbox(&mut self) -> Result<(), EngineError> {
        let loaded = self.engine.store.load(self.fence.task, u64::MAX).await?;
        for signal in loaded.map(|loaded| loaded.signals).unwrap_or_default() {
            self.take_signal(&signal);
        }
        Ok(())
    }

    fn take_signal(&mut self, signal: &Signal) {
        let event = if signal.kind == "cancel" {
            let reason = signal
                .payload
                .get("reason")
                .and_then(|reason| reason.as_str());
            Event::Canceled {
                reason: reason.map(str::to_owned),
            }
        } else if let Some((question, answer)) = answer_of(signal) {
            Event::Answered { question, answer }
        } else {
            Event::Signalled {
                kind: signal.kind.clone(),
                payload: signal.payload.clone(),
            }
        };
        self.record(&event, Some(signal.id));
    }

    /// Applies an event, writes it down, and begins the calls that it asks for. Does not wait.
    fn record(&mut self, event: &Event, consumed: Option<i64>) {
        if self.machine.snapshot().status.is_final() {
            return;
        }
        let now = self.engine.clock.now();
        let Transition { messages, perform } = self.machine.apply(event, now);
        let stopping = self.stop.is_cancelled();
        if stopping {
            self.machine.put_down(&perform);
        }
        let snapshot = self.machine.snapshot();
        let hold = match snapshot.status {
            TaskState::InputRequired if !self.taking_up => Hold::Release {
                wake_at: snapshot
                    .questions
                    .iter()
                    .map(|question| question.expires_at)
                    .min(),
            },
            _ if stopping && self.under_way.is_empty() => Hold::Release { wake_at: Some(now) },
            _ => Hold::Keep,
        };
        let batch = Batch {
            entries: vec![NewEntry {
                at: now,
                kind: event.kind(),
                event: to_json(event),
                state: to_json(snapshot),
            }],
            messages,
            // A row is never less far than its claim made it.
            status: match snapshot.status {
                TaskState::Submitted => TaskState::Working,
                status => status,
            },
            stage: snapshot.stage,
            hold,
            consumed: consumed.into_iter().collect(),
            result: snapshot.answer.as_ref().map(|answer| answer.text.clone()),
            error: snapshot.error.clone(),
            progress: event.is_progress(),
        };
        let append = self.engine.store.append(self.fence, batch);
        self.fence.seq += 1;
        let before = self.durable.clone();
        self.durable = async move {
            before.await?;
            append.await.map(drop)
        }
        .boxed()
        .shared();
        if !stopping && !self.machine.snapshot().status.is_final() {
            for call in perform {
                self.perform(call);
            }
        }
    }

    fn perform(&mut self, call: Call) {
        self.begun.insert(call.id);
        let executor = Arc::clone(&self.executor);
        let clock = Arc::clone(&self.engine.clock);
        let durable = self.durable.clone();
        let repeats = self.options.repeats;
        let pause = self.options.repeat_pause;
        let performing = Performing {
            facts: Arc::clone(self.machine.facts()),
            messages: self.machine.messages().into(),
            deadline: self.machine.snapshot().deadline,
            scratch: Arc::clone(&self.scratch),
            children: Arc::new(ChildRunner::new(
                self.engine.clone(),
                Arc::clone(self.machine.facts()),
                self.machine.snapshot().deadline,
                Arc::clone(&self.waiting),
                Arc::clone(&self.has_children),
            )),
        };
        self.under_way.push(
            async move {
                let started_at = clock.now();
                let effect = match executor.effect(&call).await {
                    Ok(effect) => effect,
                    Err(failure) => {
                        return Report::Returned {
                            call,
                            outcome: Outcome::Failed(failure),
                            started_at,
                        };
                    }
                };
                if effect != Effect::None
                    && let Err(error) = durable.await
                {
                    return Report::NotDurable(error);
                }
                let mut attempt = 0;
                loop {
                    let outcome = executor.perform(performing.clone(), &call).await;
                    let unknown = matches!(
                        &outcome,
                        Outcome::Failed(failure) if failure.kind == FailureKind::Unknown
                    );
                    if !unknown {
                        return Report::Returned {
                            call,
                            outcome,
                            started_at,
                        };
                    }
                    if effect == Effect::Once {
                        return Report::Unknown { call };
                    }
                    if attempt == repeats {
                        return Report::Returned {
                            call,
                            outcome,
                            started_at,
                        };
                    }
                    attempt += 1;
                    tokio::time::sleep(pause * attempt).await;
                }
            }
            .boxed(),
        );
    }

    fn time_left(&self) -> std::time::Duration {
        let deadline = self.machine.snapshot().deadline;
        deadline
            .duration_since(self.engine.clock.now())
            .try_into()
            .unwrap_or_default()
    }
}

/// The question and answer that a signal carries, if it is an answer.
fn answer_of(signal: &Signal) -> Option<(Uuid, Answered)> {
    if signal.kind != "answer" {
        return None;
    }
    let question = signal.payload.get("question")?.as_str()?.parse().ok()?;
    let answer = serde_json::from_value(signal.payload.get("answer")?.clone()).ok()?;
    Some((question, answer))
}
