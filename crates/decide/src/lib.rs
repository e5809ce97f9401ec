//! Decides over a catalogue without a model: what does this text ask for?
//!
//! Sentence patterns such as `remind me to {title}` match and extract slots. If none matches, a linear
//! text classifier gives calibrated confidences; it is trained on the entries' examples on first use.
//! Low confidences lead to a clarifying question or a refusal. Nothing here does I/O, blocks, or knows
//! an app. `docs/decide.md` describes the pattern syntax and the measurements of the classifier.

mod calibration;
mod catalogue;
mod classifier;
mod decider;
mod entry;
mod features;
mod first_words;
mod linear;
mod pattern;
mod politeness;
mod problem;
mod quotation;
mod slot_text;
mod training;
mod training_texts;
mod words;

pub use catalogue::check;
pub use decider::{
    Candidate, FoundBy, LocalDecider, LocalDecision, MAX_ALTERNATIVES, MAX_CANDIDATES, Verdict,
};
pub use entry::{Entry, Options, SlotValues};
pub use politeness::Politeness;
pub use problem::BuildProblem;
pub use training::Classifiers;
