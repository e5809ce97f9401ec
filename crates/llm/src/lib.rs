//! Chat models behind any OpenAI-compatible endpoint.
//!
//! [`ModelClient`] is a handle on one pooled HTTP client that all agents share. It writes requests
//! directly from borrowed messages, accepts the deviations of known servers, retries transient failures,
//! falls back to the next model of the list, and returns an [`LlmError`] that says what the caller can
//! do next. It keeps no state of tasks: budgets and the journal belong to the caller.

mod attempt;
mod bare_call;
mod client;
mod connections;
mod endpoint;
mod error;
mod estimate;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod json_extraction;
mod measured;
mod options;
mod reply;
mod request;
mod retry;
mod wire;

pub use bare_call::{bare_call, bare_calls};
pub use client::ModelClient;
pub use error::{Feature, LlmError, LlmProblem};
pub use estimate::estimate_tokens;
pub use json_extraction::extract_json;
pub use options::Options;
pub use reply::{ChatReply, Delta, Finish, Live, ModelCall, Usage};
pub use request::{
    ChatRequest, ImageContent, JoinedNames, Output, ToolNames, ToolSpec, tool_names,
};
