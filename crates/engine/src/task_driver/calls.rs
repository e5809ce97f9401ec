//! Begins calls, and takes in what came of them.

use std::sync::Arc;

use convoke_store::StoreError;
use futures::FutureExt;
use jiff::Timestamp;
use uuid::Uuid;

use super::TaskDriver;
use crate::attempts::perform;
use crate::call::{Call, CallContext, Effect, Executor, Failure, FailureKind, Outcome, Verdict};
use crate::error::EngineError;
use crate::event::Event;
use crate::live::Live;
use crate::program::Program;

/// Why it is not known what came of a call that was under way when its worker was gone.
const CUT_SHORT: &str = "the worker that made it was gone before an answer came";

/// Characters of a cause that stand in a question. It is written with every entry until it is answered.
const CAUSE_CHARACTERS: usize = 500;

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
        let now = self.context.engine.now();
        let duration = now.duration_since(started_at).as_millis();
        let event = Event::Returned {
            call: call.id,
            label: call.label.clone(),
            outcome,
            started_at: Some(started_at),
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
                let now = self.context.engine.now();
                self.take_outcome(&call, Outcome::Failed(interrupted()), now);
            }
            (false, Err(failure)) => {
                let now = self.context.engine.now();
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

    /// Makes a call. It is doubtful where an earlier attempt may have taken effect.
    pub(super) fn perform(&mut self, call: Arc<Call<P::Request>>, doubtful: bool) {
        self.begun.push(call.id);
        let context = Arc::clone(&self.context);
        let durable = self.journal.durable();
        let mut call_context = self.call_context();
        call_context.live = self.live_text_of(call.id);
        self.under_way
            .push(perform(context, call_context, durable, call, doubtful).boxed());
    }

    /// Where a call says what it says, if anybody hears it.
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

    /// What a call is told now.
    pub(super) fn call_context(&self) -> CallContext {
        CallContext {
            messages: Arc::clone(self.machine.messages()),
            deadline: self.machine.deadline(),
            ..self.call_context.clone()
        }
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
