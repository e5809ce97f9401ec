//! Executes the tool calls of a thought: resolves each against the agent's tools, makes them in parallel, and records
//! the results in order.

use std::fmt::Write as _;
use std::sync::Arc;

use convoke_engine::{FailureKind, Messages, NewCall, Outcome, Step, View};
use convoke_model::{AgentFields, Message, MessageFields, Name, Role, ToolCall, ToolCallStatus};
use convoke_tools::Arguments;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::transcript::{Thought, ThoughtCall};
use super::{Phase, internal_message, sub_agents, think};
use crate::approval_question::approval_question;
use crate::assistant::Assistant;
use crate::calls::{
    CallInfo, CallReply, CallRequest, Reply, Request, ReturnedCall, ToolCallRequest, is_default,
};
use crate::fallback::{Grant, earlier_attempts, told};
use crate::nodes::compose;
use crate::turn::Turn;

/// Placeholder server for tools that the agent lists without one.
pub(crate) const UNNAMED_SERVER: &str = "tools";

/// Result of a call that exceeds the budget.
const NO_MORE: &str = "The call was not made: the task's budget of tool calls is used up.";

/// A call of the last thought.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct RequestedCall {
    /// The id that the result message refers to.
    pub(crate) id: String,
    /// The tool, as the agent lists it.
    pub(crate) tool: String,
    /// Whether a person changed the arguments.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) modified: bool,
    /// The call of a fallback tool that gave the result, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) fallback: Option<FallbackCall>,
    /// How the result does not fit the tool's output schema.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) schema_mismatch: Option<String>,
    /// The result as text for the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) result: Option<String>,
    /// Whether it succeeded. Absent in tasks of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) status: Option<ToolCallStatus>,
}

/// The call of a fallback tool, in place of the one that the model requested.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct FallbackCall {
    call: Uuid,
    tool: String,
    started_at: Timestamp,
    /// What the model is told of it, after the result.
    note: String,
    /// The calls in whose place it was made.
    attempts: Vec<Uuid>,
}

/// Starts the calls of a thought. A call that cannot be made gets an error result, so that the model sees why.
pub(crate) fn call(turn: &mut Turn<'_>, agent: &AgentFields, thought: Thought) -> Step<Request> {
    let mut requested_calls = Vec::new();
    let mut calls = Vec::new();
    let mut records = Vec::new();
    let number = thought.calls.len();
    let is_child = |called: &&ThoughtCall| sub_agents::find(agent, &called.name).is_some();
    let children = thought.calls.iter().filter(is_child).count();
    let mut left = turn
        .state
        .run
        .as_deref()
        .map_or(0, |run| run.spent.tool_calls_left(&run.may_spend(agent)));
    let allowed = left;
    for called in thought.calls {
        let effect_id = turn.view.call_id(calls.len());
        let found = match sub_agents::find(agent, &called.name) {
            Some(other) => Ok(other),
            None => find(agent, &called.name).map(str::to_owned),
        };
        let (tool, arguments, result) = match (found, called.arguments) {
            (Err(complaint), arguments) => {
                (called.name, arguments.unwrap_or_default(), Some(complaint))
            }
            (Ok(tool), Err(raw)) => {
                let complaint = format!("The arguments are not a JSON object: {raw}");
                (tool, Map::new(), Some(complaint))
            }
            (Ok(tool), Ok(arguments)) if sub_agents::named(&tool).is_some() => {
                (tool, arguments, None)
            }
            (Ok(tool), Ok(arguments)) => match left.checked_sub(1) {
                None => (tool, arguments, Some(NO_MORE.to_owned())),
                Some(fewer) => {
                    left = fewer;
                    (tool, arguments, None)
                }
            },
        };
        // Calls that are not made get ids after those of the calls that are.
        let id = match result {
            None => effect_id,
            Some(_) => turn.view.call_id(number + requested_calls.len()),
        };
        records.extend(call_record(called.id.as_deref(), &tool, id, &arguments));
        if result.is_none() {
            calls.push(new_call(
                turn,
                agent,
                &tool,
                Arc::new(arguments),
                requested_calls.len(),
                children,
            ));
        }
        let answered_by = called.id.unwrap_or_else(|| id.to_string());
        requested_calls.push(RequestedCall {
            id: answered_by,
            tool,
            modified: false,
            fallback: None,
            schema_mismatch: None,
            status: result.is_some().then_some(ToolCallStatus::Failed),
            result: result.map(|complaint| failure_text(&complaint)),
        });
    }
    let Ok(message) = Message::calling(thought.text, records, turn.view.at) else {
        return compose::fail(turn, "the model called no tool that can be named");
    };
    if let Some(run) = turn.state.run.as_mut() {
        run.iterations += 1;
        run.spent.tool_calls += allowed - left;
        run.tool_calls = requested_calls;
    }
    if calls.is_empty() {
        let mut messages = vec![message];
        messages.extend(results(turn));
        return go_on(turn, messages);
    }
    Step {
        messages: vec![internal_message(message)],
        calls,
        ..Step::default()
    }
}

