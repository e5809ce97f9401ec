//! Act: calls the tool of a skill.

use std::collections::BTreeMap;
use std::sync::Arc;

use convoke_engine::{Failure, NewCall, Step};
use convoke_model::{Action, FailureCode, SkillFields, Stage, UserId};
use convoke_tools::{Arguments, ToolReply};
use serde_json::{Map, Value};

use super::{agent, compose};
use crate::assistant::Node;
use crate::calls::{CallRequest, Request, ReturnedCall, ToolCallRequest, one_call};
use crate::ended_call::record_returned;
use crate::fallback::{earlier_attempts, failure_after};
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
    let approval = approval(turn, tool, &arguments);
    let tool_call = ToolCallRequest {
        tool: tool.to_owned(),
        arguments,
        index: None,
        until_ms: None,
        delay_ms: 0,
        is_query: false,
        attempts: Vec::new(),
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

/// The approval question for a call, if it needs one. The user's confirmation counts as the approval of whom the app lets
/// approve.
pub(crate) fn approval(turn: &Turn<'_>, tool: &str, arguments: &Arguments) -> Option<String> {
    let requester = UserId::from(turn.view.facts.owner);
    if turn.state.confirmed && turn.assistant.requester_may_approve(tool, requester) {
        return None;
    }
    agent::approval(turn.assistant, tool, arguments)
}

/// The reply of a tool that was called for a skill, added to the task's record of calls. An error is that of the last
/// attempt, with those before it.
pub(crate) fn take_reply(
    turn: &mut Turn<'_>,
    returned: ReturnedCall,
) -> Result<ToolReply, Failure> {
    let info = returned.info;
    let outcome = returned.tool();
    record_returned(turn, info, outcome.as_ref());
    outcome.map_err(|failure| failure_after(failure, earlier_attempts(turn)))
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
    let reply = match take_reply(turn, returned) {
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
