//! The state that every entry carries: all of a task but its messages.

use std::sync::Arc;

use convoke_model::{Answer, Stage, TaskState};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::call::Call;

/// Where a task stands after an entry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Snapshot<S, R> {
    /// The public state.
    pub status: TaskState,
    /// The finer step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<Stage>,
    /// When the task's time is over, if it was begun anew.
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
    /// Of a task that nothing has happened to yet.
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

/// Why nobody has to work on a task for now. This is the only place that decides it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rest {
    /// It has ended.
    Ended,
    /// Everything that is open waits for a person or for a timer.
    Until {
        /// The earliest time at which something is to be done: a call is due, or a question expires.
        wake_at: Timestamp,
        /// Whether a person is asked.
        asks: bool,
    },
}

impl<S, R> Snapshot<S, R> {
    /// Why nobody has to work on the task for now, if that is so.
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
        let expiries = self.questions.iter().map(|question| question.expires_at);
        Some(Rest::Until {
            wake_at: due.chain(expiries).min()?,
            asks: !self.questions.is_empty(),
        })
    }

    /// Ends a task that has not ended before its program could.
    pub(crate) fn stop(&mut self, status: TaskState, cause: String) {
        if !self.status.is_final() {
            self.finish(status, Some(cause));
        }
    }

    /// Ends a task, with whatever is still open.
    pub(crate) fn finish(&mut self, status: TaskState, error: Option<String>) {
        self.status = status;
        self.error = error;
        self.open.clear();
        self.questions.clear();
    }
}

/// Something that only a person can say.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// The call that it is about; also the question's id.
    pub id: Uuid,
    /// The entry that asked it: the same call may be asked about again, first whether to make it and then
    /// what came of it.
    #[serde(default)]
    pub seq: u64,
    /// What an answer decides.
    pub about: QuestionKind,
    /// What is asked.
    pub prompt: String,
    /// When nobody waits for an answer any more.
    pub expires_at: Timestamp,
}

/// What an answer decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QuestionKind {
    /// Whether a call is made at all. Modifying changes its arguments.
    Approval,
    /// Whether a call that may have taken effect is made again. Modifying gives its result.
    OutcomeUnknown,
}
