//! All patterns of a catalogue, indexed by words that they require.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::program::{Program, RequiredWords};
use super::search::{PreparedText, Score, Table};
use super::syntax::Part;
use super::{ClosedValues, Lexicon, MAX_WORDS};
use crate::politeness::Phrases;
use crate::quotation;
use crate::words::Words;

/// The patterns of all entries.
#[derive(Debug, Default)]
pub(crate) struct Patterns {
    patterns: Vec<Pattern>,
    /// For each word, the patterns to try when a text contains it.
    by_word: HashMap<u32, Vec<usize>>,
}

#[derive(Debug)]
struct Pattern {
    entry: usize,
    program: Program,
}

/// An entry that matches, with its best pattern.
#[derive(Debug)]
pub(crate) struct PatternMatch {
    /// The entry's index in the catalogue.
    pub(crate) entry: usize,
    /// Higher is better.
    pub(crate) score: Score,
    pub(crate) slots: BTreeMap<String, String>,
    /// Other slots that the same pattern can extract, most likely first.
    pub(crate) alternatives: Vec<BTreeMap<String, String>>,
}

impl Patterns {
    pub(crate) fn add(&mut self, entry: usize, program: Program) {
        self.patterns.push(Pattern { entry, program });
    }

    /// Indexes every pattern by its most selective required words. `parts` are those of all patterns in
    /// the order they were added, with the closed slots of their entries.
    pub(crate) fn index<'p>(
        &mut self,
        parts: impl Iterator<Item = (&'p Vec<Part>, &'p BTreeMap<String, Arc<ClosedValues>>)>,
        lexicon: &mut Lexicon,
    ) {
        for (pattern, (parts, closed)) in self.patterns.iter_mut().zip(parts) {
            pattern.program.find_needs(parts, closed, lexicon);
        }
        let mut expand_used: HashMap<u32, usize> = HashMap::new();
        for word in self
            .patterns
            .iter()
            .flat_map(|p| p.program.needs.iter().flatten())
        {
            *expand_used.entry(*word).or_default() += 1;
        }
        self.by_word.clear();
        for (number, pattern) in self.patterns.iter().enumerate() {
            let selectivity = |need: &&RequiredWords| {
                need.iter()
                    .map(|word| expand_used.get(word).copied().unwrap_or(0))
                    .sum::<usize>()
            };
            for &word in pattern
                .program
                .needs
                .iter()
                .min_by_key(selectivity)
                .into_iter()
                .flatten()
            {
                self.by_word.entry(word).or_default().push(number);
            }
        }
    }

    /// The entries that match the whole text, best first; equally good ones in catalogue order.
    pub(crate) fn matches(
        &self,
        words: &Words<'_>,
        numbers: &[u32],
        phrases: &Phrases,
    ) -> Vec<PatternMatch> {
        if numbers.len() > MAX_WORDS || self.patterns.is_empty() {
            return Vec::new();
        }
        let mut present = numbers.to_vec();
        present.sort_unstable();
        present.dedup();
        let mut worth_trying: Vec<usize> = present
            .iter()
            .filter_map(|word| self.by_word.get(word))
            .flatten()
            .copied()
            .collect();
        worth_trying.sort_unstable();
        worth_trying.dedup();
        worth_trying.retain(|&number| {
            self.patterns[number]
                .program
                .needs
                .iter()
                .all(|need| need.iter().any(|word| present.binary_search(word).is_ok()))
        });
        if worth_trying.is_empty() {
            return Vec::new();
        }
        let edges = phrases.edges(words);
        let quoted = quotation::inside(words);
        let text = PreparedText {
            words,
            numbers,
            edges: &edges,
            quoted: &quoted,
        };
        let mut table = Table::default();
        // The best pattern of each entry; the first one of equally good ones.
        let mut best: BTreeMap<usize, (Score, usize)> = BTreeMap::new();
        for number in worth_trying {
            let pattern = &self.patterns[number];
            if let Some((score, _)) = pattern.program.best(&text, &mut table) {
                let entry_best = best.entry(pattern.entry).or_insert((score, number));
                if score > entry_best.0 {
                    *entry_best = (score, number);
                }
            }
        }
        let mut matches: Vec<PatternMatch> = best
            .into_iter()
            .map(|(entry, (score, number))| {
                let (slots, alternatives) = self.patterns[number].program.read(&text, &mut table);
                PatternMatch {
                    entry,
                    score,
                    slots,
                    alternatives,
                }
            })
            .collect();
        matches.sort_by_key(|found| std::cmp::Reverse(found.score));
        matches
    }
}
