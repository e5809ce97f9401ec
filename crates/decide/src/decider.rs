//! Decides locally what a text asks for: sentence patterns first, then the classifier.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::catalogue::{Catalogue, Compiled};
use crate::classifier::Classifier;
use crate::entry::{Entry, Options};
use crate::first_words::FirstWords;
use crate::pattern::{Lexicon, PatternMatch, Patterns};
use crate::politeness::Phrases;
use crate::problem::BuildProblem;
use crate::slot_text::trimmed;
use crate::training::{Classifiers, Fingerprint, Training};
use crate::training_texts::training_texts;
use crate::words::Words;

/// Limit of candidates in a decision.
pub const MAX_CANDIDATES: usize = 5;

pub use crate::pattern::MAX_ALTERNATIVES;

/// Confidence of a pattern match; equally good matches share it.
const PATTERN_CONFIDENCE: f64 = 0.99;

/// Candidates below this confidence are not offered.
const PLAUSIBLE: f64 = 0.1;

/// Decides over a fixed catalogue. Building it compiles the patterns; the first text that matches none
/// of them trains the classifier. Decisions take microseconds and are deterministic.
#[derive(Debug)]
pub struct LocalDecider {
    entries: Vec<Compiled>,
    threshold: f64,
    margin: f64,
    lexicon: Lexicon,
    phrases: Phrases,
    patterns: Patterns,
    first_words: FirstWords,
    training: Arc<Training>,
}

/// What a text probably asks for.
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
    /// The slots found in the text: the user's own words, or the value of a closed slot.
    pub slots: BTreeMap<String, String>,
    /// Other slots that the same pattern can extract, most likely first, at most [`MAX_ALTERNATIVES`].
    /// If several splits are possible ("rename go to the gym to go to the pool"), only the user's data
    /// shows which one is meant.
    pub alternatives: Vec<BTreeMap<String, String>>,
    /// How it was found.
    pub by: FoundBy,
}

/// How a candidate was found.
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
    /// One of the [`LocalDecision::plausible`] candidates is meant: ask which.
    Ambiguous,
    /// No entry covers the text.
    Unknown,
}

impl LocalDecision {
    /// The decision that no entry covers a text.
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

    /// The candidates to name in a clarifying question; empty if no entry covers the text.
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
    /// Compiles all patterns, or reports all problems. The classifier is trained by the first text that
    /// matches no pattern, which takes a few milliseconds once.
    pub fn build(entries: &[Entry], options: Options) -> Result<Self, Vec<BuildProblem>> {
        Self::build_sharing(entries, options, &Classifiers::default())
    }

    /// Like [`build`](Self::build), sharing the classifier of another decider with the same training
    /// data.
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
        let first_words = FirstWords::of(entries, &options.out_of_scope, &phrases);
        let fingerprint = Fingerprint::of(entries, &options);
        let learnt_from = entries.to_vec();
        let out_of_scope = options.out_of_scope;
        let train = move || {
            let training_texts = training_texts(&learnt_from, &sentences, &out_of_scope);
            Classifier::train(learnt_from.len(), &training_texts)
        };
        Ok(Self {
            entries: compiled,
            threshold: options.threshold,
            margin: options.margin,
            lexicon,
            phrases,
            patterns,
            first_words,
            training: classifiers.of(fingerprint, train),
        })
    }

    /// Trains the classifier now, if it is not trained, so that no request waits for it. Concurrent
    /// callers wait for the first one. If training panics, only texts that match a pattern are decided
    /// afterwards.
    pub fn train(&self) {
        self.training.classifier();
    }

    /// Whether training is over.
    pub fn is_trained(&self) -> bool {
        self.training.is_over()
    }

    /// Decides what a text asks for. Accepts any text.
    pub fn decide(&self, text: &str) -> LocalDecision {
        // Longer texts match no pattern, so the rest is not split.
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

    /// Whether a text starts like a request, judging by the examples in and out of scope. Distinguishes
    /// a request from a name where no pattern matches: "call the neighbours" after "play jazz and", in
    /// contrast to "pepper" after "play salt and".
    pub fn begins_a_request(&self, text: &str) -> bool {
        self.first_words.starts_like_example(text, &self.phrases)
    }

    /// The values of an entry's closed slots that the text names anywhere, longest match first: the
    /// slots that are known without a pattern.
    pub fn closed_slots(&self, entry: &str, text: &str) -> BTreeMap<String, String> {
        let words = Words::of_at_most(text, crate::pattern::MAX_WORDS);
        let numbers = self.lexicon.numbers(&words);
        let entry = self.entries.iter().find(|compiled| compiled.name == entry);
        entry
            .map(|entry| entry.closed_slots(&numbers))
            .unwrap_or_default()
    }

    /// The closed slots that an answer to a question for one of them fills: the `asked` slot, and others of `open`. Empty
    /// if the answer does not name exactly one value of the asked slot.
    pub fn answered_slots(
        &self,
        entry: &str,
        asked: &str,
        open: &[&str],
        text: &str,
    ) -> BTreeMap<String, String> {
        let words = Words::of_at_most(text, crate::pattern::MAX_WORDS);
        let numbers = self.lexicon.numbers(&words);
        let entry = self.entries.iter().find(|compiled| compiled.name == entry);
        entry
            .map(|entry| entry.answered_slots(asked, open, &words, &numbers))
            .unwrap_or_default()
    }

    /// What a free slot holds if a text answers a question for it: the text without the politeness after it, and without
    /// the punctuation of a sentence.
    pub fn answered_text<'t>(&self, text: &'t str) -> &'t str {
        let words = Words::of_at_most(text, crate::pattern::MAX_WORDS + 1);
        let edges = self.phrases.edges(&words);
        let is_end = |end: &usize| edges.ends.get(*end) == Some(&Some(0));
        let end = (1..words.len()).find(is_end);
        let said = end.map_or(text, |end| &text[..words.word(end - 1).span.end]);
        trimmed(said)
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
        let judgement = classifier.classify(text);
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
    fn patterns_still_match_after_training_panics() {
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
