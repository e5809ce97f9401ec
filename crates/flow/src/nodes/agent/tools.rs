//! The tools that a thought calls: found among those that the agent lists, made in parallel, answered
//! in order.

use std::sync::Arc;

use convoke_engine::{FailureKind, NewCall, Outcome, Step};
use convoke_model::{
    AgentFields, FailureCode, Message, MessageFields, Name, Role, ToolCall, ToolCallStatus,
};
use convoke_tools::Arguments;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::transcript::{Thought, ThoughtCall};
use super::{Phase, sub_agents, think, unspoken};
use crate::assistant::Assistant;
use crate::calls::{
    CallReply, CallRequest, Reply, Request, ReturnedCall, ToolCallRequest, is_default,
    may_be_replaced,
};
use crate::nodes::compose;
use crate::turn::Turn;

/// Stands for the server of a tool that the agent lists by its name alone.
pub(crate) const UNNAMED_SERVER: &str = "tools";

/// What a model is told of a call that its budget does not allow.
const NO_MORE: &str = "The call was not made: the task's budget of tool calls is used up.";

/// A call of the last thought.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct RequestedCall {
    /// What its answer refers to.
    pub(crate) id: String,
    /// The tool, as the agent lists it.
    pub(crate) tool: String,
    /// Whether a person gave it other arguments than the model.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) modified: bool,
    /// How many of the tool's fallbacks were tried.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) fallbacks: usize,
    /// What came of it, in words for the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) result: Option<String>,
    /// Whether that is a result or a failure. Tasks of older versions do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) status: Option<ToolCallStatus>,
}

/// Begins the calls of a thought. What cannot be called is answered at once, so that the model sees
/// why.
pub(crate) fn call(turn: &mut Turn<'_>, agent: &AgentFields, thought: Thought) -> Step<Request> {
    let mut wanted = Vec::new();
    let mut calls = Vec::new();
    let mut spoken_of = Vec::new();
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
        // A call that is not made has an id of its own, beyond those of the calls that are.
        let id = match result {
            None => effect_id,
            Some(_) => turn.view.call_id(number + wanted.len()),
        };
        spoken_of.extend(recorded(called.id.as_deref(), &tool, id, &arguments));
        if result.is_none() {
            calls.push(made(
                turn,
                agent,
                &tool,
                Arc::new(arguments),
                wanted.len(),
                children,
            ));
        }
        let answered_by = called.id.unwrap_or_else(|| id.to_string());
        wanted.push(RequestedCall {
            id: answered_by,
            tool,
            modified: false,
            fallbacks: 0,
            status: result.is_some().then_some(ToolCallStatus::Failed),
            result: result.map(|complaint| failed(&complaint)),
        });
    }
    let Ok(message) = Message::calling(thought.text, spoken_of, turn.view.at) else {
        return compose::broken(turn, "the model called no tool that can be named");
    };
    if let Some(run) = turn.state.run.as_mut() {
        run.iterations += 1;
        run.spent.tool_calls += allowed - left;
        run.wanted = wanted;
    }
    if calls.is_empty() {
        let mut messages = vec![message];
        messages.extend(results(turn));
        return go_on(turn, messages);
    }
    Step {
        messages: vec![unspoken(message)],
        calls,
        ..Step::default()
    }
}

