//! Handles signals.

use convoke_model::Answerer;
use convoke_store::{Signal, SignalKind, Viewer};
use uuid::Uuid;

use super::TaskDriver;
use crate::call::Executor;
use crate::error::EngineError;
use crate::event::{Event, QuestionAnswer};
use crate::program::Program;

impl<P: Program, X: Executor<P>> TaskDriver<P, X> {
    /// Reads the inbox. If the store is unavailable, it is read again after the next renewal of the lease.
    pub(super) async fn take_inbox(&mut self) -> Result<(), EngineError> {
        let store = self.context.engine.store();
        let task = self.journal.fence().task;
        let signals = match store.signals(&Viewer::System, task).await {
            Err(error) if error.is_outage() => return Ok(()),
            signals => signals?,
        };
        self.notice_stop();
        for signal in signals {
            // Ending a task needs no permit; continuing it does.
            if self.permit.is_none() && signal.kind.parse() != Ok(SignalKind::Cancel) {
                self.inbox_waits = true;
                continue;
            }
            self.take_signal(signal);
        }
        Ok(())
    }

    pub(super) fn take_signal(&mut self, signal: Signal) {
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
        } else if let Some((question, answer, by)) = answer_of(&signal) {
            Event::Answered {
                question,
                answer,
                by,
            }
        } else {
            Event::Signalled {
                kind: signal.kind,
                payload: signal.payload,
            }
        };
        self.record(event, Some(id));
    }
}

/// The question and answer that a signal carries, and who gave it, if it is an answer.
pub(crate) fn answer_of(signal: &Signal) -> Option<(Uuid, QuestionAnswer, Option<Answerer>)> {
    if signal.kind.parse() != Ok(SignalKind::Answer) {
        return None;
    }
    let question = signal.payload.get("question")?.as_str()?.parse().ok()?;
    let answer = serde_json::from_value(signal.payload.get("answer")?.clone()).ok()?;
    let by = signal.payload.get("by").cloned();
    let by = by.and_then(|by| serde_json::from_value(by).ok());
    Some((question, answer, by))
}