/// Records the result of one call, and continues when all calls have results.
pub(crate) fn take_result(
    turn: &mut Turn<'_>,
    returned: ReturnedCall,
    index: Option<usize>,
    arguments: &Arguments,
    is_child: bool,
) -> Step<Request> {
    let (outcome, info) = (returned.outcome, returned.info);
    note_person(turn, info, index, arguments);
    let attempts = earlier_attempts(turn);
    let known = turn.state.run.as_mut().zip(index).and_then(|(run, index)| {
        let requested_call = run.tool_calls.get_mut(index)?;
        Some((&mut run.spent, requested_call))
    });
    let Some((spent, requested_call)) = known else {
        return compose::fail(turn, "a result belongs to no call of the agent");
    };
    if let (true, Outcome::Done(Reply(CallReply::Tool(reply)))) = (is_child, &outcome) {
        spent.add_child(reply);
    }
    let schema_mismatch = match &outcome {
        Outcome::Done(Reply(CallReply::Tool(reply))) => reply.schema_mismatch.clone(),
        _ => None,
    };
    let (mut text, status) = result_text(outcome);
    if let (Some(mismatch), ToolCallStatus::Completed) = (&schema_mismatch, status) {
        let note = "\nThe result does not fit what the tool declares:";
        let _ = write!(text, "{note} {mismatch}. The call was made all the same.");
    }
    if requested_call.modified {
        // Without the note, the model would report its own arguments instead of the ones used.
        let note = format!("\nA person changed the arguments to {}.", json!(arguments));
        text.push_str(&note);
    }
    requested_call.schema_mismatch = schema_mismatch;
    if let (false, Some(tool)) = (attempts.is_empty(), returned_tool(&turn.view)) {
        let note = format!("\n({}. This is from {tool}.)", told(attempts));
        text.push_str(&note);
        requested_call.fallback = Some(FallbackCall {
            call: info.call,
            tool: tool.to_owned(),
            started_at: info.started_at,
            note,
            attempts: attempts.iter().map(|attempt| attempt.call).collect(),
        });
    }
    requested_call.result = Some(text);
    requested_call.status = Some(status);
    if let Some(run) = turn.state.run.as_ref()
        && run
            .tool_calls
            .iter()
            .any(|requested_call| requested_call.result.is_none())
    {
        return Step::default();
    }
    let messages = results(turn);
    go_on(turn, messages)
}

/// Grants a fallback tool in place of a call, within the budget.
pub(crate) fn grant_fallback(
    turn: &mut Turn<'_>,
    info: CallInfo,
    made: &ToolCallRequest,
) -> Option<Grant> {
    let agent = super::agent_of(turn)?;
    note_person(turn, info, made.index, &made.arguments);
    let run = turn.state.run.as_mut()?;
    if run.spent.tool_calls_left(&run.may_spend(agent)) == 0 {
        return None;
    }
    run.spent.tool_calls += 1;
    Some(Grant {
        until_ms: Some(run.until_ms),
    })
}

