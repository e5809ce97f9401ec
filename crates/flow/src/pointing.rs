//! References to earlier messages: "dim it a bit", "how many of those are in stock?".

use convoke_decide::{Candidate, LocalDecision, Verdict};
use convoke_model::{Name, SkillFields};
use serde_json::{Map, Value};

use crate::catalogue::{Catalogue, words};
use crate::memory::{RequestTarget, Topic};

/// Words that refer to something mentioned before.
const POINTING_WORDS: [&str; 12] = [
    "it", "its", "they", "them", "their", "that", "this", "those", "these", "there", "ones", "same",
];

/// Forms of "be". Next to one, "there" refers to no place.
const FORMS_OF_BE: [&str; 5] = ["is", "are", "was", "were", "be"];

/// First words of a follow-up question.
const FOLLOW_UP_OPENINGS: [&[&str]; 12] = [
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

/// Limit of words in a follow-up question.
const MAX_FOLLOW_UP_WORDS: usize = 8;

/// Whether a text refers to something mentioned before.
pub(crate) fn points_back(text: &str) -> bool {
    words(text)
        .iter()
        .any(|word| POINTING_WORDS.contains(&word.as_str()))
}

/// Whether a text is a follow-up question: "and last month?", "what about the north?".
pub(crate) fn goes_on(text: &str) -> bool {
    let words = words(text);
    let begins = |beginning: &&[&str]| {
        words.len() >= beginning.len()
            && words
                .iter()
                .zip(beginning.iter())
                .all(|(word, other)| word == other)
    };
    words.len() <= MAX_FOLLOW_UP_WORDS
        && (FOLLOW_UP_OPENINGS.iter().any(begins) || points_back(text))
}

/// Whether "there" refers to a place mentioned before. In "is there any light on" it does not.
fn points_there(text: &str) -> bool {
    let words = words(text);
    let is_being = |at: Option<usize>| {
        let word = at.and_then(|at| words.get(at));
        word.is_some_and(|word| FORMS_OF_BE.contains(&word.as_str()))
    };
    words.iter().enumerate().any(|(at, word)| {
        word == "there" && !is_being(at.checked_sub(1)) && !is_being(at.checked_add(1))
    })
}

/// Whether a text refers to a thing mentioned before, other than by "there".
fn points_at_it(text: &str) -> bool {
    words(text)
        .iter()
        .any(|word| word != "there" && POINTING_WORDS.contains(&word.as_str()))
}

/// Resolves an ambiguous decision for a text with a reference ("turn it off"): chooses the only candidate of the
/// topic's agent.
pub(crate) fn of_agent(
    skills: &Catalogue,
    text: &str,
    mut local: LocalDecision,
    agent: Option<&Name>,
) -> LocalDecision {
    let Some(agent) = agent.filter(|_| local.verdict == Verdict::Ambiguous && points_back(text))
    else {
        return local;
    };
    let is_theirs = |candidate: &&Candidate| {
        let target = skills.target(&candidate.entry);
        target.and_then(RequestTarget::agent) == Some(agent)
    };
    let mut theirs = local.plausible().iter().filter(is_theirs);
    if let (Some(only), None) = (theirs.next(), theirs.next()) {
        local.candidates = vec![only.clone()];
        local.verdict = Verdict::Chosen;
    }
    local
}

/// Fills slots that the message only refers to, from the topic.
///
/// Values come from a topic of the skill's own agent ("play jazz in the kitchen", "turn it down"), or from any topic if
/// the message says "there" ("how warm is it there"). To dim "it" after a topic of the music agent would be a guess.
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
    fn follow_up_questions_are_recognized() {
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
    fn there_refers_to_a_place_unless_next_to_a_form_of_be() {
        assert!(points_there("how warm is it there") && points_there("There, turn it off"));
        assert!(!points_there("is there any light on") && !points_there("there are too many"));
        assert!(points_at_it("turn those off") && !points_at_it("lights off there"));
    }

    #[test]
    fn references_take_slots_from_the_same_agent_or_with_there_from_any() {
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
