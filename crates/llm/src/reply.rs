//! A model's answer.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// One answer.
#[derive(Debug, Clone, PartialEq)]
pub struct ChatReply {
    /// The text; may be empty if tools are called.
    pub text: String,
    /// Tool calls, in the model's order.
    pub tool_calls: Vec<ModelCall>,
    /// Tokens used.
    pub usage: Usage,
    /// The model that answered.
    pub model: String,
    /// Scheme, host and port of its endpoint; other parts of the address may contain a secret.
    pub endpoint: String,
    /// Why the model stopped.
    pub finish: Finish,
    /// Number of requests to all models.
    pub attempts: u32,
}

/// A tool call requested by the model.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelCall {
    /// The model's id of the call. `None` if missing or not unique; then the model gets the call's own
    /// id.
    pub id: Option<String>,
    /// The tool's name as offered.
    pub name: String,
    /// The arguments, or the model's text if it is not a JSON object.
    pub arguments: Result<Map<String, Value>, String>,
}

/// Tokens used by an answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens of the prompt.
    pub input_tokens: u64,
    /// Tokens of the answer.
    pub output_tokens: u64,
    /// Whether these are estimates, because the server did not report usage.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub estimated: bool,
}

/// Why a model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    /// The answer is complete.
    Stop,
    /// It called tools.
    ToolCalls,
    /// It reached the output limit; the answer is cut off.
    Length,
    /// The provider withheld the rest.
    ContentFilter,
}

/// A part of a streamed answer, for display only: the [`ChatReply`] at the end is authoritative.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delta<'a> {
    /// More text.
    Text(&'a str),
    /// The stream broke and the answer starts over; discard the text so far.
    Reset,
}

/// Receives an answer while it is streamed.
pub type Live<'a> = Option<&'a (dyn Fn(Delta<'_>) + Send + Sync)>;
