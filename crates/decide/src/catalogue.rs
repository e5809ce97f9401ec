//! Compiles a catalogue's patterns, or reports all its problems.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::entry::{Entry, Options};
use crate::pattern::{
    ClosedValues, Lexicon, Part, Patterns, PhraseError, Phrasebook, Program, parse,
};
use crate::problem::BuildProblem;
use crate::words::Words;

/// The compiled patterns of all entries.
#[derive(Debug)]
pub(crate) struct Catalogue {
    pub(crate) entries: Vec<Compiled>,
    pub(crate) lexicon: Lexicon,
    pub(crate) patterns: Patterns,
    /// The parts of every entry's sentences, with phrases expanded.
    pub(crate) sentences: Vec<Vec<Vec<Part>>>,
}

/// An entry's name and closed slots.
#[derive(Debug)]
pub(crate) struct Compiled {
    pub(crate) name: String,
    closed: BTreeMap<String, Arc<ClosedValues>>,
}

/// All problems of a catalogue, without training.
pub fn check(entries: &[Entry], options: &Options) -> Vec<BuildProblem> {
    Catalogue::compile(entries, options)
        .err()
        .unwrap_or_default()
}

impl Catalogue {
    /// Compiles all patterns, or reports all problems.
    pub(crate) fn compile(entries: &[Entry], options: &Options) -> Result<Self, Vec<BuildProblem>> {
        let mut problems = Vec::new();
        check_whole(entries, options, &mut problems);
        let phrasebook = Phrasebook::read(&options.phrases, &mut problems);
        let mut catalogue = Self {
            entries: Vec::with_capacity(entries.len()),
            lexicon: Lexicon::default(),
            patterns: Patterns::default(),
            sentences: Vec::with_capacity(entries.len()),
        };
        for entry in entries {
            catalogue.add(entry, &phrasebook, &mut problems);
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        Ok(catalogue)
    }

    /// Builds the index by words, which only deciding needs.
    pub(crate) fn index(&mut self) {
        let entries = self.entries.iter().zip(&self.sentences);
        let parts = entries
            .flat_map(|(entry, sentences)| sentences.iter().map(|parts| (parts, &entry.closed)));
        self.patterns.index(parts, &mut self.lexicon);
    }

    fn add(&mut self, entry: &Entry, phrasebook: &Phrasebook, problems: &mut Vec<BuildProblem>) {
        let number = self.entries.len();
        let lexicon = &mut self.lexicon;
        let mut closed = BTreeMap::new();
        for (slot, values) in &entry.slots {
            if let Some(values) =
                ClosedValues::compile(&entry.name, slot, values, lexicon, problems)
            {
                closed.insert(slot.replace('-', "_"), Arc::new(values));
            }
        }
        let mut sentences = Vec::with_capacity(entry.sentences.len());
        for sentence in &entry.sentences {
            let program = parse(sentence)
                .map_err(PhraseError::from)
                .and_then(|parts| phrasebook.expand(parts))
                .and_then(|parts| {
                    let program = Program::compile(&parts, &closed, lexicon)?;
                    sentences.push(parts);
                    Ok(program)
                });
            match program {
                Ok(program) => self.patterns.add(number, program),
                Err(PhraseError::Phrase) => {}
                Err(PhraseError::Pattern(fault)) => problems.push(BuildProblem {
                    code: fault.code,
                    entry: entry.name.clone(),
                    phrase: None,
                    pattern: Some(sentence.clone()),
                    column: Some(fault.column),
                    message: fault.message,
                }),
            }
        }
        self.sentences.push(sentences);
        self.entries.push(Compiled {
            name: entry.name.clone(),
            closed,
        });
    }
}

impl Compiled {
    /// The closed slot values of an answer to a question for the slot `asked`, with those of other slots that are still
    /// `open`. Empty if the answer names no value of the asked slot, or several, or says anything else that could change
    /// what it means.
    pub(crate) fn answered_slots(
        &self,
        asked: &str,
        open: &[&str],
        words: &Words<'_>,
        numbers: &[u32],
    ) -> BTreeMap<String, String> {
        let mut free = vec![true; numbers.len()];
        let mut found = BTreeMap::new();
        for slot in std::iter::once(&asked).chain(open) {
            let named = self.closed.get(&slot.replace('-', "_"));
            match named.and_then(|values| values.only(numbers, &free)) {
                Some((value, range)) => {
                    free[range].fill(false);
                    found.insert((*slot).to_owned(), value.to_owned());
                }
                None if *slot == asked => return BTreeMap::new(),
                None => {}
            }
        }
        let mut rest = words.normals().zip(&free).filter(|(_, free)| **free);
        if rest.any(|(word, _)| changes_a_value(word)) {
            return BTreeMap::new();
        }
        found
    }

    /// The closed slot values that a text names anywhere.
    pub(crate) fn closed_slots(&self, numbers: &[u32]) -> BTreeMap<String, String> {
        let found = self.closed.iter().filter_map(|(slot, values)| {
            values
                .find(numbers)
                .map(|value| (slot.clone(), value.to_owned()))
        });
        found.collect()
    }
}

/// Whether a word beside a value makes another of it: "10 30" is not 10, "not Friday" is not Friday.
fn changes_a_value(word: &str) -> bool {
    const CHANGING: [&str; 15] = [
        "not", "no", "dont", "cant", "cannot", "wont", "except", "but", "without", "or", "before",
        "after", "half", "past", "quarter",
    ];
    CHANGING.contains(&word) || word.chars().any(char::is_numeric)
}

fn check_whole(entries: &[Entry], options: &Options, problems: &mut Vec<BuildProblem>) {
    if entries.is_empty() {
        problems.push(BuildProblem::catalogue(
            "catalogue.empty",
            "the catalogue has no entries; add one",
        ));
    }
    for (name, value) in [("threshold", options.threshold), ("margin", options.margin)] {
        if !(0.0..=1.0).contains(&value) {
            problems.push(BuildProblem::catalogue(
                "options.range",
                format!("{name} must lie between 0 and 1, not {value}"),
            ));
        }
    }
    let mut names = BTreeSet::new();
    for entry in entries {
        if !names.insert(&entry.name) {
            problems.push(BuildProblem::entry(
                "entry.name_twice",
                &entry.name,
                "another entry has this name; rename one of them",
            ));
        }
        let texts = entry
            .examples
            .iter()
            .chain(&entry.sentences)
            .chain([&entry.description]);
        if texts.into_iter().all(|text| text.trim().is_empty()) {
            problems.push(BuildProblem::entry(
                "entry.nothing_to_learn",
                &entry.name,
                "the entry has no example, sentence or description; add one",
            ));
        }
    }
}
