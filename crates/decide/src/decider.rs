//! Decides locally what a text asks for: sentence patterns first, then the classifier.

use std::collections::{BTreeMap, BTreeSet};

use crate::classifier::{Classifier, Lesson};
use crate::entry::{Entry, Options};
use crate::pattern::{ClosedValues, Lexicon, Part, PatternMatch, Patterns, Program, parse};
use crate::politeness::Phrases;
use crate::problem::BuildProblem;
use crate::words::Words;

/// How many candidates a decision names at most.
pub const MAX_CANDIDATES: usize = 5;

/// The confidence that a pattern's match deserves; several equally good ones share it.
const PATTERN_CONFIDENCE: f64 = 0.99;

/// Candidates below this are not worth asking about.
const PLAUSIBLE: f64 = 0.1;

/// How many sentences are made of one pattern for the classifier to learn from.
const SENTENCES_OF_A_PATTERN: usize = 4;

/// Decides over a fixed catalogue. Building it compiles the patterns and trains the classifier;
/// deciding takes microseconds, changes nothing, and gives the same answer every time.
#[derive(Debug)]
pub struct LocalDecider {
    entries: Vec<Compiled>,
    threshold: f64,
    margin: f64,
    lexicon: Lexicon,
    phrases: Phrases,
    patterns: Patterns,
    classifier: Classifier,
}

#[derive(Debug)]
struct Compiled {
    name: String,
    closed: BTreeMap<String, ClosedValues>,
}

/// What a text seems to ask for.
#[derive(Debug, Clone, PartialEq)]
pub struct LocalDecision {
    /// The best entries, best first, at most [`MAX_CANDIDATES`].
    pub candidates: Vec<Candidate>,
    /// What to do with them.
    pub verdict: Verdict,
}

/// An entry that may be meant.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    /// The entry's name.
    pub entry: String,
    /// The probability that it is meant, 0 to 1.
    pub confidence: f64,
    /// What the text says of its slots: the person's own words, or a closed slot's value.
    pub slots: BTreeMap<String, String>,
    /// What found it.
    pub by: FoundBy,
}

/// What found a candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FoundBy {
    /// A sentence pattern matched the whole text.
    Pattern,
    /// The classifier knows similar examples.
    Classifier,
}

/// What to do with the candidates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The first candidate is meant.
    Chosen,
    /// One of the [`LocalDecision::plausible`] candidates may be meant: ask, naming them.
    Ambiguous,
    /// No entry covers the text.
    Unknown,
}

impl LocalDecision {
    /// The chosen candidate.
    pub fn chosen(&self) -> Option<&Candidate> {
        (self.verdict == Verdict::Chosen)
            .then(|| self.candidates.first())
            .flatten()
    }

    /// The candidates that a clarifying question should name: none if no entry covers the text.
    pub fn plausible(&self) -> &[Candidate] {
        match self.verdict {
            Verdict::Unknown => &[],
            Verdict::Chosen => self.candidates.get(..1).unwrap_or_default(),
            Verdict::Ambiguous => {
                let count = self
                    .candidates
                    .iter()
                    .take_while(|one| one.confidence >= PLAUSIBLE)
                    .count();
                &self.candidates[..count.max(1).min(self.candidates.len())]
            }
        }
    }
}