/// Takes in what came of one call, and goes on once all have come.
pub(crate) fn take_result(
    turn: &mut Turn<'_>,
    returned: ReturnedCall,
    index: Option<usize>,
    made_with: &Arguments,
    is_child: bool,
) -> Step<Request> {
    let Some(agent) = super::agent_of(turn) else {
        return compose::broken(turn, "the agent is no longer in the app");
    };
    let outcome = returned.outcome;
    let since = turn.since_accepted_ms(returned.made.started_at);
    let asked_for = index.and_then(|index| asked_for(turn.view.messages, index));
    let may_call = turn.state.run.as_deref().map_or(0, |run| {
        run.spent.tool_calls + run.spent.tool_calls_left(&run.may_spend(agent))
    });
    let known = turn.state.run.as_mut().zip(index).and_then(|(run, index)| {
        let wanted = run.wanted.get_mut(index)?;
        Some((index, &mut run.spent, &mut run.until_ms, wanted))
    });
    let Some((index, spent, until_ms, wanted)) = known else {
        return compose::broken(turn, "a result belongs to no call of the agent");
    };
    if let (true, Outcome::Done(Reply(CallReply::Tool(reply)))) = (is_child, &outcome) {
        spent.add_child(reply);
    }
    let asked_leave =
        |arguments: &Map<String, Value>| turn.assistant.needs_approval(&wanted.tool, arguments);
    // A person may have changed the arguments into some that need no leave.
    if asked_leave(made_with) || asked_for.is_some_and(asked_leave) {
        // The time that a person took is not the agent's.
        *until_ms = since + turn.assistant.app.agent_time_ms(agent);
    }
    wanted.modified |= asked_for.is_some_and(|arguments| *arguments != **made_with);
    let may_fall_back = may_fall_back(turn.view.returned.map(|call| &call.request.0), &outcome);
    let (mut text, status) = in_words(outcome);
    if status == ToolCallStatus::Failed
        && may_fall_back
        && spent.tool_calls < may_call
        && let Some(fallback) = fallback(turn.assistant, wanted)
    {
        wanted.fallbacks += 1;
        spent.tool_calls += 1;
        let call = made(turn, agent, &fallback, Arc::clone(made_with), index, 1);
        return Step {
            calls: vec![call],
            ..Step::default()
        };
    }
    if wanted.modified {
        // Else the model would tell the user of what it wanted, not of what was done.
        let note = format!("\nA person changed the arguments to {}.", json!(made_with));
        text.push_str(&note);
    }
    wanted.result = Some(text);
    wanted.status = Some(status);
    if let Some(run) = turn.state.run.as_ref()
        && run.wanted.iter().any(|wanted| wanted.result.is_none())
    {
        return Step::default();
    }
    let messages = results(turn);
    go_on(turn, messages)
}

/// The arguments that the model gave a call of its last thought.
fn asked_for(messages: &[Message], index: usize) -> Option<&Map<String, Value>> {
    let calls = messages
        .iter()
        .rev()
        .map(|message| &message.tool_calls)
        .find(|calls| !calls.is_empty())?;
    calls.get(index).map(|call| &call.arguments)
}

/// The next thought, or, once it may call tools no more, the conclusion.
fn go_on(turn: &mut Turn<'_>, messages: Vec<Message>) -> Step<Request> {
    let agent = super::agent_of(turn);
    if let (Some(run), Some(agent)) = (turn.state.run.as_mut(), agent) {
        let is_enough = run.iterations >= run.manner.max_iterations(agent)
            || run.spent.tool_calls_left(&run.may_spend(agent)) == 0;
        run.phase = if is_enough {
            Phase::Conclude
        } else {
            Phase::Think
        };
    }
    think(turn, messages)
}

/// Every call's result, in the order of the calls.
fn results(turn: &mut Turn<'_>) -> Vec<Message> {
    let wanted = turn
        .state
        .run
        .as_mut()
        .map(|run| std::mem::take(&mut run.wanted));
    wanted
        .unwrap_or_default()
        .into_iter()
        .filter_map(|wanted| result_of(wanted, turn.view.at))
        .collect()
}

/// The key of a tool message's metadata under which it says whether the call completed or failed.
const STATUS: &str = "status";

fn result_of(wanted: RequestedCall, at: Timestamp) -> Option<Message> {
    let text = wanted
        .result
        .filter(|text| !text.trim().is_empty())
        .unwrap_or_else(|| "(nothing)".into());
    let mut fields = MessageFields::draft(Role::Tool, text, at);
    fields.tool_call_id = Some(wanted.id);
    if let Some(status) = wanted.status {
        fields.metadata.insert(STATUS.into(), json!(status));
    }
    Message::new(fields).ok()
}

/// The tool that a model means, as the agent lists it. A wrong server is put right where exactly one
/// of the agent's tools has the name; a tool that the agent does not list is refused.
fn find<'a>(agent: &'a AgentFields, name: &str) -> Result<&'a str, String> {
    let spoken = name.replace("__", ".");
    if let Some(tool) = agent
        .tools
        .iter()
        .find(|tool| **tool == spoken || **tool == *name)
    {
        return Ok(tool);
    }
    let bare = |tool: &str| tool.rsplit('.').next().unwrap_or_default().to_owned();
    let fitting: Vec<&String> = agent
        .tools
        .iter()
        .filter(|tool| bare(tool) == bare(&spoken))
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

fn made(
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
            asks: false,
        })),
        approval,
    }
}

/// What a person is asked before a tool is called that needs their leave.
pub(crate) fn approval(assistant: &Assistant, tool: &str, arguments: &Arguments) -> Option<String> {
    let needed = assistant.needs_approval(tool, arguments);
    needed.then(|| format!("May I call {tool} with {}?", json!(arguments)))
}

