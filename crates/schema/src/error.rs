//! Why a schema cannot be used, and why a value does not fit.

use std::fmt;

/// Why a schema cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    /// It is no JSON Schema, or refers to something that is not there.
    #[error("{0}")]
    Invalid(String),
    /// It uses a part of JSON Schema that is not supported.
    #[error("{0}")]
    Unsupported(&'static str),
    /// It exceeds a limit.
    #[error("{0}")]
    TooComplex(String),
}

/// Why a value does not fit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Misfit {
    /// These things are wrong with it: at least one, and at most as many as the limits allow.
    #[error("{}", joined(.0))]
    Complaints(Vec<Complaint>),
    /// Whether it fits could not be found out within the limits.
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

/// One thing that is wrong with a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Complaint {
    /// JSON pointer to the offending part, empty for the value as a whole.
    pub path: String,
    /// What is wrong with it.
    pub message: String,
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)
    }
}

fn joined(complaints: &[Complaint]) -> String {
    let lines: Vec<String> = complaints.iter().map(ToString::to_string).collect();
    lines.join("; ")
}

/// The first characters of what is displayed, with a mark where it was cut. What is cut is never written.
pub(crate) fn abbreviated(text: &impl fmt::Display, characters: usize) -> String {
    let mut room = Room {
        text: String::new(),
        characters,
    };
    if fmt::write(&mut room, format_args!("{text}")).is_err() {
        room.text.push('…');
    }
    room.text
}

struct Room {
    text: String,
    characters: usize,
}

impl fmt::Write for Room {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        for character in more.chars() {
            self.characters = self.characters.checked_sub(1).ok_or(fmt::Error)?;
            self.text.push(character);
        }
        Ok(())
    }
}
