//! Attempts at one call: when it is repeated, and the outcome over all attempts.

use std::sync::Arc;

use convoke_telemetry::metrics;

use crate::call::{Call, CallContext, Effect, Executor, Failure, FailureKind, Outcome};
use crate::journal_writer::Durable;
use crate::program::Program;
use crate::task_driver::Report;
use crate::worker_context::WorkerContext;

/// Makes a call, and repeats it while its outcome is unknown and repetition is allowed. The last attempt says nothing
/// about the earlier ones: if one of them may have taken effect, a failure is never reported as one without effect.
pub(crate) async fn perform<P: Program, X: Executor<P>>(
    context: Arc<WorkerContext<P, X>>,
    call_context: CallContext,
    durable: Durable,
    call: Arc<Call<P::Request>>,
    mut doubtful: bool,
) -> Report<P> {
    let started_at = context.engine.now();
    let effect = match context.executor.effect(&call_context, &call).await {
        Ok(effect) => effect,
        Err(Failure { message, .. }) if doubtful => {
            return Report::Unknown {
                call,
                cause: message,
            };
        }
        Err(failure) => {
            return Report::Returned {
                call,
                outcome: Outcome::Failed(failure),
                started_at,
            };
        }
    };
    if effect != Effect::None {
        if let Err(error) = durable.wait().await {
            return Report::NotDurable(error);
        }
        context.lease_time.holds().await;
    }
    let mut attempt = 0;
    loop {
        let mut outcome = context.executor.perform(&call_context, &call).await;
        let mut lost = false;
        if let Outcome::Failed(failure) = &mut outcome {
            lost = failure.kind == FailureKind::Unknown;
            failure.kind = match failure.kind {
                _ if effect == Effect::None => FailureKind::NoEffect,
                FailureKind::NoEffect if doubtful => FailureKind::Unknown,
                kind => kind,
            };
            if effect == Effect::Once && failure.kind == FailureKind::Unknown {
                let cause = std::mem::take(&mut failure.message);
                return Report::Unknown { call, cause };
            }
        }
        doubtful |= lost;
        attempt += 1;
        let pause = context.options.repeat_pause * attempt;
        let again = lost
            && effect != Effect::AtMostOnce
            && attempt <= context.options.repeats
            && context.has_time(&call_context, &call, pause);
        if let Outcome::Failed(Failure {
            kind: FailureKind::NoEffect,
            retry_in: Some(pause),
            code,
            message,
            ..
        }) = &outcome
            && !doubtful
            && call.postponed < context.options.postponements
        {
            metrics::RETRIES.increment(["call"]);
            return Report::Postponed {
                pause: *pause,
                cause: format!("{code}: {message}"),
                call,
            };
        }
        if !again {
            if let Outcome::Failed(failure) = &outcome {
                tracing::Span::current().record("error.type", failure.code.as_str());
            }
            return Report::Returned {
                call,
                outcome,
                started_at,
            };
        }
        metrics::RETRIES.increment(["call"]);
        tokio::time::sleep(pause).await;
    }
}
