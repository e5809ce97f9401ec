//! Applies events to the machine and appends the entries and the task's status.

use std::sync::Arc;
use std::time::Duration;

use convoke_model::{Stage, TaskState};
use convoke_store::{Batch, LeaseAction, NewEntry, NewMessage, StatusUpdate, text_of};
use jiff::Timestamp;
use uuid::Uuid;

use super::{Phase, TaskDriver};
use crate::call::{Call, Executor};
use crate::event::Event;
use crate::machine::Transition;
use crate::program::Program;
use crate::snapshot::{Question, QuestionKind};

/// The status in a task's row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RowState {
    pub(super) status: TaskState,
    pub(super) stage: Option<Stage>,
    /// Whether it records progress since the claim.
    pub(super) progress: bool,
}

impl<P: Program, X: Executor<P>> TaskDriver<P, X> {
    /// Applies an event, appends its entry, and starts the requested calls. Does not wait.
    pub(super) fn record(&mut self, event: Event<P::Reply>, consumed: Option<i64>) {
        self.record_at(self.context.engine.now(), event, consumed);
    }

    /// The same for an event of which the time is known.
    pub(super) fn record_at(
        &mut self,
        now: Timestamp,
        event: Event<P::Reply>,
        consumed: Option<i64>,
    ) {
        if self.machine.snapshot().status.is_final() {
            return;
        }
        // A call that a person lets repeat may have taken effect in an earlier attempt.
        let questions = &self.machine.snapshot().questions;
        let unknown = |open: &&Question| open.about == QuestionKind::OutcomeUnknown;
        let doubtful: Vec<Uuid> = questions
            .iter()
            .filter(unknown)
            .map(|open| open.id)
            .collect();
        let perform = self.write(now, event, consumed);
        if !self.stopping && !self.machine.snapshot().status.is_final() {
            for call in perform {
                let is_doubtful = doubtful.contains(&call.id);
                self.perform(call, is_doubtful);
            }
        }
    }

    /// Applies an event and appends its entry. Returns the requested calls.
    pub(super) fn write(
        &mut self,
        now: Timestamp,
        event: Event<P::Reply>,
        consumed: Option<i64>,
    ) -> Vec<Arc<Call<P::Request>>> {
        let (kind, progress, text) = (event.kind(), event.is_progress(), text_of(&event));
        let puts_back = matches!(event, Event::PutBack { .. });
        let stage = self.machine.snapshot().stage;
        let Transition { messages, perform } = self.machine.apply(event, now);
        let left = self.machine.snapshot();
        if let Some(stage) = stage
            && (left.stage != Some(stage) || left.status.is_final())
        {
            self.stage_timer.left(self.context.engine.app(), stage);
        }
        if self.stopping {
            self.machine.put_down(&perform);
        }
        // Releasing a task is not a failed claim.
        let standing = self.standing(now, progress || puts_back, puts_back);
        self.append(now, kind, text, messages, consumed, standing);
        perform
    }

    /// A task that ended with its first step has an answer in the journal and an outdated row.
    pub(super) fn close_row(&mut self) {
        let now = self.context.engine.now();
        let deadline = self.machine.deadline();
        let event: Event<P::Reply> = Event::Resumed { deadline };
        let standing = self.standing(now, true, false);
        let (kind, text) = (event.kind(), text_of(&event));
        self.append(now, kind, text, Vec::new(), None, standing);
    }

    fn append(
        &mut self,
        at: Timestamp,
        kind: &'static str,
        event: String,
        messages: Vec<NewMessage>,
        consumed: Option<i64>,
        standing: Option<StatusUpdate>,
    ) {
        let state = self.states.write(self.machine.snapshot());
        self.journal.append(Batch {
            entries: vec![NewEntry {
                at,
                kind: kind.into(),
                event,
                state,
            }],
            messages,
            consumed: consumed.into_iter().collect(),
            standing,
            inline_bytes: self.context.options.inline_bytes,
        });
    }

    /// The new status, if it differs from the row. A released task is ready at once.
    fn standing(
        &mut self,
        now: Timestamp,
        progress: bool,
        given_back: bool,
    ) -> Option<StatusUpdate> {
        let wake_in = match self.gives_up(now) {
            _ if given_back => Some(Duration::ZERO),
            Some(wake_in) if self.phase != Phase::TakingUp => Some(wake_in),
            _ => None,
        };
        self.phase = match (wake_in, self.phase) {
            (Some(_), _) => Phase::GivenUp,
            (None, Phase::TakingUp) => Phase::TakingUp,
            (None, _) => Phase::AtWork,
        };
        let snapshot = self.machine.snapshot();
        let row = RowState {
            // The status never goes back behind the claim.
            status: match snapshot.status {
                TaskState::Submitted => TaskState::Working,
                status => status,
            },
            stage: snapshot.stage,
            progress: self.row.progress || progress,
        };
        if row == self.row && wake_in.is_none() {
            return None;
        }
        self.row = row;
        Some(StatusUpdate {
            status: row.status,
            stage: row.stage,
            hold: match wake_in {
                Some(wake_in) => LeaseAction::Release {
                    wake_in: Some(wake_in),
                },
                None => LeaseAction::Keep,
            },
            result: snapshot.answer.as_ref().map(|answer| answer.text.clone()),
            error: snapshot.error.clone(),
            progress,
        })
    }
}