/// The next tool to try in the place of one that failed.
fn fallback(assistant: &Assistant, wanted: &RequestedCall) -> Option<String> {
    let settings = assistant.tool_settings(&wanted.tool).next()?;
    settings.fallback_tools.get(wanted.fallbacks).cloned()
}

fn recorded(
    model_call_id: Option<&str>,
    tool: &str,
    id: Uuid,
    arguments: &Map<String, Value>,
) -> Option<ToolCall> {
    let named = tool
        .split_once('.')
        .and_then(|(server, name)| Some((Name::new(server).ok()?, name)))
        .filter(|(_, name)| !name.trim().is_empty());
    // Whatever a model wrote, its call is told of, because its answer will be.
    let (server, name) = match named {
        Some(named) => named,
        None => (Name::new(UNNAMED_SERVER).ok()?, tool),
    };
    let call = ToolCall::pending(id, server, name, arguments.clone()).ok()?;
    call.with(|fields| fields.model_call_id = model_call_id.map(str::to_owned))
        .ok()
}

/// Whether another tool may be tried in the place of one that failed: not where the first may have acted, nor where
/// its arguments are wrong, which the model can mend.
fn may_fall_back(ask: Option<&CallRequest>, outcome: &Outcome<Reply>) -> bool {
    let mendable =
        matches!(outcome, Outcome::Failed(failure) if failure.is(FailureCode::ToolArguments));
    !mendable && ask.is_some_and(|ask| may_be_replaced(ask, outcome))
}

/// An outcome in words for a model, and whether it is a failure.
fn in_words(outcome: Outcome<Reply>) -> (String, ToolCallStatus) {
    let failed = |words: &str| (failed(words), ToolCallStatus::Failed);
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

/// What comes before the words of a result that is none.
const FAILED: &str = "Error: ";

/// A failure in words for a model.
fn failed(words: &str) -> String {
    format!("{FAILED}{words}")
}

/// The calls that a transcript tells of, with what came of each. Models give the same id again and
/// again, so that a result is known by its place: behind the calls, in their order.
pub(crate) fn calls_of(messages: &[Message]) -> Vec<ToolCall> {
    let mut calls = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        let mut results = messages[index + 1..]
            .iter()
            .take_while(|result| result.role == Role::Tool);
        for call in &message.tool_calls {
            let ended = results.next().and_then(|result| {
                let (started, at) = message.timestamp.zip(result.timestamp)?;
                let call = call.clone().start(started).ok()?;
                let text = result.content.clone();
                let words = text.strip_prefix(FAILED);
                if has_failed(result) {
                    call.fail(words.unwrap_or(&text), at).ok()
                } else {
                    call.complete(Value::String(text), at).ok()
                }
            });
            calls.push(ended.unwrap_or_else(|| call.clone()));
        }
    }
    calls
}

/// Whether a result is a failure. Messages of older versions say so in their words alone.
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

    /// The statuses of the calls that a transcript with these results tells of.
    fn statuses(wanted: &[Value]) -> Vec<ToolCallStatus> {
        let called = wanted.iter().enumerate().map(|(index, _)| {
            let id = Uuid::from_u128(index as u128 + 1);
            ToolCall::pending(id, Name::new("desk").unwrap(), "look", Map::new()).unwrap()
        });
        let calling = Message::calling("", called.collect(), AT).unwrap();
        let results = wanted.iter().map(|wanted| {
            let wanted = serde_json::from_value(wanted.clone()).unwrap();
            result_of(wanted, AT).unwrap()
        });
        let messages: Vec<_> = std::iter::once(calling).chain(results).collect();
        let calls = calls_of(&messages);
        calls.iter().map(|call| call.status).collect()
    }

    #[test]
    fn the_results_of_an_older_version_are_known_by_their_words() {
        let wanted = [
            json!({ "id": "a", "tool": "desk.look", "result": "Error: there is no such file" }),
            json!({ "id": "b", "tool": "desk.look", "result": "a file" }),
        ];
        let told = [ToolCallStatus::Failed, ToolCallStatus::Completed];
        assert_eq!(statuses(&wanted), told);
    }

    #[test]
    fn a_result_that_says_what_it_is_is_not_known_by_its_words() {
        let wanted = [
            json!({ "id": "a", "tool": "desk.look", "result": "Error: 0", "status": "completed" }),
            json!({ "id": "b", "tool": "desk.look", "result": "none", "status": "failed" }),
        ];
        let told = [ToolCallStatus::Completed, ToolCallStatus::Failed];
        assert_eq!(statuses(&wanted), told);
    }
}
