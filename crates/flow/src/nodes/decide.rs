//! Decide: interprets the message, and collects the slots of the chosen skill.

use std::collections::BTreeMap;

use convoke_engine::Step;
use convoke_model::{ErrorType, Message, Name, Slot, Stage};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{act, agent, compose, dispatch, inquire, resolve, route};
use crate::assistant::Assistant;
use crate::calls::{CallRequest, DecisionContext, Request, ReturnedCall, is_default, one_call};
use crate::inquiry::DomainSelector;
use crate::interpret::{Meaning, MessageReader, for_target, interpret};
use crate::memory::{Item, Memory, PendingQuestion, SkillRef};
use crate::turn::Turn;

/// The result of a decision, with the context from the conversation that acting on it needs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct DecisionReply {
    #[serde(flatten)]
    pub(crate) meaning: Meaning,
    /// Items that the user was shown last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) shown: Vec<Item>,
    /// The list that the user saw last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) listed: Vec<Item>,
    /// The conversation id at each domain, if domains are queried.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) conversations: BTreeMap<Name, String>,
    /// The questions that were suggested earlier, if domains are queried.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) suggested: Vec<String>,
    /// Number of older messages that were left out.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) history_cut: usize,
    /// Seconds since the last message of the conversation, if it was idle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) idle_seconds: Option<u64>,
}

pub(crate) fn start(decision_context: DecisionContext) -> Step<Request> {
    Step {
        stage: Some(Stage::Planning),
        ..one_call("decide", CallRequest::Decide(decision_context))
    }
}

/// Decides locally. Called by the performer, because it reads the conversation.
pub(crate) fn decide(
    assistant: &Assistant,
    decision_context: &DecisionContext,
    text: &str,
    history: &[Message],
    history_cut: usize,
) -> DecisionReply {
    let memory = Memory::of(history);
    let config = &assistant.app.config;
    let topic = decision_context.topic.as_ref().or(memory.topic.as_ref());
    let meaning = if let Some(action) = &decision_context.action {
        Meaning::Act(action.clone())
    } else if let Some(target) = &decision_context.target {
        for_target(&assistant.catalogue, text, target, topic)
    } else {
        let reader = MessageReader {
            several: config.decide.several,
            selector: DomainSelector {
                threshold: config.decide.threshold,
                max_domains: config.limits.domains_per_question as usize,
            },
        };
        interpret(&assistant.catalogue, text, &memory, reader)
    };
    let (conversations, suggested) = match &meaning {
        Meaning::Inquire(_) => (memory.conversations, memory.suggested),
        _ => (BTreeMap::new(), Vec::new()),
    };
    DecisionReply {
        conversations,
        suggested,
        meaning,
        shown: memory.shown,
        listed: memory.listed,
        history_cut,
        idle_seconds: None,
    }
}

pub(crate) fn finish(turn: &mut Turn<'_>, returned: ReturnedCall) -> Step<Request> {
    let decided = match returned.decided() {
        Ok(decided) => decided,
        Err(failure) => return compose::call_failure(turn, &failure),
    };
    turn.state.shown = decided.shown;
    turn.state.listed = decided.listed;
    turn.state.conversations = decided.conversations;
    turn.state.suggested = decided.suggested;
    turn.state.history_cut = decided.history_cut;
    turn.state.idle_seconds = decided.idle_seconds;
    act_on(turn, decided.meaning)
}

/// Acts on an interpretation.
pub(crate) fn act_on(turn: &mut Turn<'_>, meaning: Meaning) -> Step<Request> {
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
            let intent = route::INTENT_DISMISSED;
            compose::reply_from_template(turn, template, json!({}), intent, Memory::default())
        }
    }
}

/// Continues with the next missing slot: asks for it or looks it up; without one, acts.
pub(crate) fn advance(turn: &mut Turn<'_>) -> Step<Request> {
    let assistant = turn.assistant;
    let found = turn.state.target.clone().and_then(|target| {
        let skill = assistant.catalogue.skill(&target)?;
        Some((target, skill))
    });
    let Some((target, skill)) = found else {
        return compose::fail(turn, "the chosen skill is no longer in the app");
    };
    for (name, slot) in &skill.slots {
        let text = match turn.state.slots.get(name.as_str()) {
            Some(Value::String(text)) if is_none_of(slot, text) => match &slot.ask {
                Some(question) => return ask_slot(turn, &target, name, question, Vec::new()),
                None => slot.default.clone(),
            },
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
            let context = [("limit", json!(limit)), ("slot", json!(name))];
            let context = Map::from_iter(context.map(|(key, value)| (key.to_owned(), value)));
            let error_type = ErrorType::ValidationError;
            return compose::reply_refused(turn, template, &context, error_type, Memory::default());
        }
        turn.state
            .slots
            .insert(name.to_string(), Value::String(text));
        if let Some(reference) = &slot.refers_to {
            return resolve::start(turn, name, reference);
        }
    }
    if skill.action.is_none() && assistant.agent_with_model(Some(&target.agent)).is_some() {
        return start_agent(turn);
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

/// Whether a text is none of the values of a closed slot. The default may be another value.
fn is_none_of(slot: &Slot, text: &str) -> bool {
    let is_known = slot.values.contains_key(text) || slot.default.as_deref() == Some(text);
    !slot.values.is_empty() && !is_known
}

/// Asks for confirmation, and remembers the pending action.
fn ask_whether(turn: &mut Turn<'_>, target: SkillRef, question: &str) -> Step<Request> {
    let slots = turn.state.slots.clone();
    let memory = Memory {
        question: Some(PendingQuestion::Confirm {
            target,
            slots: slots.clone(),
        }),
        ..Memory::showing(turn.state.shown.clone())
    };
    compose::reply_from_template(turn, question, slots.into(), "clarification_needed", memory)
}

/// Passes the request to an agent with a model.
pub(crate) fn start_agent(turn: &mut Turn<'_>) -> Step<Request> {
    let assistant = turn.assistant;
    let preferred = turn.state.target.as_ref().map(|target| &target.agent);
    match assistant.agent_with_model(preferred) {
        Some(agent) => agent::start(turn, agent),
        None => compose::fail(turn, "no agent has a model"),
    }
}

/// Asks for a slot, and remembers the pending question.
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
        question: Some(PendingQuestion::Slot {
            target: target.clone(),
            slot: slot.clone(),
            slots,
            candidates: candidates.clone(),
        }),
        ..Memory::listing(candidates)
    };
    compose::reply_from_template(
        turn,
        question,
        context.into(),
        "clarification_needed",
        memory,
    )
}
