//! What the classifier learns from: descriptions, examples, and sentences made of the patterns.

use std::collections::BTreeSet;

use crate::classifier::TrainingText;
use crate::entry::Entry;
use crate::pattern::Part;

/// How many sentences are made of one pattern for the classifier to learn from.
const SENTENCES_OF_A_PATTERN: usize = 4;

/// The lessons of a whole catalogue, in its order.
pub(crate) fn lessons(
    entries: &[Entry],
    sentences: &[Vec<Vec<Part>>],
    out_of_scope: &[String],
) -> Vec<TrainingText> {
    let mut lessons = Vec::new();
    for (number, (entry, sentences)) in entries.iter().zip(sentences).enumerate() {
        let mut learn = |text: String, spoken| {
            if !text.trim().is_empty() {
                lessons.push(TrainingText {
                    text,
                    class: Some(number),
                    spoken,
                });
            }
        };
        learn(entry.description.clone(), false);
        for example in &entry.examples {
            learn(example.clone(), true);
        }
        for text in sentences.iter().flat_map(|parts| spelt_out(parts, entry)) {
            learn(text, false);
        }
    }
    lessons.extend(out_of_scope.iter().map(|text| TrainingText {
        text: text.clone(),
        class: None,
        spoken: true,
    }));
    lessons
}

/// Sentences that a pattern stands for, without its free slots: each takes other alternatives, and
/// every second one leaves out what is optional.
fn spelt_out(parts: &[Part], entry: &Entry) -> BTreeSet<String> {
    (0..SENTENCES_OF_A_PATTERN)
        .map(|variant| {
            let mut words = Vec::new();
            spell(parts, entry, variant, &mut words);
            words.join(" ")
        })
        .collect()
}

fn spell(parts: &[Part], entry: &Entry, variant: usize, words: &mut Vec<String>) {
    for part in parts {
        match part {
            Part::Word(word) => words.push(word.to_string()),
            Part::Slot { name, .. } => {
                let values = entry.slots.get(name).map(|values| &values.0);
                let values: Vec<&String> =
                    values.into_iter().flatten().flat_map(|(_, w)| w).collect();
                if !values.is_empty() {
                    words.push(values[variant % values.len()].clone());
                }
            }
            Part::Phrase { .. } => {}
            Part::Optional(_) if variant % 2 == 1 => {}
            Part::Choice(branches) | Part::Optional(branches) => {
                spell(&branches[variant % branches.len()], entry, variant, words);
            }
        }
    }
}
