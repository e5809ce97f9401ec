//! Training texts of the classifier: descriptions, examples, and sentences generated from patterns.

use std::collections::BTreeSet;

use crate::classifier::TrainingText;
use crate::entry::Entry;
use crate::pattern::Part;

/// Sentences generated from one pattern for training.
const SENTENCES_PER_PATTERN: usize = 4;

/// The training texts of a whole catalogue, in order.
pub(crate) fn training_texts(
    entries: &[Entry],
    sentences: &[Vec<Vec<Part>>],
    out_of_scope: &[String],
) -> Vec<TrainingText> {
    let mut training_texts = Vec::new();
    for (number, (entry, sentences)) in entries.iter().zip(sentences).enumerate() {
        let mut learn = |text: String, is_utterance| {
            if !text.trim().is_empty() {
                training_texts.push(TrainingText {
                    text,
                    class: Some(number),
                    is_utterance,
                });
            }
        };
        learn(entry.description.clone(), false);
        for example in &entry.examples {
            learn(example.clone(), true);
        }
        for text in sentences
            .iter()
            .flat_map(|parts| generated_sentences(parts, entry))
        {
            learn(text, false);
        }
    }
    training_texts.extend(out_of_scope.iter().map(|text| TrainingText {
        text: text.clone(),
        class: None,
        is_utterance: true,
    }));
    training_texts
}

/// Sentences generated from a pattern, without its free slots: each uses other alternatives, and every
/// second one omits optional parts.
fn generated_sentences(parts: &[Part], entry: &Entry) -> BTreeSet<String> {
    (0..SENTENCES_PER_PATTERN)
        .map(|variant| {
            let mut words = Vec::new();
            generate(parts, entry, variant, &mut words);
            words.join(" ")
        })
        .collect()
}

fn generate(parts: &[Part], entry: &Entry, variant: usize, words: &mut Vec<String>) {
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
                generate(&branches[variant % branches.len()], entry, variant, words);
            }
        }
    }
}
