//! Parses a sentence pattern.

use std::sync::Arc;

use crate::words::{Kind, Words};

/// Limit of nested brackets.
const MAX_DEPTH: usize = 16;

/// Limit of a pattern, in characters.
const MAX_LENGTH: usize = 1_000;

/// A part of a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Part {
    /// A word in its normal form.
    Word(Arc<str>),
    /// A slot, with its column.
    Slot { name: String, column: usize },
    /// A named phrase, with its column. Expanded patterns contain none.
    Phrase { name: String, column: usize },
    /// One of several sequences.
    Choice(Vec<Vec<Part>>),
    /// One of several sequences, or nothing.
    Optional(Vec<Vec<Part>>),
}

/// An error in a pattern, with its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) code: &'static str,
    pub(crate) column: usize,
    pub(crate) message: String,
}

impl Fault {
    pub(crate) fn new(code: &'static str, column: usize, message: impl Into<String>) -> Self {
        Self {
            code,
            column,
            message: message.into(),
        }
    }
}

/// Parses a whole pattern.
pub(crate) fn parse(pattern: &str) -> Result<Vec<Part>, Fault> {
    let characters: Vec<char> = pattern.chars().collect();
    if characters.len() > MAX_LENGTH {
        return Err(Fault::new(
            "pattern.too_long",
            MAX_LENGTH,
            format!("the pattern is longer than {MAX_LENGTH} characters; split it into several"),
        ));
    }
    let mut reader = Reader {
        characters: &characters,
        next: 0,
        depth: 0,
    };
    let mut branches = reader.branches(None)?;
    match (branches.len(), branches.pop()) {
        (1, Some(parts)) if parts.is_empty() => Err(Fault::new(
            "pattern.empty",
            1,
            "the pattern has no words; write what a user would say",
        )),
        (1, Some(parts)) => Ok(parts),
        _ => Err(Fault::new(
            "pattern.unexpected",
            characters
                .iter()
                .position(|&c| c == '|')
                .map_or(1, |index| index + 1),
            "`|` separates alternatives only inside brackets; write `(this|that)`",
        )),
    }
}

struct Reader<'p> {
    characters: &'p [char],
    next: usize,
    depth: usize,
}

