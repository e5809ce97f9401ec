//! Act: the tool call that does what was asked.

use std::collections::BTreeMap;

use convoke_engine::{NewCall, Step};
use convoke_model::{Action, Name, SkillFields, Stage, ToolCall, ToolCallFields, ToolCallStatus};
use serde_json::{Map, Value, json};

use super::compose;
use crate::assistant::Node;
use crate::memory::{Item, Memory};
use crate::ports::ToolReply;
use crate::turn::{Returned, Turn};

/// What the executor knows tool calls by.
pub(crate) const KIND: &str = "tool";

pub(crate) fn start(turn: &mut Turn<'_>, skill: &SkillFields) -> Step {
    let Some(action) = &skill.action else {
        return compose::broken(turn, "the skill has no action");
    };
    turn.state.node = Node::Act;
    turn.state.slot = None;
    call(turn, &action.tool, &action.arguments)
}

/// Asks for a tool call, its arguments filled in from the slots.
pub(crate) fn call(turn: &mut Turn<'_>, tool: &str, templates: &BTreeMap<String, Value>) -> Step {
    match arguments(turn, templates) {
        Ok(arguments) => Step {
            stage: Some(Stage::Extracting),
            calls: vec![NewCall {
                kind: KIND,
                label: tool.to_owned(),
                request: json!({ "tool": tool, "arguments": arguments }),
                approval: None,
            }],
            ..Step::default()
        },
        Err(cause) => compose::broken(turn, &cause),
    }
}

pub(crate) fn finish(turn: &mut Turn<'_>, returned: &Returned<'_>) -> Step {
    let assistant = turn.assistant;
    let action = turn
        .state
        .target
        .as_ref()
        .and_then(|target| assistant.skills.get(target))
        .and_then(|skill| skill.action.as_ref());
    let Some(action) = action else {
        return compose::broken(turn, "the skill's action is gone");
    };
    let reply: ToolReply = match returned.value() {
        Ok(reply) => reply,
        Err(cause) => return compose::broken(turn, &cause),
    };
    note_call(
        turn,
        &reply,
        returned,
        &action.arguments,
        reply.content.clone(),
    );
    if reply.is_error {
        return compose::tool_refused(turn, action.failure.as_deref(), &reply);
    }
    let memory = Memory {
        shown: shown(action, &reply.content),
        asks: None,
    };
    let mut context = turn.state.slots.clone();
    context.insert("result".into(), reply.content);
    let intent = turn.intent();
    compose::say(turn, &action.reply, context.into(), &intent, memory)
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
pub(crate) fn note_call(
    turn: &mut Turn<'_>,
    reply: &ToolReply,
    returned: &Returned<'_>,
    templates: &BTreeMap<String, Value>,
    result: Value,
) {
    let Ok(server) = Name::new(&reply.server) else {
        return;
    };
    let (status, result, error) = if reply.is_error {
        (ToolCallStatus::Failed, None, Some(reply.text.clone()))
    } else {
        (ToolCallStatus::Completed, Some(result), None)
    };
    let duration = turn.view.at.duration_since(returned.started_at).as_millis();
    let call = ToolCall::new(ToolCallFields {
        id: returned.call,
        model_call_id: None,
        server,
        tool: reply.tool.clone(),
        domain: None,
        // The same slots give the same arguments as when the call was asked for.
        arguments: arguments(turn, templates).unwrap_or_default(),
        status,
        result,
        error,
        started_at: Some(returned.started_at),
        completed_at: Some(turn.view.at),
        duration_ms: u64::try_from(duration).ok(),
    });
    match call {
        Ok(call) => turn.state.tool_calls.push(call),
        Err(error) => tracing::warn!(%error, "an ended call could not be recorded"),
    }
}
