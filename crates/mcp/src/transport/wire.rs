//! Reads messages of servers that may violate the protocol, within limits.

use std::fmt;

use convoke_schema::ValueCounter;
use rmcp::model::{ErrorCode, ErrorData, JsonRpcMessage, RequestId, ServerJsonRpcMessage};
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;

use crate::options::Options;

/// Local error code for an answer that exceeds the limits. It is never sent.
pub(crate) const TOO_LARGE: ErrorCode = ErrorCode(-1_000_413);

/// Bytes kept of each end of a message that is too large, to find the request it answers.
pub(crate) const END_BYTES: usize = 1024;

/// Limits of a message.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MessageLimits {
    pub(crate) bytes: usize,
    /// Number of JSON values, because a value of two bytes takes many times as much memory.
    pub(crate) values: usize,
}

impl MessageLimits {
    pub(crate) fn of(options: &Options) -> Self {
        Self {
            bytes: options.max_message_bytes,
            values: options.max_message_values,
        }
    }

    pub(crate) fn too_many_bytes(&self) -> String {
        format!(
            "the server sent a message of more than {} bytes",
            self.bytes
        )
    }

    pub(crate) fn too_many_values(&self) -> String {
        format!(
            "the server sent a message of more than {} JSON values",
            self.values
        )
    }

    /// Whether the limit on values allows parsing the text as JSON.
    pub(crate) fn allow_values_of(&self, text: &[u8]) -> bool {
        ValueCounter::count(text) <= self.values
    }
}

/// The members that identify a message, read without keeping the rest. Of duplicate members the last one
/// counts.
#[derive(Default)]
struct Envelope {
    id: Option<RequestId>,
    /// Whether there is a `result` or an `error`, even `null`.
    is_answer: bool,
}

impl<'de> Deserialize<'de> for Envelope {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Envelope;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a message")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Envelope, A::Error> {
                let mut envelope = Envelope::default();
                while let Some(name) = members.next_key::<String>()? {
                    if name == "id" {
                        envelope.id = RequestId::deserialize(members.next_value::<Value>()?).ok();
                    } else {
                        envelope.is_answer |= matches!(name.as_str(), "result" | "error");
                        members.next_value::<IgnoredAny>()?;
                    }
                }
                Ok(envelope)
            }
        }
        deserializer.deserialize_map(Reader)
    }
}

impl Envelope {
    /// The request that a message answers, if it is an answer.
    fn answered(text: &[u8]) -> Option<RequestId> {
        let envelope: Self = serde_json::from_slice(text).ok()?;
        envelope.id.filter(|_| envelope.is_answer)
    }
}

/// The error for a caller whose answer is too large.
pub(crate) fn too_large(id: RequestId, message: String) -> ServerJsonRpcMessage {
    JsonRpcMessage::error(ErrorData::new(TOO_LARGE, message, None), Some(id))
}

/// Parses a message, or returns `None` if it is not one.
///
/// An unreadable answer becomes an error for its request, because the caller would otherwise wait until
/// its timeout.
pub(crate) fn read(
    server: &str,
    text: &[u8],
    limits: &MessageLimits,
) -> Option<ServerJsonRpcMessage> {
    if !limits.allow_values_of(text) {
        let id = Envelope::answered(text);
        if id.is_none() {
            let bytes = text.len();
            tracing::warn!(server, bytes, "skipped a message with too many values");
        }
        return id.map(|id| too_large(id, limits.too_many_values()));
    }
    let problem = match serde_json::from_slice(text) {
        Ok(message) => return Some(message),
        Err(problem) => problem,
    };
    let Some(id) = Envelope::answered(text) else {
        tracing::debug!(
            server,
            bytes = text.len(),
            "skipped output that is not an MCP message"
        );
        return None;
    };
    let message = format!("the server's answer could not be read: {problem}");
    let error = ErrorData::new(ErrorCode::INTERNAL_ERROR, message, None);
    Some(JsonRpcMessage::error(error, Some(id)))
}

/// The request that a truncated answer belongs to. The id is before or after the long part.
pub(crate) fn answered_by_ends(head: &[u8], tail: &[u8]) -> Option<RequestId> {
    id_before(head).or_else(|| id_after(tail))
}

