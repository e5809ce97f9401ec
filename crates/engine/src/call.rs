//! Calls: all work of a task outside its own state, each under an id that never changes.

use std::any::Any;
use std::sync::Arc;

pub use convoke_model::{Failure, FailureKind};
use convoke_telemetry::TraceContext;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::sync::OnceCell;
use uuid::Uuid;

use crate::children::Children;
use crate::live::Live;
use crate::messages::Messages;
use crate::program::{Facts, Program};

/// An open call: journaled, without an outcome.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Call<R> {
    /// The effect id, derived from the task and the position in its journal, so it is the same for every repetition.
    pub id: Uuid,
    /// A label for people, such as `todo.add_task`.
    pub label: String,
    /// The request for the executor.
    pub request: R,
    /// Whether a worker may have started it. Journaled before it starts.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub started: bool,
    /// Timer: the call starts at this time. Removed when it starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due_at: Option<Timestamp>,
    /// How often the call was postponed: made, refused without effect, and left to a timer.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub postponed: u32,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// The effect of a call on the outside world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// No effect: it may start before the journal is durable, and may be repeated.
    None,
    /// An effect that a repetition with the same id does not add to.
    Repeatable,
    /// An effect on each call.
    Once,
    /// A possible effect that needs no decision of a person: it is made once, and an unknown outcome is a failure.
    AtMostOnce,
}

/// The outcome of a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome<T> {
    /// It succeeded with this reply.
    Done(T),
    /// It failed.
    Failed(Failure),
}

/// The verification of a call that may have taken effect.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict<T> {
    /// It took effect, with this reply.
    Done(T),
    /// It did not take effect.
    NotDone,
    /// It cannot be determined.
    Unknown,
}

/// The executor's cache for a task, which lives as long as a worker runs the task.
pub type Scratch = OnceCell<Arc<dyn Any + Send + Sync>>;

/// Context of a call for the executor.
#[derive(Clone)]
pub struct CallContext {
    /// The task's facts.
    pub facts: Arc<Facts>,
    /// The task's messages so far.
    pub messages: Messages,
    /// The task's deadline. No call continues after it.
    pub deadline: Timestamp,
    /// The executor's cache, shared by the task's calls.
    pub scratch: Arc<Scratch>,
    /// Runs child tasks.
    pub children: Arc<dyn Children>,
    /// The listener for live text.
    pub live: Option<Live>,
    /// The span of the call.
    pub trace: TraceContext,
    /// How often the call was postponed before.
    pub postponed: u32,
}

/// Performs a program's calls. One executor serves all tasks.
pub trait Executor<P: Program>: Send + Sync + 'static {
    /// Classifies a call. Called before it is made, within its time limit.
    fn effect(
        &self,
        call_context: &CallContext,
        call: &Call<P::Request>,
    ) -> impl Future<Output = Result<Effect, Failure>> + Send;

    /// The deadline of a call, after which it is not repeated.
    fn ends(&self, call_context: &CallContext, _call: &Call<P::Request>) -> Timestamp {
        call_context.deadline
    }

    /// Makes a call and waits for its outcome.
    fn perform(
        &self,
        call_context: &CallContext,
        call: &Call<P::Request>,
    ) -> impl Future<Output = Outcome<P::Reply>> + Send;

    /// Determines whether a call with an unknown outcome took effect. Must not change anything.
    fn verify(
        &self,
        _performing: &CallContext,
        _call: &Call<P::Request>,
    ) -> impl Future<Output = Verdict<P::Reply>> + Send {
        std::future::ready(Verdict::Unknown)
    }
}
