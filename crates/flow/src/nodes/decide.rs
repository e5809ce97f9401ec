//! Decide: what the user means, and whether everything is known to do it.

use std::collections::BTreeMap;

use convoke_engine::Step;
use convoke_model::{Message, Name, Stage};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{act, agent, compose, dispatch, inquire, resolve, route};
use crate::assistant::Assistant;
use crate::calls::{CallRequest, DecisionContext, Request, ReturnedCall, is_default, one_call};
use crate::inquiry::DomainSelector;
use crate::interpret::{Meaning, MessageReader, for_goal, interpret};
use crate::memory::{Item, Memory, PendingQuestion, SkillRef};
use crate::turn::Turn;

/// What a decision gives: what is meant, and what of the conversation is needed to act on it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct DecisionReply {
    #[serde(flatten)]
    pub(crate) meaning: Meaning,
    /// Items that the user was shown last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) shown: Vec<Item>,
    /// The conversation that each domain goes on with, where domains are asked.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) conversations: BTreeMap<Name, String>,
    /// Older messages that were left out.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) history_cut: usize,
}

pub(crate) fn start(deciding: DecisionContext) -> Step<Request> {
    Step {
        stage: Some(Stage::Planning),
        ..one_call("decide", CallRequest::Decide(deciding))
    }
}

/// Decides locally. Called by the performer, because it reads the conversation.
pub(crate) fn decide(
    assistant: &Assistant,
    deciding: &DecisionContext,
    text: &str,
    history: &[Message],
    history_cut: usize,
) -> DecisionReply {
    let memory = Memory::of(history);
    let config = &assistant.app.config;
    let topic = deciding.topic.as_ref().or(memory.topic.as_ref());
    let meaning = if let Some(goal) = &deciding.goal {
        for_goal(&assistant.catalogue, text, goal, topic)
    } else {
        let reading = MessageReader {
            several: config.decide.several,
            choosing: DomainSelector {
                threshold: config.decide.threshold,
                most: config.limits.domains_per_question as usize,
            },
        };
        interpret(&assistant.catalogue, text, &memory, reading)
    };
    DecisionReply {
        conversations: match &meaning {
            Meaning::Inquire(_) => memory.conversations,
            _ => BTreeMap::new(),
        },
        meaning,
        shown: memory.shown,
        history_cut,
    }
}

pub(crate) fn finish(turn: &mut Turn<'_>, returned: ReturnedCall) -> Step<Request> {
    let decided = match returned.decided() {
        Ok(decided) => decided,
        Err(failure) => return compose::call_failed(turn, &failure),
    };
    turn.state.shown = decided.shown;
    turn.state.conversations = decided.conversations;
    turn.state.history_cut = decided.history_cut;
    go(turn, decided.meaning)
}

/// Does what is meant.
pub(crate) fn go(turn: &mut Turn<'_>, meaning: Meaning) -> Step<Request> {
    match meaning {
        Meaning::Act(tool_call) => {
            turn.state.target = Some(tool_call.target);
            turn.state.slots = tool_call.slots;
            turn.state.alternatives = tool_call.alternatives;
            turn.state.candidates = tool_call.candidates;
            turn.state.confirmed = tool_call.confirmed;
            turn.state.decision = Some(tool_call.decision);
            advance(turn)
        }
        Meaning::Several { parts } => dispatch::start(turn, parts),
        Meaning::Inquire(inquiry) => inquire::start(turn, *inquiry),
        Meaning::Unclear { candidates } => route::unsure(turn, candidates),
        Meaning::Unknown => route::unsure(turn, Vec::new()),
        Meaning::Dismissed => {
            let template = &turn.assistant.app.config.messages.rejected;
            compose::say(turn, template, json!({}), "dismissed", Memory::default())
        }
    }
}

/// Goes on to whatever is next: ask for a slot, look one up, or act.
pub(crate) fn advance(turn: &mut Turn<'_>) -> Step<Request> {
    let assistant = turn.assistant;
    let found = turn.state.target.clone().and_then(|target| {
        let skill = assistant.catalogue.skill(&target)?;
        Some((target, skill))
    });
    let Some((target, skill)) = found else {
        return compose::broken(turn, "the chosen skill is no longer in the app");
    };
    for (name, slot) in &skill.slots {
        let text = match turn.state.slots.get(name.as_str()) {
            Some(Value::String(text)) => Some(text.clone()),
            // It has been looked up already.
            Some(_) => continue,
            None => slot.default.clone(),
        };
        let Some(text) = text else {
            match &slot.ask {
                Some(question) => return ask_slot(turn, &target, name, question, Vec::new()),
                None => continue,
            }
        };
        if let Some(limit) = slot
            .max_length
            .filter(|limit| text.chars().count() > *limit as usize)
        {
            let template = &assistant.app.config.messages.too_long;
            let context = json!({ "limit": limit });
            return compose::say(
                turn,
                template,
                context,
                target.skill.as_str(),
                Memory::default(),
            );
        }
        turn.state
            .slots
            .insert(name.to_string(), Value::String(text));
        if let Some(reference) = &slot.refers_to {
            return resolve::start(turn, name, reference);
        }
    }
    if skill.action.is_none() && assistant.thinker(Some(&target.agent)).is_some() {
        return think(turn);
    }
    let confirm = skill
        .action
        .as_ref()
        .and_then(|action| action.confirm.as_ref());
    match confirm {
        Some(question) if !turn.state.confirmed => ask_whether(turn, target, question),
        _ => act::start(turn, skill),
    }
}

/// Asks whether to do it, and remembers what a yes would be to.
fn ask_whether(turn: &mut Turn<'_>, target: SkillRef, question: &str) -> Step<Request> {
    let slots = turn.state.slots.clone();
    let memory = Memory {
        asks: Some(PendingQuestion::Confirm {
            target,
            slots: slots.clone(),
        }),
        ..Memory::showing(turn.state.shown.clone())
    };
    compose::say(turn, question, slots.into(), "clarification_needed", memory)
}

/// Hands the request to an agent with a model.
pub(crate) fn think(turn: &mut Turn<'_>) -> Step<Request> {
    let assistant = turn.assistant;
    let meant = turn.state.target.as_ref().map(|target| &target.agent);
    match assistant.thinker(meant) {
        Some(agent) => agent::start(turn, agent),
        None => compose::broken(turn, "no agent has a model"),
    }
}

/// Asks for a slot, and remembers what the next message is to be the answer to.
pub(crate) fn ask_slot(
    turn: &mut Turn<'_>,
    target: &SkillRef,
    slot: &Name,
    question: &str,
    candidates: Vec<Item>,
) -> Step<Request> {
    let mut slots = turn.state.slots.clone();
    let words = slots.shift_remove(slot.as_str()).unwrap_or_default();
    let mut context = slots.clone();
    context.insert("words".into(), words);
    context.insert("candidates".into(), json!(candidates));
    let memory = Memory {
        shown: candidates.clone(),
        asks: Some(PendingQuestion::Slot {
            target: target.clone(),
            slot: slot.clone(),
            slots,
            candidates,
        }),
        ..Memory::default()
    };
    compose::say(
        turn,
        question,
        context.into(),
        "clarification_needed",
        memory,
    )
}
