//! Slots with a closed set of values, each with the words that mean it.

use std::collections::BTreeMap;
use std::ops::Range;

use super::{Lexicon, length_of};
use crate::entry::SlotValues;
use crate::problem::BuildProblem;
use crate::words::Words;

/// The phrases of all values of a slot, longest first.
#[derive(Debug, Default, Clone)]
pub(crate) struct ClosedValues {
    phrases: Vec<Phrase>,
}

/// A sequence of words that means a value.
#[derive(Debug, Clone)]
pub(super) struct Phrase {
    pub(super) words: Vec<u32>,
    /// Number of characters, for comparing matches.
    pub(super) length: u32,
    pub(super) value: String,
}

impl ClosedValues {
    /// Compiles the values of a slot; a value's name is one of its phrases. `None` for a slot that takes
    /// free text.
    pub(crate) fn compile(
        entry: &str,
        slot: &str,
        values: &SlotValues,
        lexicon: &mut Lexicon,
        problems: &mut Vec<BuildProblem>,
    ) -> Option<Self> {
        if values.0.is_empty() {
            return None;
        }
        let mut owners: BTreeMap<Vec<String>, &str> = BTreeMap::new();
        for (value, texts) in &values.0 {
            for text in texts.iter().chain([value]) {
                let words: Vec<String> = Words::of(text).normals().map(str::to_owned).collect();
                if words.is_empty() {
                    // A value's own name may be a mere code; only explicitly given words must be words.
                    if text != value || texts.is_empty() {
                        problems.push(BuildProblem::entry(
                            "slot.word_empty",
                            entry,
                            format!(
                                "slot `{slot}`: `{text}` has no letter, digit or symbol to match"
                            ),
                        ));
                    }
                    continue;
                }
                let owner = owners.entry(words).or_insert(value);
                if *owner != value {
                    problems.push(BuildProblem::entry(
                        "slot.word_twice",
                        entry,
                        format!(
                            "slot `{slot}`: `{text}` means both `{owner}` and `{value}`; keep one"
                        ),
                    ));
                }
            }
        }
        let mut phrases: Vec<Phrase> = owners
            .into_iter()
            .map(|(words, value)| Phrase {
                length: words.iter().map(|word| length_of(word)).sum(),
                words: words.iter().map(|word| lexicon.intern(word)).collect(),
                value: value.to_owned(),
            })
            .collect();
        // The sort is stable, so equally long phrases stay in alphabetical order.
        phrases.sort_by_key(|phrase| std::cmp::Reverse((phrase.words.len(), phrase.length)));
        Some(Self { phrases })
    }

    /// The phrases that match at a position, longest first.
    pub(super) fn at<'s, 'w>(
        &'s self,
        words: &'w [u32],
        position: usize,
    ) -> impl Iterator<Item = &'s Phrase> + use<'s, 'w> {
        self.phrases
            .iter()
            .filter(move |phrase| words[position..].starts_with(&phrase.words))
    }

    /// The first words of all phrases.
    pub(super) fn first_words(&self) -> impl Iterator<Item = u32> {
        self.phrases
            .iter()
            .filter_map(|phrase| phrase.words.first().copied())
    }

    /// The only value that a text names, and the words that do, among those that are `free`. `None` if it names none, or
    /// several.
    pub(crate) fn only(&self, words: &[u32], free: &[bool]) -> Option<(&str, Range<usize>)> {
        let mut found: Option<(&str, Range<usize>)> = None;
        let mut position = 0;
        while position < words.len() {
            let is_free = |phrase: &&Phrase| {
                let range = position..position + phrase.words.len();
                free.get(range)
                    .is_some_and(|free| free.iter().all(|free| *free))
            };
            let Some(phrase) = self.at(words, position).find(is_free) else {
                position += 1;
                continue;
            };
            let range = position..position + phrase.words.len();
            position = range.end;
            match &found {
                Some((value, _)) if *value != phrase.value => return None,
                Some(_) => {}
                None => found = Some((&phrase.value, range)),
            }
        }
        found
    }

    /// The value that a text names anywhere: by the longest phrase, then by the first.
    pub(crate) fn find(&self, words: &[u32]) -> Option<&str> {
        let mut best: Option<&Phrase> = None;
        for position in 0..words.len() {
            for phrase in self.at(words, position) {
                if best.is_none_or(|best| phrase.length > best.length) {
                    best = Some(phrase);
                }
            }
        }
        best.map(|phrase| phrase.value.as_str())
    }
}
