//! Resolve: finds the item that the user refers to, in the user's current list.

use convoke_engine::Step;
use convoke_model::{FailureCode, Name, Reference};
use convoke_tools::ToolReply;
use serde_json::{Map, Value, json};

use super::{act, compose, decide};
use crate::assistant::Node;
use crate::calls::{Request, ReturnedCall};
use crate::memory::{Item, Memory, SkillRef};
use crate::reference::{MentionedItems, ReferenceMatch, find, is_named};
use crate::turn::Turn;

pub(crate) fn start(turn: &mut Turn<'_>, slot: &Name, reference: &Reference) -> Step<Request> {
    turn.state.node = Node::Resolve;
    turn.state.slot = Some(slot.clone());
    act::call(turn, &reference.tool, &reference.arguments)
}

pub(crate) fn finish(turn: &mut Turn<'_>, returned: ReturnedCall) -> Step<Request> {
    let Some((target, slot, reference)) = looked_up(turn) else {
        return compose::fail(turn, "the slot that is being resolved is missing");
    };
    let reply = match act::take_reply(turn, returned) {
        Ok(reply) => reply,
        Err(failure) => return compose::call_failure(turn, &failure),
    };
    if reply.is_error {
        return compose::tool_error(turn, None, &reply);
    }
    let all = match candidates(turn, &reply, reference) {
        Ok(all) => all,
        Err(cause) => return compose::fail(turn, &FailureCode::ReferenceItems.because(cause)),
    };
    let items: Vec<Item> = all.iter().map(|(item, _)| item.clone()).collect();
    read_by_label(turn, &slot, &items);
    let words = turn
        .state
        .slots
        .get(slot.as_str())
        .and_then(Value::as_str)
        .unwrap_or_default();
    let narrowed = !turn.state.candidates.is_empty();
    let seen = if narrowed {
        MentionedItems::list(&turn.state.candidates)
    } else {
        MentionedItems {
            shown: &turn.state.shown,
            listed: &turn.state.listed,
        }
    };
    match find(words, &items, seen, &reference.nouns) {
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
            compose::reply_from_template(
                turn,
                &reference.none,
                context,
                target.skill.as_str(),
                memory,
            )
        }
    }
}

/// Chooses the alternative slot values whose text is exactly the label of an item, if any.
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

/// The slot that is being resolved, and its reference.
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

/// The listed items, reduced to those that an earlier question narrowed the choice to.
fn candidates<'a>(
    turn: &Turn<'_>,
    reply: &'a ToolReply,
    reference: &Reference,
) -> Result<Vec<(Item, &'a Value)>, String> {
    let narrowed = &turn.state.candidates;
    let is_open =
        |item: &Item| narrowed.is_empty() || narrowed.iter().any(|other| other.id == item.id);
    let fields = (reference.id.as_str(), reference.label.as_str());
    let mut found = Vec::new();
    for value in Item::list_in(&reply.content, &reference.items)? {
        let item = Item::read(value, reference.kind(), fields)?;
        if is_open(&item) {
            found.push((item, value));
        }
    }
    Ok(found)
}
