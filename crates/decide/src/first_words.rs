//! The first words of example requests, in scope or not.

use std::collections::BTreeSet;

use crate::entry::Entry;
use crate::politeness::Phrases;
use crate::words::Words;

/// The first words of all examples, after any politeness.
#[derive(Debug, Default)]
pub(crate) struct FirstWords(BTreeSet<String>);

impl FirstWords {
    pub(crate) fn of(entries: &[Entry], out_of_scope: &[String], phrases: &Phrases) -> Self {
        let examples = entries.iter().flat_map(|entry| &entry.examples);
        let first = |text: &String| {
            let words = Words::of(text);
            let at = phrases.first_word(&words)?;
            Some(words.normal(at).to_owned())
        };
        let words = examples.chain(out_of_scope).filter_map(first);
        // Articles are excluded, because names may start with them: "and the Machine".
        Self(words.filter(|word| !phrases.is_article(word)).collect())
    }

    /// Whether a text starts like one of the examples and has more words.
    pub(crate) fn starts_like_example(&self, text: &str, phrases: &Phrases) -> bool {
        let words = Words::of_at_most(text, crate::pattern::MAX_WORDS);
        phrases
            .first_word(&words)
            .is_some_and(|at| at + 1 < words.len() && self.0.contains(words.normal(at)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::politeness::Politeness;

    #[test]
    fn a_text_that_starts_like_an_example_is_distinguished_from_a_name() {
        let entries = [Entry {
            examples: vec!["could you play some jazz".into(), "the music off".into()],
            ..Entry::default()
        }];
        let phrases = Phrases::of(&Politeness::known());
        let out_of_scope = ["Call my sister".to_owned()];
        let first_words = FirstWords::of(&entries, &out_of_scope, &phrases);
        for request in [
            "call the neighbours",
            "please call them",
            "also play something else",
        ] {
            assert!(
                first_words.starts_like_example(request, &phrases),
                "{request}"
            );
        }
        for other in [
            "the Machine",
            "Garfunkel",
            "call",
            "could be",
            "please",
            "two smoking barrels",
            "",
        ] {
            assert!(!first_words.starts_like_example(other, &phrases), "{other}");
        }
    }
}
