//! Starts calls and handles their outcomes.

use std::sync::Arc;
use std::time::Duration;

use convoke_store::StoreError;
use futures::FutureExt;
use jiff::Timestamp;
use tracing::Instrument;
use uuid::Uuid;

use super::TaskDriver;
use crate::attempts::perform;
use crate::call::{Call, CallContext, Effect, Executor, Failure, FailureKind, Outcome, Verdict};
use crate::error::EngineError;
use crate::event::Event;
use crate::live::Live;
use crate::program::Program;
use crate::spans;

/// Cause of an unknown outcome: the worker was lost during the call.
const CUT_SHORT: &str = "the worker that made it was gone before an answer came";

/// Limit of a cause in a question, in characters. It is written with every entry until the answer.
const CAUSE_CHARACTERS: usize = 500;

/// A report of an open call.
pub(crate) enum Report<P: Program> {
    /// The effect of a call that was open when the task was claimed.
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
    /// It had no effect and is repeated after a pause.
    Postponed {
        call: Arc<Call<P::Request>>,
        pause: Duration,
        cause: String,
    },
    /// It may have taken effect, and must not be repeated without a person's decision.
    Unknown {
        call: Arc<Call<P::Request>>,
        cause: String,
    },
    /// It was verified.
    Verified {
        call: Arc<Call<P::Request>>,
        verdict: Verdict<P::Reply>,
        /// Why the outcome was unknown.
        cause: String,
    },
    /// It was not made, because the journal could not be written.
    NotDurable(StoreError),
}

impl<P: Program> Report<P> {
    /// Whether it reports a failure.
    pub(super) fn is_failure(&self) -> bool {
        let Self::Returned { outcome, .. } = self else {
            return false;
        };
        matches!(outcome, Outcome::Failed(_))
    }
}

impl<P: Program, X: Executor<P>> TaskDriver<P, X> {
    pub(super) fn take_report(&mut self, report: Report<P>) -> Result<(), EngineError> {
        match report {
            Report::Classified { call, effect } => self.take_classified(call, effect),
            Report::Returned {
                call,
                outcome,
                started_at,
            } => self.take_outcome(&call, outcome, started_at),
            Report::Postponed { call, pause, cause } => self.postpone(call.id, pause, cause),
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
        self.live.end(call.id);
        self.started_calls.remove(&call.id);
        let now = self.context.engine.now();
        let duration = now.duration_since(started_at).as_millis();
        let event = Event::Returned {
            call: call.id,
            label: call.label.clone(),
            outcome,
            started_at: Some(started_at),
            duration_ms: u64::try_from(duration).unwrap_or(0),
        };
        self.record_at(now, event, None);
    }

    /// Leaves a call to a timer, so that the wait costs neither a permit nor the task's time.
    fn postpone(&mut self, call: Uuid, pause: Duration, cause: String) {
        self.live.end(call);
        self.started_calls.remove(&call);
        let pause_ms = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
        let event = Event::Postponed {
            call,
            pause_ms,
            cause,
        };
        self.record(event, None);
    }

    /// Handles a call that was open when the task was claimed: not started, or interrupted.
    fn take_classified(&mut self, call: Arc<Call<P::Request>>, effect: Result<Effect, Failure>) {
        if self.stopping {
            return;
        }
        match (call.started, effect) {
            (true, Ok(Effect::None)) => self.perform(call, false),
            // That a timer has run out is written down whatever the effect: the task does not wait for it any more.
            (false, Ok(Effect::None)) if call.due_at.is_none() => self.perform(call, false),
            (true, Ok(Effect::Repeatable)) => self.perform(call, true),
            (false, Ok(_)) => {
                self.record(Event::Started { call: call.id }, None);
                self.perform(call, false);
            }
            // It may have been made, and must not be repeated without a person's decision.
            (true, Ok(Effect::Once) | Err(_)) => self.verify(call, CUT_SHORT.into()),
            (true, Ok(Effect::AtMostOnce)) => {
                let now = self.context.engine.now();
                self.take_outcome(&call, Outcome::Failed(interrupted()), now);
            }
            (false, Err(failure)) => {
                let now = self.context.engine.now();
                self.take_outcome(&call, Outcome::Failed(failure), now);
            }
        }
    }

    /// Verifies whether a call took effect, if the executor can.
    fn verify(&mut self, call: Arc<Call<P::Request>>, cause: String) {
        let context = Arc::clone(&self.context);
        let call_context = self.call_context(&call);
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

    /// A call that took effect is not repeated; one that did not is repeated a limited number of times; otherwise a
    /// person decides.
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
                let now = self.context.engine.now();
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
        let now = self.context.engine.now();
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

    /// Makes a call. `doubtful`: an earlier attempt may have taken effect.
    pub(super) fn perform(&mut self, call: Arc<Call<P::Request>>, doubtful: bool) {
        self.started_calls.insert(call.id);
        let context = Arc::clone(&self.context);
        let durable = self.journal.durable();
        let mut call_context = self.call_context(&call);
        call_context.live = self.live_text_of(call.id);
        let span = spans::of_call(&call.label, call.id, call_context.trace, self.span());
        let performed = perform(context, call_context, durable, call, doubtful);
        self.under_way.push(performed.instrument(span).boxed());
    }

    /// The live listener of a call, if there is one.
    fn live_text_of(&self, call: Uuid) -> Option<Live> {
        let (listener, live) = (self.listener.clone(), Arc::clone(&self.live));
        match (listener, live.has_readers()) {
            (listener, false) => listener,
            (listener, true) => Some(Live::new(move |update| {
                live.say(call, update);
                if let Some(listener) = &listener {
                    listener.say(update);
                }
            })),
        }
    }

    /// The context of a call.
    pub(super) fn call_context(&self, call: &Call<P::Request>) -> CallContext {
        CallContext {
            messages: self.machine.messages().clone(),
            deadline: self.machine.deadline(),
            trace: self.machine.facts().trace.at(call.id),
            postponed: call.postponed,
            ..self.call_context.clone()
        }
    }
}

/// The failure of an interrupted call that is neither repeated nor asked about.
fn interrupted() -> Failure {
    Failure {
        code: "call.interrupted".into(),
        message: "the call was interrupted".into(),
        kind: FailureKind::Unknown,
        transient: false,
        retry_in: None,
    }
}