impl Reader<'_> {
    /// Parses alternatives up to the closing bracket or the end of the pattern.
    fn branches(&mut self, closing: Option<char>) -> Result<Vec<Vec<Part>>, Fault> {
        let opened_at = self.next;
        let mut branches = vec![Vec::new()];
        let mut literal = String::new();
        loop {
            let column = self.next + 1;
            let Some(&character) = self.characters.get(self.next) else {
                if let Some(closing) = closing {
                    return Err(Fault::new(
                        "pattern.unclosed",
                        opened_at,
                        format!("this bracket is never closed; add `{closing}`"),
                    ));
                }
                flush(&mut literal, &mut branches);
                return Ok(branches);
            };
            self.next += 1;
            match character {
                '\\' => match self.characters.get(self.next) {
                    Some(&escaped) => {
                        literal.push(escaped);
                        self.next += 1;
                    }
                    None => {
                        return Err(Fault::new(
                            "pattern.escape",
                            column,
                            "`\\` is the last character; write `\\\\` or the character it escapes",
                        ));
                    }
                },
                '[' | '(' => {
                    self.check_not_inside_word(column)?;
                    flush(&mut literal, &mut branches);
                    let part = self.group(character, column)?;
                    push(&mut branches, part);
                }
                '{' => {
                    self.check_not_inside_word(column)?;
                    flush(&mut literal, &mut branches);
                    let name = self.name(column, '}')?;
                    push(&mut branches, Part::Slot { name, column });
                }
                '<' => {
                    self.check_not_inside_word(column)?;
                    flush(&mut literal, &mut branches);
                    let name = self.name(column, '>')?;
                    push(&mut branches, Part::Phrase { name, column });
                }
                '|' => {
                    flush(&mut literal, &mut branches);
                    branches.push(Vec::new());
                }
                ']' | ')' if closing == Some(character) => {
                    flush(&mut literal, &mut branches);
                    self.check_not_inside_word(column)?;
                    return Ok(branches);
                }
                ']' | ')' | '}' | '>' => {
                    return Err(Fault::new(
                        "pattern.unexpected",
                        column,
                        format!(
                            "there is no bracket for `{character}` to close; escape it as `\\{character}`"
                        ),
                    ));
                }
                _ => literal.push(character),
            }
        }
    }

    fn group(&mut self, opening: char, column: usize) -> Result<Part, Fault> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(Fault::new(
                "pattern.too_deep",
                column,
                format!("brackets are nested more than {MAX_DEPTH} deep; write several patterns"),
            ));
        }
        let branches = self.branches(Some(if opening == '[' { ']' } else { ')' }))?;
        self.depth -= 1;
        if branches.iter().any(Vec::is_empty) {
            return Err(Fault::new(
                "pattern.alternative_empty",
                column,
                "an alternative has no words; remove it, or write `[words]` for words that may \
                 be missing",
            ));
        }
        Ok(if opening == '[' {
            Part::Optional(branches)
        } else {
            Part::Choice(branches)
        })
    }

    /// Parses the name of a slot or a phrase, up to its closing character.
    fn name(&mut self, column: usize, closing: char) -> Result<String, Fault> {
        let (code, kind) = match closing {
            '>' => ("pattern.phrase_name", "phrase"),
            _ => ("pattern.slot_name", "slot"),
        };
        let rest = &self.characters[self.next..];
        let Some(length) = rest.iter().position(|&character| character == closing) else {
            return Err(Fault::new(
                "pattern.unclosed",
                column,
                format!("this {kind} is never closed; add `{closing}`"),
            ));
        };
        let name = normal_name(&rest[..length].iter().collect::<String>());
        self.next += length + 1;
        if !is_name(&name) {
            return Err(Fault::new(
                code,
                column,
                format!(
                    "`{name}` is not a valid {kind} name; use lower-case letters, digits and `_`"
                ),
            ));
        }
        self.check_not_inside_word(self.next)?;
        Ok(name)
    }

    /// Patterns match whole words, so a bracket inside a word (`task[s]`) would not work as expected.
    /// Scripts without spaces have no such words.
    fn check_not_inside_word(&self, column: usize) -> Result<(), Fault> {
        let closes = matches!(self.characters[column - 1], ']' | ')' | '}' | '>');
        let neighbour = if closes {
            self.characters.get(column)
        } else {
            column
                .checked_sub(2)
                .and_then(|index| self.characters.get(index))
        };
        let inside = neighbour.is_some_and(|&neighbour| {
            let text = neighbour.to_string();
            let words = Words::of(&text);
            words.len() == 1 && words.word(0).kind == Kind::Spaced
        });
        if inside {
            return Err(Fault::new(
                "pattern.inside_word",
                column,
                "there is a bracket inside a word, but words match as a whole; write `(task|tasks)` \
                 for `task[s]`, or put a space",
            ));
        }
        Ok(())
    }
}

/// Names may be written with `-` or `_`.
pub(super) fn normal_name(written: &str) -> String {
    written.trim().replace('-', "_")
}

/// Whether a slot or a phrase can have this name.
pub(super) fn is_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_lowercase())
        && name
            .chars()
            .all(|next| next.is_ascii_lowercase() || next.is_ascii_digit() || next == '_')
}

fn flush(literal: &mut String, branches: &mut [Vec<Part>]) {
    if let Some(branch) = branches.last_mut() {
        branch.extend(
            Words::of(literal)
                .normals()
                .map(|word| Part::Word(Arc::from(word))),
        );
    }
    literal.clear();
}

fn push(branches: &mut [Vec<Part>], part: Part) {
    if let Some(branch) = branches.last_mut() {
        branch.push(part);
    }
}
