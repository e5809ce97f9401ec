//! Decides locally what a text asks for: sentence patterns first, then the classifier.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::beginnings::Beginnings;
use crate::catalogue::{Catalogue, Compiled};
use crate::classifier::Classifier;
use crate::entry::{Entry, Options};
use crate::lessons::lessons;
use crate::pattern::{Lexicon, PatternMatch, Patterns};
use crate::politeness::Phrases;
use crate::problem::BuildProblem;
use crate::training::{Classifiers, Fingerprint, Training};
use crate::words::Words;

/// How many candidates a decision names at most.
pub const MAX_CANDIDATES: usize = 5;

pub use crate::pattern::MAX_ALTERNATIVES;

/// The confidence that a pattern's match deserves; several equally good ones share it.
const PATTERN_CONFIDENCE: f64 = 0.99;

/// Candidates below this are not worth asking about.
const PLAUSIBLE: f64 = 0.1;

/// Decides over a fixed catalogue. Building it compiles the patterns; the first text that none of
/// them matches trains the classifier. Deciding takes microseconds, and gives the same answer every
/// time.
#[derive(Debug)]
pub struct LocalDecider {
    entries: Vec<Compiled>,
    threshold: f64,
    margin: f64,
    lexicon: Lexicon,
    phrases: Phrases,
    patterns: Patterns,
    beginnings: Beginnings,
    training: Arc<Training>,
}

/// What a text seems to ask for.
#[derive(Debug, Clone, PartialEq)]
pub struct LocalDecision {
    /// The best entries, best first, at most [`MAX_CANDIDATES`].
    pub candidates: Vec<Candidate>,
    /// What to do with them.
    pub verdict: Verdict,
    /// The probability that no entry covers the text, 0 to 1.
    pub outside: f64,
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
    /// What else the same pattern could say of its slots, the likeliest first, at most
    /// [`MAX_ALTERNATIVES`]: where several splits fit ("rename go to the gym to go to the pool"),
    /// only what the user really has tells which is meant.
    pub alternatives: Vec<BTreeMap<String, String>>,
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
    /// That no entry covers a text.
    pub fn nothing() -> Self {
        Self {
            candidates: Vec::new(),
            verdict: Verdict::Unknown,
            outside: 1.0,
        }
    }

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
    /// Compiles all patterns, or reports all that is wrong. The classifier is trained when the
    /// first text comes that no pattern matches, which takes some milliseconds once.
    pub fn build(entries: &[Entry], options: Options) -> Result<Self, Vec<BuildProblem>> {
        Self::build_sharing(entries, options, &Classifiers::default())
    }

    /// The same, with the classifier of another decider of the collection that learns from the same.
    pub fn build_sharing(
        entries: &[Entry],
        options: Options,
        classifiers: &Classifiers,
    ) -> Result<Self, Vec<BuildProblem>> {
        let mut catalogue = Catalogue::compile(entries, &options)?;
        catalogue.index();
        let Catalogue {
            entries: compiled,
            lexicon,
            patterns,
            sentences,
        } = catalogue;
        let phrases = Phrases::of(&options.politeness);
        let beginnings = Beginnings::of(entries, &options.out_of_scope, &phrases);
        let fingerprint = Fingerprint::of(entries, &options);
        let learnt_from = entries.to_vec();
        let out_of_scope = options.out_of_scope;
        let train = move || {
            let lessons = lessons(&learnt_from, &sentences, &out_of_scope);
            Classifier::train(learnt_from.len(), &lessons)
        };
        Ok(Self {
            entries: compiled,
            threshold: options.threshold,
            margin: options.margin,
            lexicon,
            phrases,
            patterns,
            beginnings,
            training: classifiers.of(fingerprint, train),
        })
    }

    /// Trains the classifier now, unless it is trained, so that no request has to wait for it.
    /// Whoever comes first trains; the others wait. The outcome is always the same. Where training
    /// panics, only texts that a pattern matches are decided from then on.
    pub fn train(&self) {
        self.training.classifier();
    }

    /// Whether no text has to wait for training any more.
    pub fn is_trained(&self) -> bool {
        self.training.is_over()
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
            return LocalDecision::nothing();
        }
        match self.training.classifier() {
            Some(classifier) => self.by_classifier(classifier, text, &numbers),
            None => LocalDecision::nothing(),
        }
    }

    /// Whether a text begins as requests do, by the examples of what the entries cover and of what
    /// none covers. It tells a request from a name where no pattern matches: "call the neighbours"
    /// behind "play jazz and", where there might have been "pepper" behind "play salt and".
    pub fn begins_a_request(&self, text: &str) -> bool {
        self.beginnings.begin(text, &self.phrases)
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
                alternatives: found.alternatives,
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
            outside: 0.0,
        }
    }

    fn by_classifier(&self, classifier: &Classifier, text: &str, numbers: &[u32]) -> LocalDecision {
        let judgement = classifier.judge(text);
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
                alternatives: Vec::new(),
                by: FoundBy::Classifier,
            })
            .collect();
        LocalDecision {
            candidates,
            verdict,
            outside: judgement.none,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_training_panics_patterns_are_still_understood() {
        let entry = Entry {
            name: "add".into(),
            sentences: vec!["add {title}".into()],
            ..Entry::default()
        };
        let mut decider = LocalDecider::build(&[entry], Options::default()).unwrap();
        decider.training = Arc::new(Training::by(|| panic!("an example nobody thought of")));
        for _ in 0..2 {
            let decision = decider.decide("what else is there");
            assert_eq!(decision, LocalDecision::nothing());
        }
        assert!(decider.is_trained(), "it is not tried again");
        assert_eq!(decider.decide("add milk").verdict, Verdict::Chosen);
    }
}
