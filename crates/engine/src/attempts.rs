//! The attempts at one call: how often it is made, and what its failure means once all of them are counted.

use std::sync::Arc;

use crate::call::{Call, Effect, Executor, Failure, FailureKind, Outcome, Performing};
use crate::drive::{Durable, Report, Workshop};
use crate::program::Program;

/// Makes a call, again and again where its outcome is unknown and that is allowed. What comes of the last
/// attempt says nothing of those before it: where one of them may have taken effect, a failure is never told as
/// one without effect.
pub(crate) async fn perform<P: Program, X: Executor<P>>(
    workshop: Arc<Workshop<P, X>>,
    performing: Performing,
    durable: Durable,
    call: Arc<Call<P::Request>>,
    mut doubtful: bool,
) -> Report<P> {
    let started_at = workshop.engine.0.clock.now();
    let effect = match workshop.executor.effect(&performing, &call).await {
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
    if effect != Effect::None
        && let Err(error) = durable.wait().await
    {
        return Report::NotDurable(error);
    }
    let mut attempt = 0;
    loop {
        let mut outcome = workshop.executor.perform(&performing, &call).await;
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
        let pause = workshop.options.repeat_pause * attempt;
        let again = lost
            && effect != Effect::AtMostOnce
            && attempt <= workshop.options.repeats
            && workshop.has_time(&performing, &call, pause);
        if !again {
            return Report::Returned {
                call,
                outcome,
                started_at,
            };
        }
        tokio::time::sleep(pause).await;
    }
}
