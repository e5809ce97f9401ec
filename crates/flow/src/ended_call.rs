//! Records of ended tool calls, as they stand in an answer.

use convoke_engine::{Failure, Outcome};
use convoke_model::{Name, ToolCall, ToolCallFields, ToolCallStatus};
use convoke_tools::ToolReply;
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::assistant::Node;
use crate::calls::{CallInfo, CallReply, CallRequest, Reply};
use crate::nodes::agent::UNNAMED_SERVER;
use crate::turn::Turn;

/// The error of a call whose tool failed without a word.
const WORDLESS: &str = "the tool reported an error and did not say which";

/// A tool call that has ended.
pub(crate) struct EndedCall<'a> {
    pub(crate) id: Uuid,
    /// The tool, as the app names it.
    pub(crate) tool: &'a str,
    /// The data domain that it queries.
    pub(crate) domain: Option<Name>,
    pub(crate) arguments: Map<String, Value>,
    pub(crate) started_at: Timestamp,
}

/// The reply of a tool, or why there is none. `None` if the outcome is of another kind.
pub(crate) fn tool_outcome(outcome: &Outcome<Reply>) -> Option<Result<&ToolReply, &Failure>> {
    match outcome {
        Outcome::Done(Reply(CallReply::Tool(reply))) => Some(Ok(reply)),
        Outcome::Done(_) => None,
        Outcome::Failed(failure) => Some(Err(failure)),
    }
}

/// Adds the call that has just returned to the task's record, if it is a call of a tool.
pub(crate) fn record_returned(
    turn: &mut Turn<'_>,
    info: CallInfo,
    outcome: Result<&ToolReply, &Failure>,
) {
    let Some(CallRequest::Tool(made)) = turn.view.returned.map(|call| call.request.0.innermost())
    else {
        return;
    };
    let queries = &turn.state.domain_calls;
    let domain = made
        .index
        .filter(|_| turn.state.node == Node::Inquire)
        .and_then(|place| queries.get(place))
        .map(|query| query.domain.clone());
    let ended = EndedCall {
        id: info.call,
        tool: &made.tool,
        domain,
        arguments: (*made.arguments).clone(),
        started_at: info.started_at,
    };
    record(turn, ended, outcome);
}

/// Adds an ended call to the task's record, with its result or why there is none.
pub(crate) fn record(
    turn: &mut Turn<'_>,
    ended: EndedCall<'_>,
    outcome: Result<&ToolReply, &Failure>,
) {
    // A call that reached no server has only the name under which the app calls the tool.
    let (named, tool) = ended.tool.split_once('.').unwrap_or(("", ended.tool));
    let server = outcome.map_or("", |reply| reply.server.as_str());
    let mut servers = [server, named, UNNAMED_SERVER].into_iter();
    let Some(server) = servers.find_map(|name| Name::new(name).ok()) else {
        return;
    };
    let (status, result, error) = match outcome {
        Ok(reply) if reply.is_error => {
            let said = Some(reply.text.clone()).filter(|text| !text.trim().is_empty());
            let error = said.unwrap_or_else(|| WORDLESS.to_owned());
            (ToolCallStatus::Failed, None, Some(error))
        }
        Ok(reply) if reply.content.is_null() => (ToolCallStatus::Completed, Some(json!({})), None),
        Ok(reply) => (ToolCallStatus::Completed, Some(reply.content.clone()), None),
        Err(failure) => {
            let status = if failure.is_timeout() {
                ToolCallStatus::Timeout
            } else {
                ToolCallStatus::Failed
            };
            (status, None, Some(failure.message.clone()))
        }
    };
    let schema_mismatch = outcome.ok().and_then(|reply| reply.schema_mismatch.clone());
    let duration = turn.view.at.duration_since(ended.started_at).as_millis();
    let call = ToolCall::new(ToolCallFields {
        id: ended.id,
        model_call_id: None,
        server,
        tool: tool.to_owned(),
        domain: ended.domain,
        arguments: ended.arguments,
        schema_mismatch: schema_mismatch.filter(|_| status == ToolCallStatus::Completed),
        status,
        result,
        error,
        started_at: Some(ended.started_at),
        completed_at: Some(turn.view.at),
        duration_ms: u64::try_from(duration).ok(),
    });
    match call {
        Ok(call) => turn.state.tool_calls.push(call),
        Err(error) => tracing::warn!(%error, "an ended call could not be recorded"),
    }
}
