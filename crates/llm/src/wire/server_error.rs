//! Interprets error messages of servers.

use std::borrow::Cow;
use std::time::Duration;

use serde_json::Value;

use super::body::Dialect;
use crate::error::{Feature, LlmProblem};
use crate::request::{ChatRequest, Output};

/// Limit of a server's message, in characters.
const MAX_MESSAGE_CHARACTERS: usize = 500;

/// A server's error, from any of the usual formats.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ServerError {
    pub(crate) message: String,
    /// Its type and code, if they are texts.
    kind: String,
    /// The status in the body, which may differ from the HTTP status.
    status: Option<u16>,
}

impl ServerError {
    /// Reads the body of an error response.
    pub(crate) fn read(body: &[u8]) -> Self {
        if let Ok(value) = serde_json::from_slice::<Value>(body) {
            return Self::from_value(value.get("error").unwrap_or(&value));
        }
        let text = String::from_utf8_lossy(body);
        let text = text.trim();
        // An HTML page, usually from a proxy, is not worth passing on.
        let message = if text.starts_with('<') { "" } else { text };
        Self {
            message: truncated(message),
            ..Self::default()
        }
    }

    /// Reads `{"message", "type", "code"}`, `{"detail"}`, or a plain text.
    pub(crate) fn from_value(error: &Value) -> Self {
        let message = [Some(error), error.get("message"), error.get("detail")]
            .into_iter()
            .flatten()
            .find_map(Value::as_str)
            .map_or_else(|| Cow::Owned(error.to_string()), Cow::Borrowed);
        let mut kind = String::new();
        for word in ["type", "code"] {
            if let Some(word) = error.get(word).and_then(Value::as_str) {
                kind.push_str(word);
                kind.push(' ');
            }
        }
        let status = ["code", "status"].into_iter().find_map(|key| {
            let code = error.get(key)?;
            let code = code.as_u64().or_else(|| code.as_str()?.parse().ok())?;
            u16::try_from(code)
                .ok()
                .filter(|code| (400..600).contains(code))
        });
        Self {
            message: truncated(&message),
            kind,
            status,
        }
    }

    /// The status of an error in a successful HTTP response. Without one, the server failed midway,
    /// which is transient.
    pub(crate) fn inner_status(&self) -> u16 {
        self.status.unwrap_or_else(|| {
            if self.kind.contains("rate_limit") {
                429
            } else if self.kind.contains("invalid_request") {
                400
            } else if self.kind.contains("authentication") {
                401
            } else {
                500
            }
        })
    }

    /// The problem for the caller.
    pub(crate) fn problem(
        mut self,
        status: u16,
        retry_after: Option<Duration>,
        request: &ChatRequest<'_>,
    ) -> LlmProblem {
        if self.message.is_empty() {
            "the server gave no details".clone_into(&mut self.message);
        }
        let message = self.message.to_lowercase();
        if matches!(status, 400 | 413 | 422 | 500 | 501) {
            if self.is_too_long(&message) {
                return LlmProblem::TooLong {
                    message: self.message,
                };
            }
            if let Some(feature) = unsupported(&message, request) {
                return LlmProblem::Unsupported {
                    feature,
                    message: self.message,
                };
            }
        }
        // An exhausted quota has status 429, but retrying does not help.
        let spent = self.kind.contains("insufficient_quota");
        if matches!(status, 408 | 409 | 425 | 429 | 500..) && !spent {
            return LlmProblem::Overloaded {
                status,
                message: self.message,
                retry_after,
            };
        }
        LlmProblem::Refused {
            status,
            message: self.message,
        }
    }

    /// Another dialect to try, if the error is about ours.
    pub(crate) fn dialect(&self, status: u16, dialect: Dialect) -> Option<Dialect> {
        if !matches!(status, 400 | 422) {
            return None;
        }
        let message = self.message.to_lowercase();
        let mut other = dialect;
        other.completion_limit |= message.contains("max_completion_tokens");
        other.no_stream_options |= message.contains("stream_options");
        other.no_temperature |= message.contains("temperature")
            && (message.contains("support") || message.contains("deprecated"));
        (other != dialect).then_some(other)
    }

    fn is_too_long(&self, message: &str) -> bool {
        self.kind.contains("context_length")
            || self.kind.contains("exceed_context_size")
            || [
                "context length",
                "context window",
                "context size",
                "maximum context",
                "prompt is too long",
                "too many tokens",
                "input is too long",
            ]
            .iter()
            .any(|words| message.contains(words))
    }
}

/// Whether the error is about structured output or tools, and the request used them.
fn unsupported(message: &str, request: &ChatRequest<'_>) -> Option<Feature> {
    let names = |words: &[&str]| words.iter().any(|word| message.contains(word));
    let structured = matches!(request.output, Output::JsonSchema { .. });
    if structured
        && names(&[
            "response_format",
            "json_schema",
            "structured output",
            "json mode",
            "guided",
            "grammar",
        ])
    {
        return Some(Feature::StructuredOutput);
    }
    let refused = [
        "not support",
        "unsupported",
        "not available",
        "not enabled",
        "requires --",
        "requires \"--",
        "not allowed",
        "unknown field",
        "unrecognized",
        "extra inputs",
    ];
    (!request.tools.is_empty() && names(&["tool", "function"]) && names(&refused))
        .then_some(Feature::Tools)
}

fn truncated(text: &str) -> String {
    match text.char_indices().nth(MAX_MESSAGE_CHARACTERS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
