//! Fallback tools: another tool in place of one that failed and certainly changed nothing. The same for the calls of agents,
//! skills, workflows and data domains. A call carries the attempts that it takes the place of, so whoever takes its outcome
//! can tell of them.

use std::fmt::Write as _;

use convoke_engine::{Failure, NewCall, Outcome, Step};
use convoke_model::ErrorType;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::assistant::{Assistant, Node};
use crate::calls::{
    CallRequest, NodeAction, Reply, Request, ReturnedCall, ToolCallRequest, may_be_replaced,
};
use crate::ended_call::{record_returned, tool_outcome};
use crate::nodes::{act, agent, graph, inquire};
use crate::turn::Turn;

/// An attempt in whose place another tool is called.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FailedAttempt {
    pub(crate) call: Uuid,
    /// The tool, as the app names it.
    pub(crate) tool: String,
    /// Why it gave nothing.
    pub(crate) error: String,
}

/// What a node grants the call of a fallback tool.
pub(crate) struct Grant {
    /// Its deadline, in milliseconds from when the task was accepted.
    pub(crate) until_ms: Option<u64>,
}

/// The call of the next fallback tool, if a call has just failed that certainly changed nothing, its tool has one more, and
/// the node still grants a call. The failed attempt is added to the task's record of calls.
pub(crate) fn next_attempt(turn: &mut Turn<'_>, returned: &ReturnedCall) -> Option<Step<Request>> {
    let call = turn.view.returned?;
    let CallRequest::Tool(made) = call.request.0.innermost() else {
        return None;
    };
    let error = error_of(&returned.outcome)?;
    if is_correctable(&returned.outcome) || !may_be_replaced(&call.request.0, &returned.outcome) {
        return None;
    }
    let tool = next_tool(turn.assistant, made)?;
    let grant = grant(turn, returned, &call.request.0, made, &tool)?;
    if let Some(outcome) = tool_outcome(&returned.outcome) {
        record_returned(turn, returned.info, outcome);
    }
    let mut attempts = made.attempts.clone();
    attempts.push(FailedAttempt {
        call: returned.info.call,
        tool: made.tool.clone(),
        error,
    });
    let next = CallRequest::Tool(ToolCallRequest {
        tool: tool.clone(),
        until_ms: grant.until_ms,
        delay_ms: 0,
        attempts,
        ..made.clone()
    });
    let call = match &call.request.0 {
        CallRequest::At(at) => NewCall {
            label: format!("{}: {tool}", at.node),
            approval: graph::approval(turn, &at.node, &next),
            request: Request(CallRequest::At(NodeAction {
                delay_ms: 0,
                request: Box::new(next),
                ..at.clone()
            })),
        },
        _ => NewCall {
            approval: act::approval(turn, &tool, &made.arguments),
            label: tool,
            request: Request(next),
        },
    };
    Some(Step {
        calls: vec![call],
        ..Step::default()
    })
}

/// Why a call gave nothing. `None` if it succeeded.
fn error_of(outcome: &Outcome<Reply>) -> Option<String> {
    match tool_outcome(outcome)? {
        Ok(reply) => reply.is_error.then(|| reply.text.clone()),
        Err(failure) => Some(failure.cause()),
    }
}

/// Whether the arguments do not fit. Another tool would get the same, and a model can correct them.
fn is_correctable(outcome: &Outcome<Reply>) -> bool {
    let malformed = |code: &str| ErrorType::of(code, true) == ErrorType::ValidationError;
    matches!(outcome, Outcome::Failed(failure) if malformed(&failure.code))
}

/// The next fallback of the tool that was called first.
fn next_tool(assistant: &Assistant, made: &ToolCallRequest) -> Option<String> {
    let first = made.attempts.first();
    let first = first.map_or(&made.tool, |attempt| &attempt.tool);
    let settings = assistant.tool_settings(first).next()?;
    settings.fallback_tools.get(made.attempts.len()).cloned()
}

/// What the node that made a call grants the next one. `None` if it may make no further call.
fn grant(
    turn: &mut Turn<'_>,
    returned: &ReturnedCall,
    request: &CallRequest,
    made: &ToolCallRequest,
    tool: &str,
) -> Option<Grant> {
    match turn.state.node {
        Node::Act | Node::Resolve => Some(Grant { until_ms: None }),
        Node::Agent => agent::grant_fallback(turn, returned.info, made),
        Node::Graph => graph::grant_fallback(turn, request.node()?),
        Node::Inquire => inquire::grant_fallback(turn, made, tool),
        Node::Decide | Node::Route | Node::Dispatch | Node::Aggregate => None,
    }
}

/// The attempts in whose place the call was made that has just returned.
pub(crate) fn earlier_attempts<'a>(turn: &Turn<'a>) -> &'a [FailedAttempt] {
    match turn.view.returned.map(|call| call.request.0.innermost()) {
        Some(CallRequest::Tool(made)) => &made.attempts,
        _ => &[],
    }
}

/// A cause with those of the attempts before it.
pub(crate) fn with_attempts(mut cause: String, attempts: &[FailedAttempt]) -> String {
    if !attempts.is_empty() {
        let _ = write!(cause, " ({})", told(attempts));
    }
    cause
}

/// The failure of the last attempt, with those before it.
pub(crate) fn failure_after(failure: Failure, attempts: &[FailedAttempt]) -> Failure {
    Failure {
        message: with_attempts(failure.message, attempts),
        ..failure
    }
}

/// Attempts in words.
pub(crate) fn told(attempts: &[FailedAttempt]) -> String {
    let each = attempts
        .iter()
        .map(|attempt| format!("{} failed before: {}", attempt.tool, attempt.error));
    each.collect::<Vec<_>>().join("; ")
}
