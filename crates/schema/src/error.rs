//! Errors of compiling a schema and of checking a value.

use std::fmt;

/// Why a schema cannot be compiled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    /// Not a JSON Schema, or a reference does not resolve.
    #[error("{0}")]
    Invalid(String),
    /// It uses a keyword that is not supported.
    #[error("{0}")]
    Unsupported(&'static str),
    /// It exceeds one of the [`Limits`](crate::Limits).
    #[error("{0}")]
    TooComplex(String),
}

/// Why a value is not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CheckError {
    /// The value does not match. Holds at least one violation, at most
    /// [`Limits::violations`](crate::Limits::violations).
    #[error("{}", joined(.0))]
    Violations(Vec<Violation>),
    /// A limit was reached before the result was known.
    #[error("{0}")]
    TooComplex(Complexity),
}

/// The limit that a check reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Complexity {
    /// See [`Limits::steps`](crate::Limits::steps).
    #[error("checking takes more than {0} steps")]
    Steps(u64),
    /// See [`Limits::depth`](crate::Limits::depth).
    #[error("the value and its schema nest more than {0} deep")]
    Depth(usize),
}

/// One reason why a value does not match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// JSON pointer to the offending part; empty for the whole value.
    pub path: String,
    pub message: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)
    }
}

fn joined(violations: &[Violation]) -> String {
    let lines: Vec<String> = violations.iter().map(ToString::to_string).collect();
    lines.join("; ")
}

/// Formats at most `characters` characters, followed by `…` if there are more. The rest is never
/// formatted.
pub(crate) fn abbreviated(text: &impl fmt::Display, characters: usize) -> String {
    let mut bounded = BoundedText {
        text: String::new(),
        characters,
    };
    if fmt::write(&mut bounded, format_args!("{text}")).is_err() {
        bounded.text.push('…');
    }
    bounded.text
}

struct BoundedText {
    text: String,
    characters: usize,
}

impl fmt::Write for BoundedText {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        for character in more.chars() {
            self.characters = self.characters.checked_sub(1).ok_or(fmt::Error)?;
            self.text.push(character);
        }
        Ok(())
    }
}
