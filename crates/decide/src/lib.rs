//! Decides over a catalogue without a model: what does this text ask for?
//!
//! Sentence patterns such as `remind me to {title}` decide and extract at once. Where none matches,
//! a linear text classifier, trained on the entries' examples when it is first needed, gives
//! calibrated confidences; low ones become a clarifying question or a refusal. Nothing here reads a
//! file, waits, or knows an app. `docs/decide.md` describes the pattern syntax and the
//! measurements behind the classifier.

mod beginnings;
mod calibration;
mod catalogue;
mod classifier;
mod decider;
mod entry;
mod features;
mod lessons;
mod linear;
mod pattern;
mod politeness;
mod problem;
mod quotation;
mod slot_text;
mod training;
mod words;

pub use catalogue::check;
pub use decider::{
    Candidate, FoundBy, LocalDecider, LocalDecision, MAX_ALTERNATIVES, MAX_CANDIDATES, Verdict,
};
pub use entry::{Entry, Options, SlotValues};
pub use politeness::Politeness;
pub use problem::BuildProblem;
pub use training::Classifiers;
