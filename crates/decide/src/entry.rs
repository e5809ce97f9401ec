//! The entries of a catalogue, and options of deciding.

use std::collections::BTreeMap;

use crate::politeness::Politeness;

/// One target of decisions: an agent, a domain or a skill.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Entry {
    /// Its name in decisions.
    pub name: String,
    /// Its purpose, in a sentence. The classifier learns a little from it.
    pub description: String,
    /// Example requests. The classifier learns from these.
    pub examples: Vec<String>,
    /// Patterns such as `remind me to {title}`, which match a request and extract slots.
    pub sentences: Vec<String>,
    /// The values of slots, by name. A slot that is not listed takes free text.
    pub slots: BTreeMap<String, SlotValues>,
}

/// The values of a slot, each with the words that mean it in addition to its name. A slot without values
/// takes free text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SlotValues(pub BTreeMap<String, Vec<String>>);

/// Options of deciding.
#[derive(Debug, Clone)]
pub struct Options {
    /// Minimum confidence of a chosen candidate. Default 0.7.
    pub threshold: f64,
    /// Minimum lead of the best candidate over the second. Default 0.1; relevant only for thresholds so
    /// low that two candidates can reach them.
    pub margin: f64,
    /// Example texts that no entry covers.
    pub out_of_scope: Vec<String>,
    /// Polite phrases around a request, for the app's languages.
    pub politeness: Vec<Politeness>,
    /// Named parts of sentences, used as `<name>` in sentences and other phrases.
    pub phrases: BTreeMap<String, String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            threshold: 0.7,
            margin: 0.1,
            out_of_scope: Vec::new(),
            politeness: Politeness::known(),
            phrases: BTreeMap::new(),
        }
    }
}
