//! How requests begin: the first words of what people are known to say, to the app or to it in vain.

use std::collections::BTreeSet;

use crate::entry::Entry;
use crate::politeness::Phrases;
use crate::words::Words;

/// The words with which examples begin, behind all politeness.
#[derive(Debug, Default)]
pub(crate) struct Beginnings(BTreeSet<String>);

impl Beginnings {
    pub(crate) fn of(entries: &[Entry], out_of_scope: &[String], phrases: &Phrases) -> Self {
        let examples = entries.iter().flat_map(|entry| &entry.examples);
        let first = |text: &String| {
            let words = Words::of(text);
            let at = phrases.first_word(&words)?;
            Some(words.normal(at).to_owned())
        };
        let words = examples.chain(out_of_scope).filter_map(first);
        // Whatever people speak of may begin with one of these: "and the Machine".
        Self(words.filter(|word| !phrases.is_article(word)).collect())
    }

    /// Whether a text begins as one of the examples does and goes on from there.
    pub(crate) fn begin(&self, text: &str, phrases: &Phrases) -> bool {
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
    fn a_text_that_begins_as_an_example_does_is_told_from_a_name() {
        let entries = [Entry {
            examples: vec!["could you play some jazz".into(), "the music off".into()],
            ..Entry::default()
        }];
        let phrases = Phrases::of(&Politeness::known());
        let out_of_scope = ["Call my sister".to_owned()];
        let beginnings = Beginnings::of(&entries, &out_of_scope, &phrases);
        for request in [
            "call the neighbours",
            "please call them",
            "also play something else",
        ] {
            assert!(beginnings.begin(request, &phrases), "{request}");
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
            assert!(!beginnings.begin(other, &phrases), "{other}");
        }
    }
}
