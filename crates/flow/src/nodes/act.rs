//! Act: the tool call that does what was asked.

use std::collections::BTreeMap;

use convoke_engine::{NewCall, Outcome, Step, View};
use convoke_model::{Name, SkillFields, Stage, ToolCall, ToolCallFields, ToolCallStatus};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::compose;
use crate::assistant::{Assistant, Node, Progress, Returned};
use crate::memory::{Item, Memory};
use crate::ports::ToolReply;

/// What the executor knows tool calls by.
pub(crate) const KIND: &str = "tool";

pub(crate) fn start(
    assistant: &Assistant,
    view: View<'_>,
    state: &mut Progress,
    skill: &SkillFields,
) -> Step {
    let Some(action) = &skill.action else {
        let text = &assistant.app.config.messages.failure;
        return compose::fail(assistant, view, state, text, "the skill has no action");
    };
    state.node = Node::Act;
    state.slot = None;
    match arguments(assistant, state, &action.arguments) {
        Ok(arguments) => Step {
            stage: Some(Stage::Extracting),
            calls: vec![NewCall {
                kind: KIND,
                label: action.tool.clone(),
                request: json!({ "tool": action.tool, "arguments": arguments }),
            }],
            ..Step::default()
        },
        Err(cause) => {
            let text = &assistant.app.config.messages.failure;
            compose::fail(assistant, view, state, text, &cause)
        }
    }
}

pub(crate) fn finish(
    assistant: &Assistant,
    view: View<'_>,
    state: &mut Progress,
    returned: &Returned<'_>,
) -> Step {
    let action = state
        .target
        .as_ref()
        .and_then(|target| assistant.skills.get(target))
        .and_then(|skill| skill.action.clone());
    let Some(action) = action else {
        let text = &assistant.app.config.messages.failure;
        return compose::fail(assistant, view, state, text, "the skill's action is gone");
    };
    let reply = match returned.outcome {
        Outcome::Done(value) => {
            serde_json::from_value::<ToolReply>(value.clone()).map_err(|error| error.to_string())
        }
        Outcome::Failed(failure) => Err(format!("{}: {}", failure.code, failure.message)),
    };
    let reply = match reply {
        Ok(reply) => reply,
        Err(cause) => {
            let text = &assistant.app.config.messages.failure;
            return compose::fail(assistant, view, state, text, &cause);
        }
    };
    let given = arguments(assistant, state, &action.arguments).unwrap_or_default();
    note_call(
        state,
        &reply,
        returned,
        view.at,
        given,
        reply.content.clone(),
    );
    if reply.is_error {
        return compose::tool_refused(assistant, view, state, action.failure.as_deref(), &reply);
    }
    let shown = match &action.shows {
        None => Vec::new(),
        Some(shows) => match &shows.items {
            None => Item::read(&reply.content, &shows.id, &shows.label)
                .into_iter()
                .collect(),
            Some(field) => reply
                .content
                .get(field)
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .filter_map(|item| Item::read(item, &shows.id, &shows.label))
                .collect(),
        },
    };
    let mut context = state.slots.clone();
    context.insert("result".into(), reply.content);
    let memory = Memory { shown, asks: None };
    let intent = state
        .target
        .as_ref()
        .map_or("", |target| target.skill.as_str())
        .to_owned();
    compose::say(
        assistant,
        view,
        state,
        &action.reply,
        context.into(),
        &intent,
        memory,
    )
}

/// The arguments of a call, from templates over the slots.
pub(crate) fn arguments(
    assistant: &Assistant,
    state: &Progress,
    templates: &BTreeMap<String, Value>,
) -> Result<Map<String, Value>, String> {
    templates
        .iter()
        .map(|(name, template)| {
            Ok((
                name.clone(),
                assistant.templates.value(template, &state.slots)?,
            ))
        })
        // What an optional slot leaves empty is not an argument.
        .filter(|argument| !matches!(argument, Ok((_, Value::Null))))
        .collect()
}

/// Adds an ended call to the task's record of them.
pub(crate) fn note_call(
    state: &mut Progress,
    reply: &ToolReply,
    returned: &Returned<'_>,
    at: Timestamp,
    arguments: Map<String, Value>,
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
    let duration = at.duration_since(returned.started_at).as_millis();
    let call = ToolCall::new(ToolCallFields {
        id: returned.call,
        model_call_id: None,
        server,
        tool: reply.tool.clone(),
        domain: None,
        arguments,
        status,
        result,
        error,
        started_at: Some(returned.started_at),
        completed_at: Some(at),
        duration_ms: u64::try_from(duration).ok(),
    });
    match call {
        Ok(call) => state.tool_calls.push(call),
        Err(error) => tracing::warn!(%error, "an ended call could not be recorded"),
    }
}
