//! What is decided over: the entries of a catalogue, and the options of deciding.

use std::collections::BTreeMap;

use crate::politeness::Politeness;

/// One thing that can be chosen: an agent, a domain or an intent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Entry {
    /// What decisions call it.
    pub name: String,
    /// What it is for, in a sentence. The classifier learns a little from it.
    pub description: String,
    /// How people ask for it. The classifier learns from these.
    pub examples: Vec<String>,
    /// Patterns such as `remind me to {title}`, which decide and extract at once.
    pub sentences: Vec<String>,
    /// What the patterns' slots mean, by name. A slot that is not listed takes free text.
    pub slots: BTreeMap<String, SlotValues>,
}

/// The values a slot can have: each with the words that mean it, beside its own name. Without any,
/// the slot takes free text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SlotValues(pub BTreeMap<String, Vec<String>>);

/// How decisions are made.
#[derive(Debug, Clone)]
pub struct Options {
    /// The least confidence at which a candidate is chosen. 0.7 unless said otherwise.
    pub threshold: f64,
    /// How far the best candidate must lead the second. 0.1 unless said otherwise; it matters only
    /// for thresholds so low that two candidates can reach them.
    pub margin: f64,
    /// Examples of what no entry covers.
    pub out_of_scope: Vec<String>,
    /// What people say around a request, for the languages that the app serves.
    pub politeness: Vec<Politeness>,
    /// Named parts of sentences: what `<name>` stands for, in any sentence and any other phrase.
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
