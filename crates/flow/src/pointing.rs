//! Words that point back: "dim it a bit", "how many of those are in stock?".

use convoke_decide::{Candidate, LocalDecision, Verdict};
use convoke_model::{Name, SkillFields};
use serde_json::{Map, Value};

use crate::catalogue::{Catalogue, words};
use crate::memory::{RequestTarget, Topic};

/// Words that mean something that was spoken of before.
const POINTING: [&str; 12] = [
    "it", "its", "they", "them", "their", "that", "this", "those", "these", "there", "ones", "same",
];

/// Words beside which "there" means no place.
const BEING: [&str; 5] = ["is", "are", "was", "were", "be"];

/// How a question begins that goes on with the one before it.
const GOING_ON: [&[&str]; 12] = [
    &["and"],
    &["what", "about"],
    &["how", "about"],
    &["what", "if"],
    &["same"],
    &["the", "same"],
    &["only"],
    &["just"],
    &["now"],
    &["also"],
    &["but"],
    &["instead"],
];

/// Words that a question may have at most that goes on with the one before it.
const SHORT: usize = 8;

/// Whether a text points at what was spoken of before it.
pub(crate) fn points_back(text: &str) -> bool {
    words(text)
        .iter()
        .any(|word| POINTING.contains(&word.as_str()))
}

/// Whether a text goes on with the question before it: "and last month?", "what about the north?".
pub(crate) fn goes_on(text: &str) -> bool {
    let words = words(text);
    let begins = |beginning: &&[&str]| {
        words.len() >= beginning.len()
            && words
                .iter()
                .zip(beginning.iter())
                .all(|(word, other)| word == other)
    };
    words.len() <= SHORT && (GOING_ON.iter().any(begins) || points_back(text))
}

/// Whether a text points at where something was before. In "is there any light on" nothing is pointed at.
fn points_there(text: &str) -> bool {
    let words = words(text);
    let is_being = |at: Option<usize>| {
        let word = at.and_then(|at| words.get(at));
        word.is_some_and(|word| BEING.contains(&word.as_str()))
    };
    words.iter().enumerate().any(|(at, word)| {
        word == "there" && !is_being(at.checked_sub(1)) && !is_being(at.checked_add(1))
    })
}

/// Whether a text points at something that was spoken of before, rather than at where it was.
fn points_at_it(text: &str) -> bool {
    words(text)
        .iter()
        .any(|word| word != "there" && POINTING.contains(&word.as_str()))
}

/// Of several skills that a message may mean which points back ("turn it off"), the one of the agent that was spoken of.
pub(crate) fn of_agent(
    skills: &Catalogue,
    text: &str,
    mut decided: LocalDecision,
    agent: Option<&Name>,
) -> LocalDecision {
    let Some(agent) = agent.filter(|_| decided.verdict == Verdict::Ambiguous && points_back(text))
    else {
        return decided;
    };
    let is_theirs = |candidate: &&Candidate| {
        let goal = skills.goal(&candidate.entry);
        goal.and_then(RequestTarget::agent) == Some(agent)
    };
    let mut theirs = decided.plausible().iter().filter(is_theirs);
    if let (Some(only), None) = (theirs.next(), theirs.next()) {
        decided.candidates = vec![only.clone()];
        decided.verdict = Verdict::Chosen;
    }
    decided
}

/// Fills in what the message only points at from what was done before.
///
/// It comes from the skill's own agent's work ("play jazz in the kitchen", "turn it down"), or from anybody's where the
/// message says where ("how warm is it there"). To dim "it" after the music was spoken of would be a guess.
pub(crate) fn fill_in(
    skill: &SkillFields,
    agent: &Name,
    slots: &mut Map<String, Value>,
    topic: &Topic,
    text: &str,
) {
    if !points_there(text) && (topic.agent != *agent || !points_at_it(text)) {
        return;
    }
    for (name, slot) in &skill.slots {
        let may_be = slot.refers_to.is_none() && slot.carried.unwrap_or(slot.ask.is_some());
        if !may_be || slots.contains_key(name.as_str()) {
            continue;
        }
        let known = topic.slots.get(name.as_str());
        let fits = |value: &&String| slot.values.is_empty() || slot.values.contains_key(*value);
        if let Some(value) = known.filter(fits) {
            slots.insert(name.to_string(), Value::String(value.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_questions_that_lean_on_the_one_before_are_told_from_others() {
        for text in [
            "and last month?",
            "What about the north?",
            "only footwear please",
            "how many of those are left",
        ] {
            assert!(goes_on(text), "{text}");
        }
        for text in [
            "which products sold best",
            "and which of our customers in the north have bought the most shoes so far",
        ] {
            assert!(!goes_on(text), "{text}");
        }
        assert!(points_back("Dim it a bit!") && !points_back("play with me"));
    }

    #[test]
    fn a_place_is_pointed_at_by_there_unless_it_merely_tells_that_something_is() {
        assert!(points_there("how warm is it there") && points_there("There, turn it off"));
        assert!(!points_there("is there any light on") && !points_there("there are too many"));
        assert!(points_at_it("turn those off") && !points_at_it("lights off there"));
    }

    #[test]
    fn what_is_pointed_at_is_taken_from_the_same_agents_work_or_from_there() {
        let slot = |ask: Option<&str>, carried: Option<bool>| convoke_model::Slot {
            ask: ask.map(str::to_owned),
            carried,
            ..convoke_model::Slot::default()
        };
        let named = |name: &str| Name::new(name).unwrap();
        let slots = [
            ("must", slot(Some("Which?"), None)),
            ("never", slot(Some("How much?"), Some(false))),
            ("may", slot(None, Some(true))),
            ("other", slot(None, None)),
        ];
        let skill = SkillFields {
            name: named("dim"),
            description: "Dim.".into(),
            tags: Vec::new(),
            examples: Vec::new(),
            sentences: Vec::new(),
            slots: slots.map(|(name, slot)| (named(name), slot)).into(),
            action: None,
        };
        let known = ["must", "never", "may", "other"];
        let topic = Topic {
            agent: named("light"),
            slots: known.map(|name| (name.to_owned(), "x".to_owned())).into(),
        };
        for (agent, text, expected) in [
            ("light", "dim it", &["may", "must"] as &[&str]),
            ("music", "turn it down", &[]),
            ("music", "quieter there", &["may", "must"]),
            ("light", "dim the light", &[]),
        ] {
            let mut filled = Map::new();
            fill_in(&skill, &named(agent), &mut filled, &topic, text);
            let mut found: Vec<&str> = filled.keys().map(String::as_str).collect();
            found.sort_unstable();
            assert_eq!(found, expected, "{agent}: {text}");
        }
    }
}
