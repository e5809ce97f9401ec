//! Act: the tool call that does what was asked.

use std::collections::BTreeMap;
use std::sync::Arc;

use convoke_engine::{NewCall, Step};
use convoke_model::{Action, Name, SkillFields, Stage, ToolCall, ToolCallFields, ToolCallStatus};
use convoke_tools::ToolReply;
use serde_json::{Map, Value};

use super::agent::approval;
use super::compose;
use crate::assistant::Node;
use crate::calls::{CallInfo, CallRequest, Request, ReturnedCall, ToolCallRequest, one_call};
use crate::memory::{Item, Memory, Topic};
use crate::turn::Turn;

pub(crate) fn start(turn: &mut Turn<'_>, skill: &SkillFields) -> Step<Request> {
    let Some(action) = &skill.action else {
        return compose::broken(turn, "the skill has no action");
    };
    turn.state.node = Node::Act;
    turn.state.slot = None;
    call(turn, &action.tool, &action.arguments)
}

/// Does it once more with other slots.
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

/// Asks for a tool call, its arguments filled in from the slots.
pub(crate) fn call(
    turn: &mut Turn<'_>,
    tool: &str,
    templates: &BTreeMap<String, Value>,
) -> Step<Request> {
    let arguments = match arguments(turn, templates) {
        Ok(arguments) => Arc::new(arguments),
        Err(cause) => return compose::broken(turn, &cause),
    };
    // Who has said yes to it has given the leave that the tool wants.
    let approval = if turn.state.confirmed {
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
        asks: false,
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
        return compose::broken(turn, "the skill no longer has an action");
    };
    let made = returned.made;
    let reply = match returned.tool() {
        Ok(reply) => reply,
        Err(failure) => return compose::call_failed(turn, &failure),
    };
    note_call(turn, &reply, made, reply.content.clone());
    if reply.is_error {
        return compose::tool_refused(turn, action.failure.as_deref(), &reply);
    }
    let memory = Memory {
        topic: turn.state.target.as_ref().map(|target| {
            let slots = &turn.state.slots;
            Topic::of(target.agent.clone(), slots)
        }),
        ..Memory::showing(shown(action, &reply.content))
    };
    let mut context = turn.state.slots.clone();
    context.insert("result".into(), reply.content);
    let intent = turn.intent();
    compose::say_done(turn, &action.reply, &context, &intent, memory)
}

/// The items that the reply tells of, so that the next message can point at them.
fn shown(action: &Action, content: &Value) -> Vec<Item> {
    let Some(shows) = &action.shows else {
        return Vec::new();
    };
    let read = |item: &Value| Item::read(item, &shows.id, &shows.label);
    match &shows.items {
        None => read(content).into_iter().collect(),
        Some(field) => {
            let items = content.get(field).and_then(Value::as_array);
            items.into_iter().flatten().filter_map(read).collect()
        }
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
        // What an optional slot leaves empty is not an argument.
        .filter(|argument| !matches!(argument, Ok((_, Value::Null))))
        .collect()
}

/// Adds an ended call to the task's record of them.
pub(crate) fn note_call(turn: &mut Turn<'_>, reply: &ToolReply, made: CallInfo, result: Value) {
    let Ok(server) = Name::new(&reply.server) else {
        return;
    };
    let (status, result, error) = if reply.is_error {
        (ToolCallStatus::Failed, None, Some(reply.text.clone()))
    } else {
        (ToolCallStatus::Completed, Some(result), None)
    };
    let duration = turn.view.at.duration_since(made.started_at).as_millis();
    let call = ToolCall::new(ToolCallFields {
        id: made.call,
        model_call_id: None,
        server,
        tool: reply.tool.clone(),
        domain: None,
        arguments: match turn.view.returned.map(|call| &call.request.0) {
            Some(CallRequest::Tool(tool_call)) => (*tool_call.arguments).clone(),
            _ => Map::new(),
        },
        status,
        result,
        error,
        started_at: Some(made.started_at),
        completed_at: Some(turn.view.at),
        duration_ms: u64::try_from(duration).ok(),
    });
    match call {
        Ok(call) => turn.state.tool_calls.push(call),
        Err(error) => tracing::warn!(%error, "an ended call could not be recorded"),
    }
}