/// Takes into account what a person did about a call: time spent waiting for them does not count against the agent's limit,
/// and they may have changed the arguments.
fn note_person(
    turn: &mut Turn<'_>,
    info: CallInfo,
    index: Option<usize>,
    arguments: &Map<String, Value>,
) {
    let since = turn.since_accepted_ms(info.started_at);
    let requested = index.and_then(|index| requested_arguments(turn.view.messages, index));
    let (Some(index), Some(agent)) = (index, super::agent_of(turn)) else {
        return;
    };
    let (assistant, run) = (turn.assistant, turn.state.run.as_mut());
    let Some((run, tool)) = run.and_then(|run| {
        let tool = run.tool_calls.get(index)?.tool.clone();
        Some((run, tool))
    }) else {
        return;
    };
    // A person may have changed the arguments to ones that need no approval.
    let needed = |arguments| assistant.needs_approval(&tool, arguments);
    if needed(arguments) || requested.is_some_and(needed) {
        run.until_ms = since + assistant.app.agent_time_ms(agent);
    }
    if let Some(requested_call) = run.tool_calls.get_mut(index) {
        requested_call.modified |= requested.is_some_and(|requested| requested != arguments);
    }
}

/// The tool whose call has just returned.
fn returned_tool<'a>(view: &View<'a, Request>) -> Option<&'a str> {
    match &view.returned?.request.0 {
        CallRequest::Tool(made) => Some(&made.tool),
        _ => None,
    }
}

/// The arguments that the model requested for a call of its last thought.
fn requested_arguments(messages: &Messages, index: usize) -> Option<&Map<String, Value>> {
    let calls = messages
        .iter()
        .rev()
        .map(|message| &message.tool_calls)
        .find(|calls| !calls.is_empty())?;
    calls.get(index).map(|call| &call.arguments)
}

/// Requests the next thought, or the conclusion if no more tool calls are allowed.
fn go_on(turn: &mut Turn<'_>, messages: Vec<Message>) -> Step<Request> {
    let agent = super::agent_of(turn);
    if let (Some(run), Some(agent)) = (turn.state.run.as_mut(), agent) {
        let is_enough = run.iterations >= run.pattern_override.max_iterations(agent)
            || run.spent.tool_calls_left(&run.may_spend(agent)) == 0;
        run.phase = if is_enough {
            Phase::Conclude
        } else {
            Phase::Think
        };
    }
    think(turn, messages)
}

/// Result messages in the order of the calls.
fn results(turn: &mut Turn<'_>) -> Vec<Message> {
    let requested_calls = turn
        .state
        .run
        .as_mut()
        .map(|run| std::mem::take(&mut run.tool_calls));
    requested_calls
        .unwrap_or_default()
        .into_iter()
        .filter_map(|requested_call| result_of(requested_call, turn.view.at))
        .collect()
}

/// Metadata key of a tool message for the status of its call.
const STATUS: &str = "status";

/// Metadata key of a tool message for the call of a fallback tool that gave the result.
const FALLBACK: &str = "fallback";

/// Metadata key of a tool message for how the result does not fit the tool's output schema.
const SCHEMA_MISMATCH: &str = "schema_mismatch";

fn result_of(requested_call: RequestedCall, at: Timestamp) -> Option<Message> {
    let text = requested_call
        .result
        .filter(|text| !text.trim().is_empty())
        .unwrap_or_else(|| "(nothing)".into());
    let mut fields = MessageFields::draft(Role::Tool, text, at);
    fields.tool_call_id = Some(requested_call.id);
    if let Some(status) = requested_call.status {
        fields.metadata.insert(STATUS.into(), json!(status));
    }
    if let Some(fallback) = requested_call.fallback {
        fields.metadata.insert(FALLBACK.into(), json!(fallback));
    }
    if let Some(mismatch) = requested_call.schema_mismatch {
        fields
            .metadata
            .insert(SCHEMA_MISMATCH.into(), json!(mismatch));
    }
    Message::new(fields).ok()
}

/// Resolves the name that a model wrote to a tool of the agent. A wrong server is corrected if exactly one of the
/// agent's tools has the name; other unknown tools are an error.
fn find<'a>(agent: &'a AgentFields, name: &str) -> Result<&'a str, String> {
    let dotted = name.replace("__", ".");
    if let Some(tool) = agent
        .tools
        .iter()
        .find(|tool| **tool == dotted || **tool == *name)
    {
        return Ok(tool);
    }
    let wanted = bare(&dotted);
    let fitting: Vec<&String> = agent
        .tools
        .iter()
        .filter(|tool| bare(tool) == wanted)
        .collect();
    match fitting.as_slice() {
        [only] => Ok(only),
        [] => Err(format!(
            "There is no tool `{name}` for you. You can call: {}.",
            agent.tools.join(", ")
        )),
        several => {
            let names: Vec<_> = several.iter().map(|tool| tool.as_str()).collect();
            Err(format!(
                "`{name}` may be one of several tools; call one of: {}.",
                names.join(", ")
            ))
        }
    }
}

