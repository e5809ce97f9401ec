//! Decide: what the user means, and whether everything is known to do it.

use convoke_engine::{NewCall, Outcome, Step, View};
use convoke_model::{Message, Name, SkillFields, Stage};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{act, compose, resolve};
use crate::assistant::{Assistant, Progress, Returned};
use crate::interpret::{Meaning, interpret};
use crate::memory::{Asks, Item, Memory, SkillRef};

/// What the executor knows this call by.
pub(crate) const KIND: &str = "decide";

/// What a decision gives: what is meant, and what of the conversation is needed to act on it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Decided {
    #[serde(flatten)]
    pub(crate) meaning: Meaning,
    /// What the user was last told of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) shown: Vec<Item>,
    /// Older messages that were left out.
    #[serde(default)]
    pub(crate) history_cut: usize,
}

pub(crate) fn start() -> Step {
    Step {
        stage: Some(Stage::Planning),
        calls: vec![NewCall {
            kind: KIND,
            label: "decide".into(),
            request: json!({}),
        }],
        ..Step::default()
    }
}

/// Decides locally. Called by the performer, because it reads the conversation.
pub(crate) fn decide(
    assistant: &Assistant,
    text: &str,
    history: &[Message],
    history_cut: usize,
) -> Decided {
    let memory = Memory::of(history);
    Decided {
        meaning: interpret(&assistant.skills, text, &memory),
        shown: memory.shown,
        history_cut,
    }
}

pub(crate) fn finish(
    assistant: &Assistant,
    view: View<'_>,
    state: &mut Progress,
    returned: &Returned<'_>,
) -> Step {
    let decided = match returned.outcome {
        Outcome::Done(value) => Decided::deserialize(value).map_err(|error| error.to_string()),
        Outcome::Failed(failure) => Err(format!("{}: {}", failure.code, failure.message)),
    };
    let decided = match decided {
        Ok(decided) => decided,
        Err(cause) => {
            let text = &assistant.app.config.messages.failure;
            return compose::fail(assistant, view, state, text, &cause);
        }
    };
    state.shown = decided.shown;
    state.history_cut = decided.history_cut;
    match decided.meaning {
        Meaning::Act {
            target,
            slots,
            decision,
            candidates,
        } => {
            state.target = Some(target);
            state.slots = slots;
            state.decision = Some(decision);
            state.candidates = candidates;
            advance(assistant, view, state)
        }
        Meaning::Unclear { candidates } => ask_which_skill(assistant, view, state, candidates),
        Meaning::Unknown => {
            let context = json!({
                "message": said(view),
                "skills": assistant.skills.all().map(skill_context).collect::<Vec<_>>(),
            });
            let template = &assistant.app.config.decide.unknown;
            compose::say(
                assistant,
                view,
                state,
                template,
                context,
                "unknown",
                Memory::default(),
            )
        }
        Meaning::Dismissed => {
            let template = &assistant.app.config.messages.rejected;
            compose::say(
                assistant,
                view,
                state,
                template,
                json!({}),
                "dismissed",
                Memory::default(),
            )
        }
    }
}

/// Goes on to whatever is next: ask for a slot, look one up, or act.
pub(crate) fn advance(assistant: &Assistant, view: View<'_>, state: &mut Progress) -> Step {
    let Some(target) = state.target.clone() else {
        let text = &assistant.app.config.messages.failure;
        return compose::fail(assistant, view, state, text, "no skill was chosen");
    };
    let Some(skill) = assistant.skills.get(&target) else {
        let text = &assistant.app.config.messages.failure;
        return compose::fail(assistant, view, state, text, "the chosen skill is gone");
    };
    for (name, slot) in &skill.slots {
        let text = match state.slots.get(name.as_str()) {
            Some(Value::String(text)) => Some(text.clone()),
            Some(_) => continue,
            None => slot.default.clone(),
        };
        let Some(text) = text else {
            if let Some(question) = &slot.ask {
                return ask_slot(assistant, view, state, &target, name, question, Vec::new());
            }
            continue;
        };
        if let Some(limit) = slot.max_length
            && text.chars().count() > limit as usize
        {
            let template = &assistant.app.config.messages.too_long;
            let context = json!({ "limit": limit });
            return compose::say(
                assistant,
                view,
                state,
                template,
                context,
                target.skill.as_str(),
                Memory::default(),
            );
        }
        state
            .slots
            .insert(name.to_string(), Value::String(text.clone()));
        if let Some(reference) = &slot.refers_to {
            return resolve::start(assistant, view, state, name, reference);
        }
    }
    act::start(assistant, view, state, skill)
}

/// Asks for a slot, and remembers what the next message is to be the answer to.
pub(crate) fn ask_slot(
    assistant: &Assistant,
    view: View<'_>,
    state: &mut Progress,
    target: &SkillRef,
    slot: &Name,
    question: &str,
    candidates: Vec<Item>,
) -> Step {
    let mut slots = state.slots.clone();
    slots.remove(slot.as_str());
    let mut context = state.slots.clone();
    context.insert(
        "words".into(),
        state.slots.get(slot.as_str()).cloned().unwrap_or_default(),
    );
    context.insert("candidates".into(), json!(candidates));
    let memory = Memory {
        shown: candidates.clone(),
        asks: Some(Asks::Slot {
            target: target.clone(),
            slot: slot.clone(),
            slots,
            candidates,
        }),
    };
    compose::say(
        assistant,
        view,
        state,
        question,
        context.into(),
        "clarification_needed",
        memory,
    )
}

fn ask_which_skill(
    assistant: &Assistant,
    view: View<'_>,
    state: &mut Progress,
    candidates: Vec<SkillRef>,
) -> Step {
    let described: Vec<_> = candidates
        .iter()
        .filter_map(|target| assistant.skills.get(target))
        .map(skill_context)
        .collect();
    let context = json!({ "message": said(view), "candidates": described });
    let memory = Memory {
        shown: state.shown.clone(),
        asks: Some(Asks::Skill {
            candidates,
            said: said(view).to_owned(),
        }),
    };
    let template = &assistant.app.config.decide.clarify;
    compose::say(
        assistant,
        view,
        state,
        template,
        context,
        "clarification_needed",
        memory,
    )
}

fn skill_context(skill: &SkillFields) -> Value {
    json!({ "name": skill.name, "description": skill.description, "examples": skill.examples })
}

/// What the user said.
pub(crate) fn said<'a>(view: View<'a>) -> &'a str {
    view.messages
        .first()
        .map_or("", |message| message.content.as_str())
}
