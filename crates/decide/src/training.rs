//! Lazily trained classifiers, shared by deciders with the same training data. A panic during training
//! disables only the classifier.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};

use sha2::{Digest, Sha256};

use crate::classifier::Classifier;
use crate::entry::{Entry, Options};

/// Classifiers shared by deciders over the same catalogue. Clones share one collection, which drops
/// classifiers that no decider uses.
#[derive(Debug, Clone, Default)]
pub struct Classifiers(Arc<Mutex<HashMap<Fingerprint, Weak<Training>>>>);

impl Classifiers {
    /// The classifier of a catalogue: another decider's, or a new, untrained one.
    pub(crate) fn of(
        &self,
        catalogue: Fingerprint,
        learn: impl FnOnce() -> Classifier + Send + 'static,
    ) -> Arc<Training> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, training| training.strong_count() > 0);
        if let Some(training) = known.get(&catalogue).and_then(Weak::upgrade) {
            return training;
        }
        let training = Arc::new(Training::by(learn));
        known.insert(catalogue, Arc::downgrade(&training));
        training
    }
}

type TrainingJob = Box<dyn FnOnce() -> Option<Classifier> + Send>;

/// A classifier that is trained once, by the first thread that needs it. Others wait.
#[derive(Debug)]
pub(crate) struct Training(LazyLock<Option<Classifier>, TrainingJob>);

impl Training {
    pub(crate) fn by(learn: impl FnOnce() -> Classifier + Send + 'static) -> Self {
        let learn = move || {
            let learnt = catch_unwind(AssertUnwindSafe(learn)).ok();
            if learnt.is_none() {
                tracing::error!(
                    code = "decide.training_failed",
                    "training the classifier panicked; only texts that match a sentence pattern are recognised"
                );
            }
            learnt
        };
        Self(LazyLock::new(Box::new(learn)))
    }

    /// The classifier, or `None` if training panicked.
    pub(crate) fn classifier(&self) -> Option<&Classifier> {
        self.0.as_ref()
    }

    /// Whether training is over, successfully or not.
    pub(crate) fn is_over(&self) -> bool {
        LazyLock::get(&self.0).is_some()
    }
}

/// Identifies the training data of a classifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// Covers a catalogue's entries in order, and the options that affect training.
    pub(crate) fn of(entries: &[Entry], options: &Options) -> Self {
        let mut hash = Sha256::new();
        number(&mut hash, entries.len());
        for entry in entries {
            texts(&mut hash, [&entry.name, &entry.description]);
            texts(&mut hash, &entry.examples);
            texts(&mut hash, &entry.sentences);
            number(&mut hash, entry.slots.len());
            for (slot, values) in &entry.slots {
                texts(&mut hash, [slot]);
                number(&mut hash, values.0.len());
                for (value, words) in &values.0 {
                    texts(&mut hash, [value]);
                    texts(&mut hash, words);
                }
            }
        }
        texts(&mut hash, &options.out_of_scope);
        number(&mut hash, options.phrases.len());
        for (name, phrase) in &options.phrases {
            texts(&mut hash, [name, phrase]);
        }
        Self(hash.finalize().into())
    }
}

/// Hashes texts unambiguously: their number, and each with its length.
fn texts<'t, I>(hash: &mut Sha256, texts: I)
where
    I: IntoIterator<Item = &'t String, IntoIter: ExactSizeIterator>,
{
    let texts = texts.into_iter();
    number(hash, texts.len());
    for text in texts {
        number(hash, text.len());
        hash.update(text);
    }
}

fn number(hash: &mut Sha256, number: usize) {
    hash.update((number as u64).to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, examples: &[&str]) -> Entry {
        Entry {
            name: name.into(),
            examples: examples.iter().map(|&text| text.to_owned()).collect(),
            ..Entry::default()
        }
    }

    #[test]
    fn a_fingerprint_distinguishes_all_training_data() {
        let options = Options::default();
        let of = |entries: &[Entry]| Fingerprint::of(entries, &options);
        let one = of(&[entry("a", &["bc", "d"])]);
        assert_eq!(one, of(&[entry("a", &["bc", "d"])]));
        assert_ne!(one, of(&[entry("a", &["b", "cd"])]));
        assert_ne!(one, of(&[entry("a", &["bc"]), entry("d", &[])]));
        let mut described = entry("a", &["bc"]);
        described.sentences = vec!["d".into()];
        assert_ne!(one, of(&[described]));
        let other = Options {
            out_of_scope: vec!["e".into()],
            ..Options::default()
        };
        assert_ne!(one, Fingerprint::of(&[entry("a", &["bc", "d"])], &other));
        // The threshold does not affect training.
        let stricter = Options {
            threshold: 0.9,
            ..Options::default()
        };
        assert_eq!(one, Fingerprint::of(&[entry("a", &["bc", "d"])], &stricter));
    }

    #[test]
    fn an_unused_classifier_is_dropped() {
        let classifiers = Classifiers::default();
        let fingerprint = |text: &str| Fingerprint::of(&[entry(text, &[])], &Options::default());
        let learn = || Classifier::train(0, &[]);
        let first = classifiers.of(fingerprint("a"), learn);
        let same = classifiers.of(fingerprint("a"), learn);
        assert!(Arc::ptr_eq(&first, &same));
        drop((first, same));
        let _other = classifiers.of(fingerprint("b"), learn);
        assert_eq!(classifiers.0.lock().unwrap().len(), 1);
    }
}
