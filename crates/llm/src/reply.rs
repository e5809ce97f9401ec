//! What a model answered.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// One answer.
#[derive(Debug, Clone, PartialEq)]
pub struct ChatReply {
    /// What the model said; empty where it only calls tools.
    pub text: String,
    /// The tools that it wants called, in its order.
    pub tool_calls: Vec<ModelCall>,
    /// What the answer cost.
    pub usage: Usage,
    /// Which model of the list answered.
    pub model: String,
    /// Where it answered: scheme, host and port, because the rest of an address may hold a secret.
    pub endpoint: String,
    /// Why it stopped.
    pub finish: Finish,
    /// How many requests it took over all models of the list.
    pub attempts: u32,
}

/// A tool that the model wants called.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelCall {
    /// The model's own id for the call. Where it gave none, or the same one twice, there is none
    /// and the call's own id is told to the model.
    pub id: Option<String>,
    /// The tool, by the name that it was offered under.
    pub name: String,
    /// The arguments, or the text that the model wrote instead of a JSON object.
    pub arguments: Result<Map<String, Value>, String>,
}

/// How many tokens an answer cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens of the question.
    pub input_tokens: u64,
    /// Tokens of the answer.
    pub output_tokens: u64,
    /// Whether the server did not say, so that these are our own guess.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub estimated: bool,
}

/// Why a model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    /// It had said everything.
    Stop,
    /// It waits for the tools it called.
    ToolCalls,
    /// It reached the most that it may say, so that the answer is cut.
    Length,
    /// Its provider held the rest back.
    ContentFilter,
}

/// A piece of an answer as it is made. Live only: what counts is the [`ChatReply`] at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delta<'a> {
    /// More of the text.
    Text(&'a str),
    /// The stream broke and the answer starts over: forget the text so far.
    Reset,
}

/// Who listens to an answer as it is made.
pub type Live<'a> = Option<&'a (dyn Fn(Delta<'_>) + Send + Sync)>;
