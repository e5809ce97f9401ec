//! The bodies of the fuzz targets `tool_results` and `tool_arguments`.
#![expect(clippy::panic, reason = "fuzz targets fail by panicking")]

use std::sync::{Arc, LazyLock};

use convoke_schema::Limits;
use rmcp::model::{JsonRpcMessage, RequestId, ServerResult};
use serde_json::{Deserializer, Map, Value};
use tokio::runtime::{Builder, Runtime};

use crate::arguments::CheckedTool;
use crate::call::ToolReply;
use crate::error::McpError;
use crate::options::Options;
use crate::tool::{ToolAnnotations, ToolInfo};
use crate::transport::{MessageLimits, wire};

const SERVER: &str = "todo";

/// Runs checks that exceed the inline budget.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| match Builder::new_current_thread().build() {
    Ok(runtime) => runtime,
    Err(error) => panic!("no runtime can be made: {error}"),
});

/// Reads each line as a server's message. No answer may be lost, and every result must become a reply
/// that the journal can store. Says whether there was one.
pub fn tool_results(input: &[u8]) -> bool {
    let limits = MessageLimits::of(&Options::default());
    let mut has_result = false;
    for line in input.split(|byte| *byte == b'\n') {
        let Some(message) = wire::read(SERVER, line, &limits) else {
            assert!(
                !is_answer(line),
                "an answer is lost: {}",
                line.escape_ascii()
            );
            continue;
        };
        let JsonRpcMessage::Response(response) = message else {
            continue;
        };
        match response.result {
            ServerResult::CallToolResult(result) => {
                assert_is_kept(&ToolReply::of(result, &limits));
                has_result = true;
            }
            ServerResult::ListToolsResult(listed) => {
                for tool in listed.tools {
                    check(ToolInfo::of(SERVER, tool), &Map::new(), &Map::new());
                }
            }
            _ => {}
        }
    }
    has_result
}

/// Whether a line is a JSON-RPC answer.
fn is_answer(line: &[u8]) -> bool {
    let Ok(Value::Object(fields)) = serde_json::from_slice(line) else {
        return false;
    };
    let id = fields.get("id").cloned();
    let id = id.and_then(|id| serde_json::from_value::<RequestId>(id).ok());
    id.is_some() && (fields.contains_key("result") || fields.contains_key("error"))
}

fn assert_is_kept(reply: &ToolReply) {
    let kept = serde_json::to_value(reply).map(serde_json::from_value::<ToolReply>);
    match kept {
        Ok(Ok(kept)) => assert_eq!(&kept, reply, "another reply is kept"),
        other => panic!("the reply cannot be kept: {other:?}"),
    }
}

/// Checks arguments against a schema. The input contains the schema, the caller's arguments and the
/// injected ones, each as JSON. Says whether they were accepted.
pub fn tool_arguments(input: &[u8]) -> bool {
    let mut values = Deserializer::from_slice(input).into_iter::<Value>();
    let mut next = || values.next().and_then(Result::ok);
    let Some(schema) = next() else {
        return false;
    };
    let object = |value: Option<Value>| match value {
        Some(Value::Object(fields)) => fields,
        _ => Map::new(),
    };
    let (given, injected) = (object(next()), object(next()));
    let info = ToolInfo {
        server: SERVER.to_owned(),
        name: "add_task".to_owned(),
        description: None,
        input_schema: Arc::new(schema),
        output_schema: None,
        annotations: ToolAnnotations::default(),
    };
    check(info, &given, &injected)
}

/// Sent arguments must contain the injected values and no others under their names, and must be accepted
/// unchanged when checked again.
fn check(info: ToolInfo, given: &Map<String, Value>, injected: &Map<String, Value>) -> bool {
    let tool = CheckedTool::new(info, Limits::default());
    let arguments = || RUNTIME.block_on(tool.arguments(given, injected));
    match arguments() {
        Ok(sent) => {
            for (name, value) in injected {
                let expected = tool.info.takes(name).then_some(value);
                assert_eq!(sent.get(name), expected, "{name} is forged");
            }
            for (name, value) in given {
                assert!(
                    injected.contains_key(name) || sent.get(name) == Some(value),
                    "{name} is changed"
                );
            }
            match arguments() {
                Ok(again) => assert_eq!(again, sent),
                Err(error) => panic!("accepted, then refused: {error}"),
            }
            true
        }
        Err(error) => {
            assert!(matches!(error, McpError::Refused(_)), "{error}");
            assert!(error.had_no_effect() && !error.to_string().is_empty());
            false
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_corpus_message_becomes_a_reply_or_an_error() {
        convoke_testkit::replay("tool_results", super::tool_results);
    }

    #[test]
    fn every_corpus_schema_accepts_or_rejects_arguments() {
        convoke_testkit::replay("tool_arguments", super::tool_arguments);
    }
}
