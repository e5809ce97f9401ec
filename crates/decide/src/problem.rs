//! Problems of a catalogue, reported all at once.

use std::fmt;

/// One reason why a catalogue is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct BuildProblem {
    /// Stable code, such as `pattern.unclosed`.
    pub code: &'static str,
    /// The entry's name; empty for the whole catalogue.
    pub entry: String,
    /// The name of the invalid phrase, if any; `pattern` is then its definition.
    pub phrase: Option<String>,
    /// The invalid sentence pattern, if any.
    pub pattern: Option<String>,
    /// The column in the pattern, in characters, from 1.
    pub column: Option<usize>,
    /// What is wrong and how to fix it, in one sentence.
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
