//! Chat models behind any OpenAI-compatible endpoint.
//!
//! [`ModelClient`] is a handle on one pooled HTTP client that all agents share. It writes requests
//! straight from borrowed messages, reads what the known servers make of the format, retries what
//! may pass, falls back to the next model of the list, and says in [`LlmError`] what the caller may
//! do next. Nothing is kept here: budgets and the journal are the caller's.

mod attempt;
mod bare_call;
mod client;
mod connections;
mod endpoint;
mod error;
mod estimate;
mod found_json;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
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
pub use found_json::extract_json;
pub use options::Options;
pub use reply::{ChatReply, Delta, Finish, Live, ModelCall, Usage};
pub use request::{ChatRequest, JoinedNames, Output, ToolNames, ToolSpec, tool_names};
