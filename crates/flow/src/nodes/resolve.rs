//! Resolve: finds the item that the user's words point at, in the user's own list as it is now.

use convoke_engine::Step;
use convoke_model::{Name, Reference};
use convoke_tools::ToolReply;
use serde_json::{Map, Value, json};

use super::{act, compose, decide};
use crate::assistant::Node;
use crate::calls::{Request, ReturnedCall};
use crate::memory::{Item, Memory, SkillRef};
use crate::reference::{ReferenceMatch, find, is_named};
use crate::turn::Turn;

pub(crate) fn start(turn: &mut Turn<'_>, slot: &Name, reference: &Reference) -> Step<Request> {
    turn.state.node = Node::Resolve;
    turn.state.slot = Some(slot.clone());
    act::call(turn, &reference.tool, &reference.arguments)
}

pub(crate) fn finish(turn: &mut Turn<'_>, returned: ReturnedCall) -> Step<Request> {
    let Some((target, slot, reference)) = looked_up(turn) else {
        return compose::broken(turn, "the slot that is being resolved is missing");
    };
    let made = returned.made;
    let reply = match returned.tool() {
        Ok(reply) => reply,
        Err(failure) => return compose::call_failed(turn, &failure),
    };
    if reply.is_error {
        return compose::tool_refused(turn, None, &reply);
    }
    let all = candidates(turn, &reply, reference);
    let items: Vec<Item> = all.iter().map(|(item, _)| item.clone()).collect();
    // The journal has the whole list; the answer only needs to say that it was looked at.
    let summary = json!({ "items": items.len() });
    act::note_call(turn, &reply, made, summary);
    read_by_label(turn, &slot, &items);
    let words = turn
        .state
        .slots
        .get(slot.as_str())
        .and_then(Value::as_str)
        .unwrap_or_default();
    let narrowed = !turn.state.candidates.is_empty();
    let shown = if narrowed {
        &turn.state.candidates
    } else {
        &turn.state.shown
    };
    match find(words, &items, shown, &reference.nouns) {
        ReferenceMatch::One(index) => {
            if let Some((_, value)) = all.get(index) {
                turn.state.slots.insert(slot.to_string(), (*value).clone());
            }
            decide::advance(turn)
        }
        ReferenceMatch::Many(indices) => {
            let limit = turn.assistant.app.config.limits.reference_candidates as usize;
            let candidates: Vec<Item> = indices
                .iter()
                .take(limit)
                .filter_map(|index| items.get(*index))
                .cloned()
                .collect();
            decide::ask_slot(turn, &target, &slot, &reference.many, candidates)
        }
        ReferenceMatch::Nothing => {
            let context = json!({ "words": words, "count": items.len() });
            let memory = Memory::showing(turn.state.shown.clone());
            compose::say(
                turn,
                &reference.none,
                context,
                target.skill.as_str(),
                memory,
            )
        }
    }
}

/// Of several ways to read the message, takes the one whose words are the very label of an item.
fn read_by_label(turn: &mut Turn<'_>, slot: &Name, items: &[Item]) {
    let is_label = |slots: &Map<String, Value>| {
        slots
            .get(slot.as_str())
            .and_then(Value::as_str)
            .is_some_and(|words| is_named(words, items))
    };
    if !is_label(&turn.state.slots)
        && let Some(better) = turn
            .state
            .alternatives
            .iter()
            .find(|other| is_label(other))
            .cloned()
    {
        turn.state.slots.extend(better);
    }
    turn.state.alternatives.clear();
}

/// The slot that is being looked up, and where.
fn looked_up<'a>(turn: &Turn<'a>) -> Option<(SkillRef, Name, &'a Reference)> {
    let (target, slot) = turn.state.target.clone().zip(turn.state.slot.clone())?;
    let reference = turn
        .assistant
        .catalogue
        .skill(&target)?
        .slots
        .get(&slot)?
        .refers_to
        .as_ref()?;
    Some((target, slot, reference))
}

/// What the words may point at: the listed items, or those that an earlier question narrowed it to.
fn candidates<'a>(
    turn: &Turn<'_>,
    reply: &'a ToolReply,
    reference: &Reference,
) -> Vec<(Item, &'a Value)> {
    let narrowed = &turn.state.candidates;
    reply
        .content
        .get(&reference.items)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|value| Some((Item::read(value, &reference.id, &reference.label)?, value)))
        .filter(|(item, _)| narrowed.is_empty() || narrowed.iter().any(|other| other.id == item.id))
        .collect()
}