/// A tool's name without its server.
fn bare(tool: &str) -> &str {
    tool.rsplit('.').next().unwrap_or_default()
}

fn new_call(
    turn: &Turn<'_>,
    agent: &AgentFields,
    tool: &str,
    arguments: Arguments,
    index: usize,
    children: usize,
) -> NewCall<Request> {
    let run = turn.state.run.as_deref();
    let until_ms = run.map(|run| run.until_ms);
    if let Some(name) = sub_agents::named(tool) {
        let children = u32::try_from(children).unwrap_or(u32::MAX);
        let allowance = run.map(|run| run.may_spend(agent).share(&run.spent, children));
        return sub_agents::call(name, arguments, index, allowance, until_ms);
    }
    let approval = approval(turn.assistant, tool, &arguments);
    NewCall {
        label: tool.to_owned(),
        request: Request(CallRequest::Tool(ToolCallRequest {
            tool: tool.to_owned(),
            arguments,
            index: Some(index),
            until_ms,
            delay_ms: 0,
            is_query: false,
            attempts: Vec::new(),
        })),
        approval,
    }
}

/// The approval question for a call, if it needs one.
pub(crate) fn approval(assistant: &Assistant, tool: &str, arguments: &Arguments) -> Option<String> {
    let needed = assistant.needs_approval(tool, arguments);
    needed.then(|| approval_question(assistant, tool, arguments))
}

/// A tool's server and name, for a record. Every call is recorded, even with an invalid name, because its result is.
fn server_and_name(tool: &str) -> Option<(Name, &str)> {
    let named = tool
        .split_once('.')
        .and_then(|(server, name)| Some((Name::new(server).ok()?, name)))
        .filter(|(_, name)| !name.trim().is_empty());
    named.or_else(|| Some((Name::new(UNNAMED_SERVER).ok()?, tool)))
}

fn call_record(
    model_call_id: Option<&str>,
    tool: &str,
    id: Uuid,
    arguments: &Map<String, Value>,
) -> Option<ToolCall> {
    let (server, name) = server_and_name(tool)?;
    let call = ToolCall::pending(id, server, name, arguments.clone()).ok()?;
    call.with(|fields| fields.model_call_id = model_call_id.map(str::to_owned))
        .ok()
}

/// An outcome as text for the model, and its status.
fn result_text(outcome: Outcome<Reply>) -> (String, ToolCallStatus) {
    let failed = |words: &str| (failure_text(words), ToolCallStatus::Failed);
    match outcome {
        Outcome::Done(Reply(CallReply::Tool(reply))) => {
            let text = if reply.text.is_empty() {
                reply.content.to_string()
            } else {
                reply.text
            };
            if reply.is_error {
                failed(&text)
            } else {
                (text, ToolCallStatus::Completed)
            }
        }
        Outcome::Done(_) => failed("the call returned another kind of reply"),
        Outcome::Failed(failure) if failure.kind == FailureKind::Unknown => failed(&format!(
            "It is not known whether the call took effect: {}",
            failure.message
        )),
        Outcome::Failed(failure) => failed(&failure.message),
    }
}

/// Prefix of an error result.
const FAILED: &str = "Error: ";

/// A failure as text for the model.
fn failure_text(words: &str) -> String {
    format!("{FAILED}{words}")
}

