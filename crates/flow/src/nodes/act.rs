//! Act: calls the tool of a skill.

use std::collections::BTreeMap;
use std::sync::Arc;

use convoke_engine::{Failure, NewCall, Step};
use convoke_model::{
    Action, FailureCode, Name, SkillFields, Stage, ToolCall, ToolCallFields, ToolCallStatus, UserId,
};
use convoke_tools::ToolReply;
use serde_json::{Map, Value, json};

use super::agent::{UNNAMED_SERVER, approval};
use super::compose;
use crate::assistant::Node;
use crate::calls::{CallInfo, CallRequest, Request, ReturnedCall, ToolCallRequest, one_call};
use crate::memory::{Item, Memory, Topic};
use crate::turn::Turn;

pub(crate) fn start(turn: &mut Turn<'_>, skill: &SkillFields) -> Step<Request> {
    let Some(action) = &skill.action else {
        return compose::fail(turn, "the skill has no action");
    };
    turn.state.node = Node::Act;
    turn.state.slot = None;
    call(turn, &action.tool, &action.arguments)
}

/// Rebuilds the open call of a fork, with changed slots.
pub(crate) fn rebuild_open_calls(
    turn: &mut Turn<'_>,
    set: &Map<String, Value>,
) -> Result<Vec<NewCall<Request>>, String> {
    let target = turn.state.target.as_ref();
    let skill = target.and_then(|target| turn.assistant.catalogue.skill(target));
    let skill = skill.ok_or("the skill is no longer in the app")?;
    turn.state.slots.extend(set.clone());
    let step = start(turn, skill);
    if step.calls.is_empty() {
        return Err("with these changes no call is left to make".into());
    }
    Ok(step.calls)
}

/// Requests a tool call with arguments rendered from the slots.
pub(crate) fn call(
    turn: &mut Turn<'_>,
    tool: &str,
    templates: &BTreeMap<String, Value>,
) -> Step<Request> {
    let arguments = match arguments(turn, templates) {
        Ok(arguments) => Arc::new(arguments),
        Err(cause) => return compose::fail(turn, &cause),
    };
    // The user's confirmation counts as the approval of whom the app lets approve.
    let requester = UserId::from(turn.view.facts.owner);
    let approval = if turn.state.confirmed && turn.assistant.requester_may_approve(tool, requester)
    {
        None
    } else {
        approval(turn.assistant, tool, &arguments)
    };
    let tool_call = ToolCallRequest {
        tool: tool.to_owned(),
        arguments,
        index: None,
        until_ms: None,
        delay_ms: 0,
        is_query: false,
    };
    let mut step = one_call(tool, CallRequest::Tool(tool_call));
    for call in &mut step.calls {
        call.approval.clone_from(&approval);
    }
    Step {
        stage: Some(Stage::Extracting),
        ..step
    }
}

pub(crate) fn finish(turn: &mut Turn<'_>, returned: ReturnedCall) -> Step<Request> {
    let assistant = turn.assistant;
    let action = turn
        .state
        .target
        .as_ref()
        .and_then(|target| assistant.catalogue.skill(target))
        .and_then(|skill| skill.action.as_ref());
    let Some(action) = action else {
        return compose::fail(turn, "the skill no longer has an action");
    };
    let info = returned.info;
    let outcome = returned.tool();
    note_call(turn, info, outcome.as_ref());
    let reply = match outcome {
        Ok(reply) => reply,
        Err(failure) => return compose::call_failure(turn, &failure),
    };
    if reply.is_error {
        return compose::tool_error(turn, action.failure.as_deref(), &reply);
    }
    let shown = shown(action, &reply.content);
    let memory = Memory {
        topic: turn.state.target.as_ref().map(|target| {
            let slots = &turn.state.slots;
            Topic::of(target.agent.clone(), slots)
        }),
        unread: shown.is_err(),
        list: action
            .shows
            .as_ref()
            .is_some_and(|shows| shows.items.is_some()),
        ..Memory::showing(shown.as_ref().cloned().unwrap_or_default())
    };
    let mut context = turn.state.slots.clone();
    context.insert("result".into(), reply.content);
    let intent = turn.intent();
    let unread = shown.err();
    let unread = unread.map(|cause| FailureCode::ReplyShows.because(cause));
    compose::reply_done(turn, &action.reply, &context, &intent, memory, unread)
}

/// The items in the reply, so that the next message can refer to them.
fn shown(action: &Action, content: &Value) -> Result<Vec<Item>, String> {
    let Some(shows) = &action.shows else {
        return Ok(Vec::new());
    };
    let fields = (shows.id.as_str(), shows.label.as_str());
    let read = |item: &Value| Item::read(item, shows.kind(&action.tool), fields);
    match &shows.items {
        None => Ok(vec![read(content)?]),
        Some(field) => Item::list_in(content, field)?.iter().map(read).collect(),
    }
}

/// The arguments of a call, from templates over the slots.
fn arguments(
    turn: &Turn<'_>,
    templates: &BTreeMap<String, Value>,
) -> Result<Map<String, Value>, String> {
    templates
        .iter()
        .map(|(name, template)| {
            Ok((
                name.clone(),
                turn.assistant
                    .templates
                    .value(template, &turn.state.slots)?,
            ))
        })
        // A template that renders to null leaves the argument out.
        .filter(|argument| !matches!(argument, Ok((_, Value::Null))))
        .collect()
}

/// The error of a call whose tool failed without a word.
const WORDLESS: &str = "the tool reported an error and did not say which";

/// Adds an ended call to the task's record of them, with its result or why there is none.
pub(crate) fn note_call(
    turn: &mut Turn<'_>,
    info: CallInfo,
    outcome: Result<&ToolReply, &Failure>,
) {
    let Some(CallRequest::Tool(made)) = turn.view.returned.map(|call| call.request.0.innermost())
    else {
        return;
    };
    // A call that reached no server has only the name under which the app calls the tool.
    let (named, bare) = made.tool.split_once('.').unwrap_or(("", &made.tool));
    let (server, tool) = match outcome {
        Ok(reply) => (reply.server.as_str(), reply.tool.as_str()),
        Err(_) => (named, bare),
    };
    let mut servers = [server, named, UNNAMED_SERVER].into_iter();
    let Some(server) = servers.find_map(|name| Name::new(name).ok()) else {
        return;
    };
    let (status, result, error) = match outcome {
        Ok(reply) if reply.is_error => {
            let said = Some(reply.text.clone()).filter(|text| !text.trim().is_empty());
            (
                ToolCallStatus::Failed,
                None,
                said.or_else(|| Some(WORDLESS.to_owned())),
            )
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
    let duration = turn.view.at.duration_since(info.started_at).as_millis();
    let call = ToolCall::new(ToolCallFields {
        id: info.call,
        model_call_id: None,
        server,
        tool: tool.to_owned(),
        domain: None,
        arguments: (*made.arguments).clone(),
        status,
        result,
        error,
        started_at: Some(info.started_at),
        completed_at: Some(turn.view.at),
        duration_ms: u64::try_from(duration).ok(),
    });
    match call {
        Ok(call) => turn.state.tool_calls.push(call),
        Err(error) => tracing::warn!(%error, "an ended call could not be recorded"),
    }
}
