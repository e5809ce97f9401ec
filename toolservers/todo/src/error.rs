//! What can go wrong: a call that is refused, and a server that cannot run.

use convoke_serving::{CallProblem, Failure, Refuse};

use crate::store::MAX_TASKS_PER_USER;
use crate::task::MAX_TITLE_LENGTH;

/// A call that was turned down and changed nothing. People read the sentence, programs the code.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The user has no such task, or it is another user's: the words are the same.
    #[error("There is no task {0}.")]
    NotFound(String),
    /// The user id is no UUID.
    #[error("The user id must be a UUID.")]
    UserId,
    /// The task id is no UUID.
    #[error("The task id must be a UUID, as list_tasks gives it.")]
    TaskId,
    /// The title is empty or too long.
    #[error("The title must have 1 to {MAX_TITLE_LENGTH} characters.")]
    Title,
    /// The arguments or the idempotency key are wrong.
    #[error(transparent)]
    Call(#[from] CallProblem),
    /// The user has as many tasks as a user may have.
    #[error("There are {MAX_TASKS_PER_USER} tasks already; delete some first.")]
    TooManyTasks,
}

impl Refusal {
    /// Stable and greppable.
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
}

/// Why the server, or one call of it, broke down.
pub type TodoError = Failure<Refusal>;
