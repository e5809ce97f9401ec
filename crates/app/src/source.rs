//! The text of one file, and positions in it.

use std::fmt;

use serde::Serialize;

/// A position in a file, counted from 1, columns in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Position {
    pub line: usize,
    /// The column, in characters.
    pub column: usize,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// A range in a file; the end is exclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SourceRange {
    pub(crate) start: Position,
    pub(crate) end: Position,
}

impl SourceRange {
    /// The start of a file.
    pub(crate) const START: Self = Self {
        start: Position { line: 1, column: 1 },
        end: Position { line: 1, column: 2 },
    };
}

/// The text of one file of the app folder.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    file: String,
    text: String,
    /// Byte offset of each line.
    lines: Vec<usize>,
}

impl Source {
    pub(crate) fn new(file: impl Into<String>, text: impl Into<String>) -> Self {
        let text = text.into();
        let bytes = text.as_bytes();
        // YAML ends a line at LF, CR or CR LF.
        let is_break = |at: &usize| {
            bytes[*at] == b'\n' || (bytes[*at] == b'\r' && bytes.get(at + 1) != Some(&b'\n'))
        };
        let breaks = (0..bytes.len()).filter(is_break).map(|at| at + 1);
        let lines = std::iter::once(0).chain(breaks).collect();
        Self {
            file: file.into(),
            text,
            lines,
        }
    }

    /// The file's path, relative to the app folder.
    pub(crate) fn file(&self) -> &str {
        &self.file
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// One line, counted from 1, without its line break.
    pub(crate) fn line(&self, line: usize) -> Option<&str> {
        let text = self.text_from(line)?;
        // A byte order mark takes no column.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        text.split(['\n', '\r']).next()
    }

    /// The line and column of a byte.
    pub(crate) fn position_of(&self, byte: usize) -> Position {
        let line = self.lines.partition_point(|start| *start <= byte).max(1);
        let start = self.lines.get(line - 1).copied().unwrap_or(0);
        let before = self.text.get(start..byte).unwrap_or_default();
        let before = before.strip_prefix('\u{feff}').unwrap_or(before);
        Position {
            line,
            column: before.chars().count() + 1,
        }
    }

    /// The text from the start of a line, counted from 1.
    fn text_from(&self, line: usize) -> Option<&str> {
        self.text.get(*self.lines.get(line.checked_sub(1)?)?..)
    }

    /// The position of a part of a decoded scalar.
    ///
    /// Quotes, escapes, folding and indentation make the decoded text differ from the file, so both are
    /// scanned in parallel: equal characters advance both, and characters that only YAML needs advance
    /// the file. If they cannot be aligned, the last aligned position is returned.
    pub(crate) fn place_within(
        &self,
        scalar: SourceRange,
        decoded: &str,
        part: std::ops::Range<usize>,
    ) -> SourceRange {
        let mut cursor = Cursor::new(self, scalar.start);
        let mut start = scalar.start;
        let mut end = None;
        for (offset, character) in decoded.char_indices() {
            if offset >= part.end && offset > part.start {
                break;
            }
            cursor.advance_to(character);
            if offset <= part.start {
                start = cursor.position;
            }
            cursor.step_over(character);
            if offset < part.end {
                end = Some(cursor.position);
            }
        }
        if part.start >= decoded.len() && !decoded.is_empty() {
            start = cursor.position;
        }
        let next = Position {
            line: start.line,
            column: start.column + 1,
        };
        let end = end.filter(|end| *end > start).unwrap_or(next);
        SourceRange { start, end }
    }
}

/// Scans the file's text and tracks the position.
struct Cursor<'a> {
    rest: &'a str,
    position: Position,
}

impl<'a> Cursor<'a> {
    fn new(source: &'a Source, position: Position) -> Self {
        let mut cursor = Cursor {
            rest: source.text_from(position.line).unwrap_or_default(),
            position: Position {
                line: position.line,
                column: 1,
            },
        };
        while cursor.position < position && cursor.next().is_some() {}
        cursor
    }

    fn next(&mut self) -> Option<char> {
        let character = self.rest.chars().next()?;
        self.rest = &self.rest[character.len_utf8()..];
        if character == '\n' || (character == '\r' && !self.rest.starts_with('\n')) {
            self.position = Position {
                line: self.position.line + 1,
                column: 1,
            };
        } else {
            self.position.column += 1;
        }
        Some(character)
    }

    /// Skips what the file has before a decoded character: an opening quote, a block header,
    /// indentation, a doubled quote.
    fn advance_to(&mut self, expected: char) {
        if self.rest.starts_with(expected)
            || self.rest.starts_with('\\')
            || expected.is_whitespace()
        {
            return;
        }
        let mut ahead = Cursor {
            rest: self.rest,
            position: self.position,
        };
        while let Some(found) = ahead.rest.chars().next() {
            if found == expected || found == '\\' {
                *self = ahead;
                return;
            }
            if !found.is_whitespace() && !"'\"|>+-0123456789#".contains(found) {
                return;
            }
            ahead.next();
        }
    }

    /// Advances past one decoded character.
    fn step_over(&mut self, decoded: char) {
        let Some(found) = self.rest.chars().next() else {
            return;
        };
        if found == decoded {
            self.next();
        } else if found == '\\' {
            self.next();
            let digits = match self.next() {
                Some('x') => 2,
                Some('u') => 4,
                Some('U') => 8,
                _ => 0,
            };
            for _ in 0..digits {
                self.next();
            }
        } else if decoded.is_whitespace() {
            while self.rest.starts_with(char::is_whitespace) {
                self.next();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yaml;

    /// The position in the file of `needle` in the decoded value of `/reply`.
    fn position_of(needle: &str, text: &str) -> String {
        let source = Source::new("x.yaml", text);
        let (node, problems) = yaml::parse(&source);
        assert!(problems.is_empty(), "{problems:?}");
        let node = node.unwrap();
        let reply = node.find("/reply").unwrap();
        let decoded = reply.as_text().unwrap();
        let at = decoded.find(needle).unwrap();
        source
            .place_within(reply.place, decoded, at..at + needle.len())
            .start
            .to_string()
    }

    #[test]
    fn a_part_of_a_scalar_is_found_whatever_its_style() {
        assert_eq!(position_of("titel", "reply: Added {{ titel }}.\n"), "1:17");
        assert_eq!(
            position_of("titel", "reply: 'It''s {{ titel }}.'\n"),
            "1:18"
        );
        assert_eq!(
            position_of("titel", "reply: \"a\\n\\u00e9 {{ titel }}\"\n"),
            "1:22"
        );
        assert_eq!(
            position_of("titel", "reply: |\n  one\n    two {{ titel }}\n"),
            "3:12"
        );
        assert_eq!(
            position_of("titel", "reply: >-\n  one\n\n  two\n  {{ titel }}\n"),
            "5:6"
        );
        assert_eq!(
            position_of("titel", "reply: one\n  two\n  {{ titel }}\n"),
            "3:6"
        );
        assert_eq!(
            position_of("titel", "reply: \"one\n  two {{ titel }}\"\n"),
            "2:10"
        );
        assert_eq!(
            position_of("titel", "{\"reply\": \"ü {{ titel }}\"}"),
            "1:17"
        );
    }
}