/// An id among the short members at the start of a message.
fn id_before(head: &[u8]) -> Option<RequestId> {
    let mut rest = head.trim_ascii_start().strip_prefix(b"{")?;
    loop {
        let mut members = serde_json::Deserializer::from_slice(rest).into_iter::<String>();
        let name = members.next()?.ok()?;
        rest = rest.get(members.byte_offset()..)?.trim_ascii_start();
        rest = rest.strip_prefix(b":")?;
        let mut values = serde_json::Deserializer::from_slice(rest).into_iter::<Value>();
        let value = values.next()?.ok()?;
        if name == "id" {
            return serde_json::from_value(value).ok();
        }
        rest = rest.get(values.byte_offset()..)?.trim_ascii_start();
        rest = rest.strip_prefix(b",")?;
    }
}

/// An id as the last member of a message.
fn id_after(tail: &[u8]) -> Option<RequestId> {
    const MEMBER: &[u8] = b"\"id\":";
    let body = tail.trim_ascii_end().strip_suffix(b"}")?;
    let at = body
        .windows(MEMBER.len())
        .rposition(|window| window == MEMBER)?;
    serde_json::from_slice(&body[at + MEMBER.len()..]).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: MessageLimits = MessageLimits {
        bytes: 1_000,
        values: 8,
    };

    fn read(text: &[u8]) -> Option<ServerJsonRpcMessage> {
        super::read("s", text, &LIMITS)
    }

    #[test]
    fn output_that_is_not_a_message_is_skipped() {
        assert!(read(b"Listening on port 3000").is_none());
        assert!(read(b"{\"level\": \"info\"}").is_none());
        assert!(read(b"").is_none());
    }

    #[test]
    fn an_unreadable_answer_reaches_its_caller() {
        let message = read(br#"{"jsonrpc": "2.0", "id": 7, "error": {"text": "no code"}}"#);
        let Some(JsonRpcMessage::Error(error)) = message else {
            panic!("{message:?}")
        };
        assert_eq!(error.id, Some(RequestId::Number(7)));
    }

    #[test]
    fn a_null_answer_and_one_with_duplicate_members_reach_their_caller() {
        for text in [
            r#"{"jsonrpc": "1.0", "id": 7, "result": null}"#,
            r#"{"jsonrpc": "2.0", "id": 7, "error": null}"#,
            r#"{"id": 6, "result": 1, "id": 7, "result": 2}"#,
            r#"{"id": [7], "result": 1, "id": 7}"#,
        ] {
            let Some(JsonRpcMessage::Error(error)) = read(text.as_bytes()) else {
                panic!("{text}")
            };
            assert_eq!(error.id, Some(RequestId::Number(7)), "{text}");
        }
        assert!(read(br#"{"id": [7], "result": 1}"#).is_none());
    }

    #[test]
    fn an_answer_is_read() {
        let message = read(br#"{"jsonrpc": "2.0", "id": 7, "result": {}}"#);
        assert!(
            matches!(message, Some(JsonRpcMessage::Response(_))),
            "{message:?}"
        );
    }

    #[test]
    fn an_answer_with_too_many_values_becomes_an_error() {
        let message = read(br#"{"jsonrpc": "2.0", "id": 7, "result": {"n": [0,0,0,0,0,0]}}"#);
        let Some(JsonRpcMessage::Error(error)) = message else {
            panic!("{message:?}")
        };
        assert_eq!(error.id, Some(RequestId::Number(7)));
        assert_eq!(error.error.code, TOO_LARGE);
        let request = br#"{"jsonrpc": "2.0", "id": 7, "method": "x", "params": [0,0,0,0,0,0,0]}"#;
        assert!(read(request).is_none());
    }

    #[test]
    fn the_ends_of_a_message_identify_its_request() {
        let by_ends = |head: &str, tail: &str| answered_by_ends(head.as_bytes(), tail.as_bytes());
        let seven = Some(RequestId::Number(7));
        assert_eq!(
            by_ends(r#"{"jsonrpc":"2.0","id":7,"result":{"a":"#, "xx"),
            seven
        );
        assert_eq!(by_ends(r#"{"id": 7, "result":"#, "xx"), seven);
        assert_eq!(
            by_ends(r#"{"result":{"id":8,"#, r#"x"},"jsonrpc":"2.0","id":7}"#),
            seven
        );
        assert_eq!(
            by_ends(r#"{"result":{"id":8,"#, r#"x"},"id": 7 }  "#),
            seven
        );
        assert_eq!(by_ends(r#"{"result":{"id":8,"#, r#""id":8}}"#), None);
        assert_eq!(by_ends(r#"[{"id":8},"#, r#"x""#), None);
        assert_eq!(by_ends("", ""), None);
    }
}
