//! The way of a request over the durable engine:
//!
//! ```text
//! receive ──► decide ──► act ──► compose ──► deliver
//! ```
//!
//! - [`receive`] bounds what comes in and turns it into a task.
//! - [`Assistant`] is the engine's program: a pure function that says, after each event, what comes
//!   next. Its nodes are in `nodes/`, one file a node.
//! - [`Performer`] is the engine's executor: it carries out what the program asks for, through the
//!   ports in [`ports`].

mod approval_question;
mod assigned_agent;
mod assistant;
mod calls;
mod catalogue;
mod change_check;
mod effort;
mod ended_call;
mod error;
mod events;
mod fallback;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod input;
mod inquiry;
mod interpret;
mod measured;
mod memory;
mod nodes;
#[cfg(test)]
mod own_words;
mod performer;
mod pointing;
mod receive;
mod reference;
mod referring;
mod refusal;
mod request_history;
mod retry_budget;
mod split;
mod suggestions;
mod task_scratch;
mod template;
pub mod toolbox;
mod trace;
mod turn;
mod undone;
mod unused;

pub use convoke_decide::Classifiers;
/// The ports that the performer needs implemented.
pub use convoke_tools as ports;

pub use assigned_agent::assigned_agent;
pub use assistant::{Assistant, Progress};
pub use calls::{Reply, Request};
pub use change_check::ToolChangeCheck;
pub use error::FlowError;
pub use events::{
    DecisionCandidate, EventProjection, FollowedTask, TaskEvent, TaskEventKind, TaskEventStream,
    TaskUpdate, follow, follow_stored,
};
pub use interpret::plain_answer;
pub use nodes::graph::{ConditionOutcome, ConditionReader, JudgedCondition};
pub use performer::{Performer, PerformerOptions};
pub use receive::{
    Attachment, IncomingRequest, MAX_ANSWER_BYTES, MAX_KEY_CHARACTERS, MAX_TAG_CHARACTERS,
    MAX_TAGS, WhileBusy, check_answer, check_key, check_tags, receive,
};
pub use refusal::{words_of_end, words_of_refusal};
pub use request_history::MAX_HISTORY_BYTES;
pub use trace::trace;
