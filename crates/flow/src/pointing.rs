//! Words that point back: "dim it a bit", "how many of those are in stock?".

use crate::catalogue::words;
use crate::memory::Topic;
use convoke_model::SkillFields;
use serde_json::{Map, Value};

/// Words that mean something that was spoken of before.
const POINTING: [&str; 12] = [
    "it", "its", "they", "them", "their", "that", "this", "those", "these", "there", "ones", "same",
];

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

/// Fills in what a skill must know, and the message only points at, from what was done before.
pub(crate) fn fill_in(
    skill: &SkillFields,
    slots: &mut Map<String, Value>,
    topic: &Topic,
    text: &str,
) {
    if !points_back(text) {
        return;
    }
    for (name, slot) in &skill.slots {
        let may_be = slot.ask.is_some() && slot.refers_to.is_none();
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
}
