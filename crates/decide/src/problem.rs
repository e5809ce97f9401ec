//! What can be wrong with a catalogue, reported all at once.

use std::fmt;

/// One reason why a catalogue cannot be decided over: where, which, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct BuildProblem {
    /// Stable and greppable, such as `pattern.unclosed`.
    pub code: &'static str,
    /// The entry's name, empty for the whole catalogue.
    pub entry: String,
    /// The name of the phrase that is to blame, if one is; `pattern` is then what it stands for.
    pub phrase: Option<String>,
    /// The sentence pattern, where one is to blame.
    pub pattern: Option<String>,
    /// The pattern's column, in characters from 1.
    pub column: Option<usize>,
    /// What is wrong and what to write instead, as one sentence.
    pub message: String,
}

impl BuildProblem {
    pub(crate) fn catalogue(code: &'static str, message: impl Into<String>) -> Self {
        Self::entry(code, "", message)
    }

    pub(crate) fn entry(code: &'static str, entry: &str, message: impl Into<String>) -> Self {
        Self {
            code,
            entry: entry.to_owned(),
            phrase: None,
            pattern: None,
            column: None,
            message: message.into(),
        }
    }
}

impl fmt::Display for BuildProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.entry.is_empty() {
            write!(f, "{}: ", self.entry)?;
        }
        if let Some(phrase) = &self.phrase {
            write!(f, "phrase <{phrase}>: ")?;
        }
        if let Some(pattern) = &self.pattern {
            write!(f, "`{pattern}`")?;
            if let Some(column) = self.column {
                write!(f, " column {column}")?;
            }
            write!(f, ": ")?;
        }
        write!(f, "{} [{}]", self.message, self.code)
    }
}
