//! A tool call's request and reply.

use std::time::Duration;

use convoke_telemetry::TraceContext;
use rmcp::model::{CallToolResult, ContentBlock};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::transport::MessageLimits;

/// The key of the idempotency key in the call's `_meta`.
pub const IDEMPOTENCY_KEY: &str = "idempotencyKey";

/// One call of a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolRequest {
    pub server: String,
    /// The tool's name on that server.
    pub tool: String,
    /// The caller's arguments. Values for injected names are ignored.
    pub arguments: Map<String, Value>,
    /// Arguments filled in by the engine, sent if the tool has an argument of that name.
    pub injected: Map<String, Value>,
    /// Identifies the effect: a server that honours it answers a repeated call with the first result.
    pub idempotency_key: String,
    /// Time limit including connecting; `call_timeout` of the options if absent.
    pub timeout: Option<Duration>,
    /// The span of the call, if it belongs to a trace: the server is told, in `_meta` and over HTTP in a header.
    pub trace: Option<TraceContext>,
}

/// A tool's reply.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolReply {
    /// The structured result; else the text parsed as JSON, if it is an object or array within the limit
    /// on values; else `{"text": …}`, with other content under `content`.
    pub content: Value,
    /// The reply's text, for people and models.
    pub text: String,
    /// Whether the tool reports an error.
    pub is_error: bool,
    /// How the result does not fit the output schema that the tool declares.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_mismatch: Option<String>,
}

impl ToolReply {
    pub(crate) fn of(result: CallToolResult, limits: &MessageLimits) -> Self {
        let mut texts = Vec::new();
        let mut others = Vec::new();
        for block in result.content {
            match block {
                ContentBlock::Text(text) => texts.push(text.text),
                other => others.push(other),
            }
        }
        let text = texts.join("\n");
        let content = match result.structured_content {
            Some(content) => content,
            None => unstructured(&text, &others, limits),
        };
        Self {
            content,
            text,
            is_error: result.is_error.unwrap_or(false),
            schema_mismatch: None,
        }
    }
}

fn unstructured(text: &str, others: &[ContentBlock], limits: &MessageLimits) -> Value {
    if !others.is_empty() {
        return json!({"text": text, "content": others});
    }
    if !limits.allow_values_of(text.as_bytes()) {
        return json!({"text": text});
    }
    match serde_json::from_str(text) {
        Ok(value @ (Value::Object(_) | Value::Array(_))) => value,
        _ => json!({"text": text}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(result: Value) -> ToolReply {
        let limits = MessageLimits {
            bytes: 1_000,
            values: 5,
        };
        ToolReply::of(serde_json::from_value(result).unwrap(), &limits)
    }

    #[test]
    fn structured_content_wins_over_text() {
        let reply = reply(json!({
            "content": [{"type": "text", "text": "{\"other\": 1}"}],
            "structuredContent": {"temperature": 21},
        }));
        assert_eq!(reply.content, json!({"temperature": 21}));
        assert_eq!(reply.text, "{\"other\": 1}");
        assert!(!reply.is_error);
    }

    #[test]
    fn text_that_is_an_object_or_array_is_read_as_json() {
        let texts =
            |text: &str| reply(json!({"content": [{"type": "text", "text": text}]})).content;
        assert_eq!(texts("{\"a\": 1}"), json!({"a": 1}));
        assert_eq!(texts("[1, 2]"), json!([1, 2]));
        assert_eq!(texts("[1,2,3,4,5]"), json!({"text": "[1,2,3,4,5]"}));
        assert_eq!(texts("42"), json!({"text": "42"}));
        assert_eq!(texts("Echo: hello"), json!({"text": "Echo: hello"}));
    }

    #[test]
    fn several_texts_become_lines_and_errors_are_marked() {
        let reply = reply(json!({
            "content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}],
            "isError": true,
        }));
        assert_eq!((reply.text.as_str(), reply.is_error), ("one\ntwo", true));
    }

    #[test]
    fn images_are_kept_as_content() {
        let reply = reply(json!({
            "content": [
                {"type": "text", "text": "a picture"},
                {"type": "image", "data": "aGk=", "mimeType": "image/png"},
            ],
        }));
        assert_eq!(reply.content["text"], "a picture");
        assert_eq!(reply.content["content"][0]["data"], "aGk=");
    }
}