impl LocalDecider {
    /// Compiles all patterns and trains the classifier, or reports all that is wrong.
    pub fn build(entries: &[Entry], options: Options) -> Result<Self, Vec<BuildProblem>> {
        let mut problems = Vec::new();
        check(entries, &options, &mut problems);
        let mut lexicon = Lexicon::default();
        let mut patterns = Patterns::default();
        let mut compiled = Vec::with_capacity(entries.len());
        let mut lessons: Vec<Lesson> = Vec::new();
        for (number, entry) in entries.iter().enumerate() {
            let mut closed = BTreeMap::new();
            for (slot, values) in &entry.slots {
                let values =
                    ClosedValues::compile(&entry.name, slot, values, &mut lexicon, &mut problems);
                if let Some(values) = values {
                    closed.insert(slot.replace('-', "_"), values);
                }
            }
            let mut learn = |text: String, spoken| {
                if !text.trim().is_empty() {
                    lessons.push(Lesson {
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
            for sentence in &entry.sentences {
                let program = parse(sentence).and_then(|parts| {
                    let program = Program::compile(&parts, &closed, &mut lexicon)?;
                    for text in spelt_out(&parts, entry) {
                        learn(text, false);
                    }
                    Ok(program)
                });
                match program {
                    Ok(program) => patterns.add(number, program),
                    Err(fault) => problems.push(BuildProblem {
                        code: fault.code,
                        entry: entry.name.clone(),
                        pattern: Some(sentence.clone()),
                        column: Some(fault.column),
                        message: fault.message,
                    }),
                }
            }
            compiled.push(Compiled {
                name: entry.name.clone(),
                closed,
            });
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        patterns.index();
        let out_of_scope = options.out_of_scope.into_iter();
        lessons.extend(out_of_scope.map(|text| Lesson {
            text,
            class: None,
            spoken: true,
        }));
        Ok(Self {
            classifier: Classifier::train(compiled.len(), &lessons),
            entries: compiled,
            threshold: options.threshold,
            margin: options.margin,
            lexicon,
            phrases: Phrases::of(&options.politeness),
            patterns,
        })
    }

    /// Decides what a text asks for. Any text is fine: empty, endless, or in no language at all.
    pub fn decide(&self, text: &str) -> LocalDecision {
        // More words than any pattern can match need not be cut at all.
        let words = Words::of_at_most(text, crate::pattern::MAX_WORDS + 1);
        let numbers = self.lexicon.numbers(&words);
        let matches = self.patterns.matches(&words, &numbers, &self.phrases);
        if !matches.is_empty() {
            return self.by_patterns(matches);
        }
        if words.len() == 0 {
            return LocalDecision {
                candidates: Vec::new(),
                verdict: Verdict::Unknown,
            };
        }
        self.by_classifier(text, &numbers)
    }

    /// The values of an entry's closed slots that the text names anywhere, by the longest words
    /// that mean one. This is what slots can be known when no pattern matched.
    pub fn closed_slots(&self, entry: &str, text: &str) -> BTreeMap<String, String> {
        let words = Words::of_at_most(text, crate::pattern::MAX_WORDS);
        let numbers = self.lexicon.numbers(&words);
        let entry = self.entries.iter().find(|compiled| compiled.name == entry);
        entry
            .map(|entry| entry.closed_slots(&numbers))
            .unwrap_or_default()
    }

    fn by_patterns(&self, matches: Vec<PatternMatch>) -> LocalDecision {
        let best = matches
            .iter()
            .take_while(|found| found.score == matches[0].score)
            .count();
        let others = matches.len() - best;
        let share = |total: f64, count: usize| total / f64::from(u32::try_from(count).unwrap_or(1));
        let candidates = matches
            .into_iter()
            .enumerate()
            .take(MAX_CANDIDATES)
            .map(|(place, found)| Candidate {
                entry: self.entries[found.entry].name.clone(),
                confidence: if place < best {
                    share(PATTERN_CONFIDENCE, best)
                } else {
                    share(1.0 - PATTERN_CONFIDENCE, others)
                },
                slots: found.slots,
                by: FoundBy::Pattern,
            })
            .collect();
        let verdict = if best == 1 {
            Verdict::Chosen
        } else {
            Verdict::Ambiguous
        };
        LocalDecision {
            candidates,
            verdict,
        }
    }

    fn by_classifier(&self, text: &str, numbers: &[u32]) -> LocalDecision {
        let judgement = self.classifier.judge(text);
        let mut shares = judgement.ranked.iter().map(|&(_, share)| share);
        let best = shares.next().unwrap_or(0.0);
        let second = shares.next().unwrap_or(0.0);
        let verdict = if best >= self.threshold && best - second >= self.margin {
            Verdict::Chosen
        } else if best >= self.threshold || judgement.none < 0.5 {
            Verdict::Ambiguous
        } else {
            Verdict::Unknown
        };
        let candidates = judgement
            .ranked
            .into_iter()
            .take(MAX_CANDIDATES)
            .map(|(number, confidence)| Candidate {
                entry: self.entries[number].name.clone(),
                confidence,
                slots: self.entries[number].closed_slots(numbers),
                by: FoundBy::Classifier,
            })
            .collect();
        LocalDecision {
            candidates,
            verdict,
        }
    }
}

impl Compiled {
    fn closed_slots(&self, numbers: &[u32]) -> BTreeMap<String, String> {
        let found = self.closed.iter().filter_map(|(slot, values)| {
            values
                .find(numbers)
                .map(|value| (slot.clone(), value.to_owned()))
        });
        found.collect()
    }
}

fn check(entries: &[Entry], options: &Options, problems: &mut Vec<BuildProblem>) {
    if entries.is_empty() {
        problems.push(BuildProblem::catalogue(
            "catalogue.empty",
            "there is nothing to decide over; add an entry",
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
                "another entry has this name; give each its own",
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
                "there is no example, sentence or description to recognise it by; add one",
            ));
        }
    }
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
            Part::Word(word) => words.push(word.clone()),
            Part::Slot { name, .. } => {
                let values = entry.slots.get(name).map(|values| &values.0);
                let values: Vec<&String> =
                    values.into_iter().flatten().flat_map(|(_, w)| w).collect();
                if !values.is_empty() {
                    words.push(values[variant % values.len()].clone());
                }
            }
            Part::Optional(_) if variant % 2 == 1 => {}
            Part::Choice(branches) | Part::Optional(branches) => {
                spell(&branches[variant % branches.len()], entry, variant, words);
            }
        }
    }
}
