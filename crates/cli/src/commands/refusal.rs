//! A message that was refused: the error for the operator, with the app's words for the user.

use std::fmt;

use convoke::Runtime;

use crate::output::FailureReport;

/// The app's words for the user, as the context of the error.
#[derive(Debug)]
pub(crate) struct RefusalWords(pub(crate) String);

impl fmt::Display for RefusalWords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The error, with the app's words for the user if it has any.
pub(crate) fn in_words_of(runtime: &Runtime, error: impl Into<anyhow::Error>) -> anyhow::Error {
    let error = error.into();
    match runtime.words_of_refusal(FailureReport::of(&error).code) {
        Some(words) => error.context(RefusalWords(words)),
        None => error,
    }
}
