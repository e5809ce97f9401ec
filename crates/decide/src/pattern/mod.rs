//! Sentence patterns: syntax, compiled form, and search for the best match.

mod closed;
mod index;
mod phrasebook;
mod program;
mod search;
mod syntax;

pub(crate) use closed::ClosedValues;
pub(crate) use index::{PatternMatch, Patterns};
pub(crate) use phrasebook::{PhraseError, Phrasebook};
pub(crate) use program::Program;
pub use search::MAX_ALTERNATIVES;
pub(crate) use syntax::{Part, parse};

use std::collections::HashMap;

use crate::words::Words;

/// Longer texts are left to the classifier, which bounds the work of matching.
pub(crate) const MAX_WORDS: usize = 512;

/// The number of every word that occurs in no pattern.
const UNKNOWN: u32 = u32::MAX;

/// Numbers of the words in patterns and slot values.
#[derive(Debug, Default)]
pub(crate) struct Lexicon {
    numbers: HashMap<String, u32>,
}

impl Lexicon {
    fn intern(&mut self, word: &str) -> u32 {
        if let Some(&number) = self.numbers.get(word) {
            return number;
        }
        let number = u32::try_from(self.numbers.len()).unwrap_or(UNKNOWN);
        self.numbers.insert(word.to_owned(), number);
        number
    }

    /// The number of each word of a text, in order.
    pub(crate) fn numbers(&self, words: &Words<'_>) -> Vec<u32> {
        words
            .normals()
            .map(|word| self.numbers.get(word).copied().unwrap_or(UNKNOWN))
            .collect()
    }
}

/// The weight of a word when matches are compared.
fn length_of(word: &str) -> u32 {
    u32::try_from(word.chars().count()).unwrap_or(u32::MAX)
}
