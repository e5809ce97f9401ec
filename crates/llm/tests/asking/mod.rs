//! Shared helpers of the client's tests.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::sync::Arc;
use std::time::Duration;

use convoke_llm::{ChatReply, ChatRequest, LlmError, ModelClient, Options, ToolSpec};
use convoke_model::{Jitter, LlmConfig, Message};
use convoke_testkit::{Script, ScriptedModel, SimClock};
use jiff::Timestamp;
use serde_json::{Value, json};

/// A key that must never be shown.
pub(crate) const KEY: &str = "sk-very-secret-0123456789";

/// Options with minimal pauses between attempts.
pub(crate) fn options() -> Options {
    Options {
        backoff_first: Duration::from_millis(1),
        backoff_longest: Duration::from_millis(2),
        jitter: Jitter::new(|| 0.0),
        clock: Arc::new(SimClock::new()),
        ..Options::default()
    }
}

pub(crate) async fn scripted(script: impl Into<Script>) -> ScriptedModel {
    ScriptedModel::start(script).await.unwrap()
}

pub(crate) fn model(server: &ScriptedModel, name: &str) -> LlmConfig {
    let config = json!({"endpoint": server.endpoint(), "model": name, "api_key": KEY});
    serde_json::from_value(config).unwrap()
}

pub(crate) fn hello() -> Vec<Message> {
    vec![Message::user("Hello", Timestamp::UNIX_EPOCH).unwrap()]
}

pub(crate) fn add() -> ToolSpec {
    ToolSpec::new(
        "add",
        "Adds two numbers.",
        json!({"type": "object", "properties": {"a": {"type": "integer"}}}),
    )
}

/// Sends one request to one server with these options.
pub(crate) async fn ask_with(
    options: Options,
    server: &ScriptedModel,
    stream: bool,
) -> Result<ChatReply, LlmError> {
    let (models, messages, tools) = ([model(server, "m")], hello(), [add()]);
    let request = ChatRequest {
        tools: &tools,
        stream,
        ..ChatRequest::new(&models, &messages)
    };
    ModelClient::new(options).complete(&request, None).await
}

/// Sends one request to one server.
pub(crate) async fn ask(server: &ScriptedModel) -> Result<ChatReply, LlmError> {
    ask_with(options(), server, false).await
}

/// A whole answer with one message.
pub(crate) fn answer(message: &Value) -> Value {
    json!({
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 2},
    })
}

/// A stream event with this delta.
pub(crate) fn event(delta: &Value) -> String {
    format!(
        "data: {}\n\n",
        json!({"choices": [{"index": 0, "delta": delta, "finish_reason": null}]})
    )
}

/// A stream event with a reason to stop.
pub(crate) fn stop(reason: &str) -> String {
    format!(
        "data: {}\n\n",
        json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
    )
}

/// The end mark of a stream.
pub(crate) const DONE: &str = "data: [DONE]\n\n";
