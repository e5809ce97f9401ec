//! Resolve: finds the item that the user's words point at, in the user's own list as it is now.

use convoke_engine::{NewCall, Outcome, Step, View};
use convoke_model::{Name, Reference, Stage};
use serde_json::{Value, json};

use super::{act, compose, decide};
use crate::assistant::{Assistant, Node, Progress, Returned};
use crate::memory::{Item, Memory};
use crate::ports::ToolReply;
use crate::reference::{Found, find};

pub(crate) fn start(
    assistant: &Assistant,
    view: View<'_>,
    state: &mut Progress,
    slot: &Name,
    reference: &Reference,
) -> Step {
    state.node = Node::Resolve;
    state.slot = Some(slot.clone());
    let arguments = match act::arguments(assistant, state, &reference.arguments) {
        Ok(arguments) => arguments,
        Err(cause) => {
            let text = &assistant.app.config.messages.failure;
            return compose::fail(assistant, view, state, text, &cause);
        }
    };
    Step {
        stage: Some(Stage::Extracting),
        calls: vec![NewCall {
            kind: act::KIND,
            label: reference.tool.clone(),
            request: json!({ "tool": reference.tool, "arguments": arguments }),
        }],
        ..Step::default()
    }
}

pub(crate) fn finish(
    assistant: &Assistant,
    view: View<'_>,
    state: &mut Progress,
    returned: &Returned<'_>,
) -> Step {
    let found = state
        .target
        .clone()
        .zip(state.slot.clone())
        .and_then(|(target, slot)| {
            let reference = assistant
                .skills
                .get(&target)?
                .slots
                .get(&slot)?
                .refers_to
                .clone()?;
            Some((target, slot, reference))
        });
    let Some((target, slot, reference)) = found else {
        let text = &assistant.app.config.messages.failure;
        return compose::fail(
            assistant,
            view,
            state,
            text,
            "the slot being looked up is gone",
        );
    };
    let reply = match returned.outcome {
        Outcome::Done(value) => {
            serde_json::from_value::<ToolReply>(value.clone()).map_err(|error| error.to_string())
        }
        Outcome::Failed(failure) => Err(format!("{}: {}", failure.code, failure.message)),
    };
    let reply = match reply {
        Ok(reply) if !reply.is_error => reply,
        Ok(reply) => return compose::tool_refused(assistant, view, state, None, &reply),
        Err(cause) => {
            let text = &assistant.app.config.messages.failure;
            return compose::fail(assistant, view, state, text, &cause);
        }
    };
    let values = reply
        .content
        .get(&reference.items)
        .and_then(Value::as_array);
    let all: Vec<(Item, &Value)> = values
        .into_iter()
        .flatten()
        .filter_map(|value| Some((Item::read(value, &reference.id, &reference.label)?, value)))
        // An earlier question has narrowed the choice.
        .filter(|(item, _)| {
            state.candidates.is_empty() || state.candidates.iter().any(|other| other.id == item.id)
        })
        .collect();
    let items: Vec<Item> = all.iter().map(|(item, _)| item.clone()).collect();
    let given = act::arguments(assistant, state, &reference.arguments).unwrap_or_default();
    // The journal has the whole list; the answer only needs to say that it was looked at.
    let summary = json!({ "items": items.len() });
    act::note_call(state, &reply, returned, view.at, given, summary);
    let words = state
        .slots
        .get(slot.as_str())
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    let shown = if state.candidates.is_empty() {
        &state.shown
    } else {
        &state.candidates
    };
    match find(&words, &items, shown, &reference.nouns) {
        Found::One(index) => {
            if let Some((_, value)) = all.get(index) {
                state.slots.insert(slot.to_string(), (*value).clone());
            }
            decide::advance(assistant, view, state)
        }
        Found::Many(indices) => {
            let limit = assistant.app.config.limits.reference_candidates as usize;
            let candidates: Vec<Item> = indices
                .iter()
                .take(limit)
                .filter_map(|index| items.get(*index))
                .cloned()
                .collect();
            decide::ask_slot(
                assistant,
                view,
                state,
                &target,
                &slot,
                &reference.many,
                candidates,
            )
        }
        Found::Nothing => {
            let context = json!({ "words": words, "count": items.len() });
            let memory = Memory {
                shown: state.shown.clone(),
                asks: None,
            };
            compose::say(
                assistant,
                view,
                state,
                &reference.none,
                context,
                target.skill.as_str(),
                memory,
            )
        }
    }
}
