//! Errors: a refused call, or a failure of the server.

use convoke_serving::{CallProblem, Failure, Refuse};

use crate::store::MAX_TASKS_PER_USER;
use crate::task::MAX_TITLE_LENGTH;

/// A refused call, which changed nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The user has no such task. Another user's task gives the same message.
    #[error("There is no task {0}.")]
    NotFound(String),
    /// The user id is not a UUID.
    #[error("The user id must be a UUID.")]
    UserId,
    /// The task id is not a UUID.
    #[error("The task id must be a UUID, as list_tasks gives it.")]
    TaskId,
    /// The title is empty or too long.
    #[error("The title must have 1 to {MAX_TITLE_LENGTH} characters.")]
    Title,
    /// The arguments or the idempotency key are invalid.
    #[error(transparent)]
    Call(#[from] CallProblem),
    /// The user has reached the limit of tasks.
    #[error("There are {MAX_TASKS_PER_USER} tasks already; delete some first.")]
    TooManyTasks,
}

impl Refusal {
    /// Stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotFound(_) => "todo.task_not_found",
            Self::UserId => "todo.user_id",
            Self::TaskId => "todo.task_id",
            Self::Title => "todo.title",
            Self::Call(CallProblem::Arguments(_)) => "todo.arguments",
            Self::Call(CallProblem::Key) => "todo.idempotency_key",
            Self::Call(CallProblem::KeyReused) => "todo.idempotency_key_reused",
            Self::TooManyTasks => "todo.too_many_tasks",
        }
    }
}

impl Refuse for Refusal {
    const SERVER: &'static str = "todo";

    fn code(&self) -> &'static str {
        self.code()
    }

    fn is_malformed(&self) -> bool {
        matches!(
            self,
            Self::UserId | Self::TaskId | Self::Title | Self::Call(CallProblem::Arguments(_))
        )
    }
}

/// Why the server or a call failed.
pub type TodoError = Failure<Refusal>;
