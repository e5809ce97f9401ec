//! Reading the messages of a server that may not keep to the protocol.

use rmcp::model::{ErrorCode, ErrorData, JsonRpcMessage, RequestId, ServerJsonRpcMessage};
use serde_json::Value;

/// A message, or nothing where the text is none of ours to understand.
///
/// An answer that cannot be read becomes an error under the request's id: its caller would
/// otherwise wait for it until the timeout.
pub(crate) fn read(server: &str, text: &[u8]) -> Option<ServerJsonRpcMessage> {
    let problem = match serde_json::from_slice(text) {
        Ok(message) => return Some(message),
        Err(problem) => problem,
    };
    let answer = serde_json::from_slice::<Value>(text)
        .ok()
        .and_then(|value| {
            let answered = value.get("result").is_some() || value.get("error").is_some();
            let id: RequestId = serde_json::from_value(value.get("id")?.clone()).ok()?;
            answered.then_some(id)
        });
    let Some(id) = answer else {
        tracing::debug!(server, bytes = text.len(), "skipped what is no MCP message");
        return None;
    };
    let words = format!("the server's answer could not be read: {problem}");
    let error = ErrorData::new(ErrorCode::INTERNAL_ERROR, words, None);
    Some(JsonRpcMessage::error(error, Some(id)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_prints_besides_messages_is_skipped() {
        assert!(read("s", b"Listening on port 3000").is_none());
        assert!(read("s", b"{\"level\": \"info\"}").is_none());
        assert!(read("s", b"").is_none());
    }

    #[test]
    fn an_unreadable_answer_reaches_its_caller() {
        let message = read(
            "s",
            br#"{"jsonrpc": "2.0", "id": 7, "error": {"text": "no code"}}"#,
        );
        let Some(JsonRpcMessage::Error(error)) = message else {
            panic!("{message:?}")
        };
        assert_eq!(error.id, Some(RequestId::Number(7)));
    }

    #[test]
    fn an_answer_is_read() {
        let message = read("s", br#"{"jsonrpc": "2.0", "id": 7, "result": {}}"#);
        assert!(
            matches!(message, Some(JsonRpcMessage::Response(_))),
            "{message:?}"
        );
    }
}