/// The tool calls in a transcript, with their results. Models reuse ids, so results are matched by position: they
/// follow the message with the calls, in the same order. Each follows the recorded attempts in whose place it was made.
pub(crate) fn calls_of<'a>(
    mut messages: impl Iterator<Item = &'a Message> + Clone,
    attempts: Vec<ToolCall>,
) -> Vec<ToolCall> {
    let (mut calls, mut left) = (Vec::new(), attempts);
    while let Some(message) = messages.next() {
        let mut results = messages
            .clone()
            .take_while(|result| result.role == Role::Tool);
        for call in &message.tool_calls {
            let result = results.next();
            if let Some(fallback) = result.and_then(fallback_of) {
                let earlier = |attempt: &mut ToolCall| fallback.attempts.contains(&attempt.id);
                calls.extend(left.extract_if(.., earlier));
            }
            let ended = result.and_then(|result| ended_call(call, message.timestamp?, result));
            calls.push(ended.unwrap_or_else(|| call.clone()));
        }
    }
    // Those of calls that have no result, because the run ended before.
    calls.extend(left);
    calls
}

/// The call of a fallback tool that gave a result.
fn fallback_of(result: &Message) -> Option<FallbackCall> {
    FallbackCall::deserialize(result.metadata.get(FALLBACK)?).ok()
}

/// A call of a transcript with its result. What a fallback tool gave is that tool's.
fn ended_call(call: &ToolCall, called_at: Timestamp, result: &Message) -> Option<ToolCall> {
    let at = result.timestamp?;
    let fallback = fallback_of(result);
    let mut text = result.content.as_str();
    let mut call = call.clone();
    let mut started_at = called_at;
    if let Some(FallbackCall {
        call: id,
        tool,
        started_at: started,
        note,
        ..
    }) = &fallback
    {
        let (server, name) = server_and_name(tool)?;
        let name = name.to_owned();
        let changed = call.with(|fields| {
            fields.id = *id;
            fields.server = server;
            fields.tool = name;
        });
        call = changed.ok()?;
        started_at = *started;
        text = text.strip_suffix(note.as_str()).unwrap_or(text);
    }
    let call = call.start(started_at).ok()?;
    if has_failed(result) {
        let words = text.strip_prefix(FAILED);
        return call.fail(words.unwrap_or(text), at).ok();
    }
    let ended = call.complete(Value::String(text.to_owned()), at).ok()?;
    let mismatch = result.metadata.get(SCHEMA_MISMATCH);
    let mismatch = mismatch.and_then(Value::as_str).map(str::to_owned);
    ended.with(|fields| fields.schema_mismatch = mismatch).ok()
}

/// Whether a result is a failure. Messages of older versions show it only by their prefix.
fn has_failed(result: &Message) -> bool {
    match result.metadata.get(STATUS).map(ToolCallStatus::deserialize) {
        Some(Ok(status)) => status == ToolCallStatus::Failed,
        Some(Err(_)) | None => result.content.starts_with(FAILED),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Timestamp = Timestamp::UNIX_EPOCH;

    /// The statuses of the calls in a transcript with these results.
    fn statuses(results: &[Value]) -> Vec<ToolCallStatus> {
        let calls = results.iter().enumerate().map(|(index, _)| {
            let id = Uuid::from_u128(index as u128 + 1);
            ToolCall::pending(id, Name::new("files").unwrap(), "look", Map::new()).unwrap()
        });
        let calling = Message::calling("", calls.collect(), AT).unwrap();
        let results = results.iter().map(|result| {
            let call = serde_json::from_value(result.clone()).unwrap();
            result_of(call, AT).unwrap()
        });
        let messages: Vec<_> = std::iter::once(calling).chain(results).collect();
        let calls = calls_of(messages.iter(), Vec::new());
        calls.iter().map(|call| call.status).collect()
    }

    #[test]
    fn results_of_older_versions_are_judged_by_their_text() {
        let results = [
            json!({ "id": "a", "tool": "files.look", "result": "Error: there is no such file" }),
            json!({ "id": "b", "tool": "files.look", "result": "a file" }),
        ];
        let expected = [ToolCallStatus::Failed, ToolCallStatus::Completed];
        assert_eq!(statuses(&results), expected);
    }

    #[test]
    fn a_result_with_a_status_is_not_judged_by_its_text() {
        let results = [
            json!({ "id": "a", "tool": "files.look", "result": "Error: 0", "status": "completed" }),
            json!({ "id": "b", "tool": "files.look", "result": "none", "status": "failed" }),
        ];
        let expected = [ToolCallStatus::Completed, ToolCallStatus::Failed];
        assert_eq!(statuses(&results), expected);
    }
}
