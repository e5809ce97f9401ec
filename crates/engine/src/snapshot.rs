//! The state in every entry: all of a task except its messages.

use std::sync::Arc;
use std::time::Duration;

use convoke_model::{Answer, Stage, TaskState};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::call::Call;

/// The state of a task after an entry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Snapshot<S, R> {
    /// The public state.
    pub status: TaskState,
    /// The stage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<Stage>,
    /// The deadline, if a resume extended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    /// Calls without an outcome.
    #[serde(default = "Vec::new", skip_serializing_if = "Vec::is_empty")]
    pub open: Vec<Arc<Call<R>>>,
    /// Questions without an answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub questions: Vec<Question>,
    /// The answer, once there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Answer>,
    /// What went wrong, for an operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The program's own state.
    pub program: S,
}

impl<S: Default, R> Default for Snapshot<S, R> {
    /// The state of a new task.
    fn default() -> Self {
        Self {
            status: TaskState::Submitted,
            stage: None,
            deadline: None,
            open: Vec::new(),
            questions: Vec::new(),
            answer: None,
            error: None,
            program: S::default(),
        }
    }
}

/// Why a task needs no worker for now. The only place that decides this.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rest {
    /// It has ended.
    Ended,
    /// All open calls wait for a person or for a timer.
    Until {
        /// The next time at which a call is due, or a question expires or is asked again.
        wake_at: Timestamp,
        /// Whether a question is open.
        asks: bool,
    },
}

impl<S, R> Snapshot<S, R> {
    /// Why the task needs no worker for now. `None` if it does.
    pub fn rest(&self) -> Option<Rest> {
        if self.status.is_final() {
            return Some(Rest::Ended);
        }
        let asks = |id: Uuid| self.questions.iter().any(|question| question.id == id);
        let waits = |call: &Arc<Call<R>>| call.due_at.is_some() || asks(call.id);
        if !self.open.iter().all(waits) {
            return None;
        }
        let due = self.open.iter().filter_map(|call| call.due_at);
        let timers = self.questions.iter().map(Question::timer);
        Some(Rest::Until {
            wake_at: due.chain(timers).min()?,
            asks: !self.questions.is_empty(),
        })
    }

    /// Moves the task to another state, if that is legal. One entry may hold two moves: from waiting to working, and
    /// from there to the end. A state that cannot follow changes nothing.
    pub(crate) fn move_to(&mut self, next: TaskState) {
        let present = self.status;
        let through_work =
            present.can_become(TaskState::Working) && TaskState::Working.can_become(next);
        if present.can_become(next) || through_work {
            self.status = next;
        }
    }

    /// Enters a stage, if it can follow the present one: only refining goes back. Otherwise the stage stays.
    pub(crate) fn enter(&mut self, next: Stage) {
        if self.stage.is_none_or(|present| present.can_become(next)) {
            self.stage = Some(next);
        }
    }

    /// Ends a task without its program, unless it has ended.
    pub(crate) fn stop(&mut self, status: TaskState, cause: String) {
        if !self.status.is_final() {
            self.finish(status, Some(cause));
        }
    }

    /// Ends a task and drops its open calls and questions.
    pub(crate) fn finish(&mut self, status: TaskState, error: Option<String>) {
        self.move_to(status);
        self.error = error;
        self.open.clear();
        self.questions.clear();
    }
}

/// A question for a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// The call that it is about; also the question's id.
    pub id: Uuid,
    /// The sequence of the entry that asked it. The same call may be asked about more than once.
    #[serde(default)]
    pub seq: u64,
    /// What the answer decides.
    pub about: QuestionKind,
    /// The text of the question.
    pub prompt: String,
    /// When it expires.
    pub expires_at: Timestamp,
    /// When the question is asked again, if a person has put it off. It can be answered before that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snoozed_until: Option<Timestamp>,
}

impl Question {
    /// When an unanswered question is asked again or expires.
    pub(crate) fn timer(&self) -> Timestamp {
        self.snoozed_until.unwrap_or(self.expires_at)
    }

    pub(crate) fn snooze(&mut self, at: Timestamp, pause: Duration) {
        let later = |time: Timestamp| time.checked_add(pause).unwrap_or(Timestamp::MAX);
        self.snoozed_until = Some(later(at));
        self.expires_at = later(self.expires_at);
    }
}

/// What the answer decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QuestionKind {
    /// Whether a call is made. `modify` changes its arguments.
    Approval,
    /// Whether a call that may have taken effect is repeated. `modify` sets its result.
    OutcomeUnknown,
}
