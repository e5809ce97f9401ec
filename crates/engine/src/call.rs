//! Calls: everything that a task does outside its own state, under an id that never changes.

use std::any::Any;
use std::sync::Arc;

use convoke_model::Message;
pub use convoke_model::{Failure, FailureKind};
use convoke_telemetry::TraceContext;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::sync::OnceCell;
use uuid::Uuid;

use crate::children::Children;
use crate::live::Live;
use crate::program::{Facts, Program};

/// A call that is in the journal and has no outcome there yet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Call<R> {
    /// The effect id: made from the task and the place in its journal, so that it is the same
    /// however often the call is made.
    pub id: Uuid,
    /// What it is, for people: `todo.add_task`.
    pub label: String,
    /// What the executor needs to know.
    pub request: R,
    /// Whether a worker may have begun it. Set in the journal before it is.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub started: bool,
    /// A timer: the call is not made before this time. It is gone once the call has begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due_at: Option<Timestamp>,
}

/// What a call may do to the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Nothing: it may be made before the journal is on disk, and as often as wanted.
    None,
    /// Something, but made again under the same id it does nothing more.
    Repeatable,
    /// Something, and again each time.
    Once,
    /// Something, perhaps, that nobody needs to be asked about: it is made once, and an unknown outcome
    /// is a failure like any other.
    AtMostOnce,
}

/// What came of a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome<T> {
    /// It gave this.
    Done(T),
    /// It did not work.
    Failed(Failure),
}

/// What a tool says of a call that may have taken effect.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict<T> {
    /// It did, and gave this.
    Done(T),
    /// It did not.
    NotDone,
    /// Nobody can tell.
    Unknown,
}

/// A place where an executor keeps what it wants to know again, for as long as a worker holds a task.
pub type Scratch = OnceCell<Arc<dyn Any + Send + Sync>>;

/// What an executor is told besides the call.
#[derive(Clone)]
pub struct CallContext {
    /// Whose task it is, and which.
    pub facts: Arc<Facts>,
    /// The task's messages so far.
    pub messages: Arc<Vec<Message>>,
    /// When the task's time is over. No call outlives it.
    pub deadline: Timestamp,
    /// What the executor keeps between the task's calls.
    pub scratch: Arc<Scratch>,
    /// Where parts of the task become tasks of their own.
    pub children: Arc<dyn Children>,
    /// Who listens while the task is worked on.
    pub live: Option<Live>,
    /// The span of the call.
    pub trace: TraceContext,
}

/// Carries out a program's calls. One executor serves all tasks at once.
pub trait Executor<P: Program>: Send + Sync + 'static {
    /// What a call may do to the world. Asked before it is made, and within its time.
    fn effect(
        &self,
        call_context: &CallContext,
        call: &Call<P::Request>,
    ) -> impl Future<Output = Result<Effect, Failure>> + Send;

    /// When a call's time is over: it is not made again after that.
    fn ends(&self, call_context: &CallContext, _call: &Call<P::Request>) -> Timestamp {
        call_context.deadline
    }

    /// Makes a call and waits for what comes of it.
    fn perform(
        &self,
        call_context: &CallContext,
        call: &Call<P::Request>,
    ) -> impl Future<Output = Outcome<P::Reply>> + Send;

    /// Finds out whether a call whose outcome is unknown took effect, without changing anything.
    fn verify(
        &self,
        _performing: &CallContext,
        _call: &Call<P::Request>,
    ) -> impl Future<Output = Verdict<P::Reply>> + Send {
        std::future::ready(Verdict::Unknown)
    }
}
