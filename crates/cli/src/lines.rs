//! Reads one message per line. A line is measured while it is read: of one that is too long, at most a message's limit
//! is stored, and the rest is skipped.

use std::io::{self, BufRead};

use tokio::io::{AsyncBufRead, AsyncBufReadExt};

use crate::exit::UsageError;

/// Bytes of a character, at most.
const CHARACTER_BYTES: usize = 4;

/// A line, without its end.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    Text(String),
    /// Longer than a message may be.
    TooLong {
        /// Its characters, without surrounding spaces.
        characters: usize,
        /// Limit of a message, in characters.
        most: usize,
    },
    NotUtf8,
}

impl Line {
    pub(crate) fn is_blank(&self) -> bool {
        matches!(self, Self::Text(text) if text.trim().is_empty())
    }

    /// The message, or an error.
    pub(crate) fn message(self) -> Result<String, UsageError> {
        match self {
            Self::Text(text) => Ok(text),
            Self::TooLong { characters, most } => Err(UsageError::new(
                "request.message_long",
                format!("the message has {characters} characters; at most {most} are accepted"),
            )),
            Self::NotUtf8 => Err(UsageError::new(
                "request.not_utf8",
                "the message is not UTF-8; convert it first",
            )),
        }
    }
}

/// The line that is being read.
#[derive(Debug)]
pub(crate) struct LineBuffer {
    /// Limit of a message, in characters.
    most: usize,
    /// The line without leading spaces, up to the limit.
    text: Vec<u8>,
    /// Number of characters beyond the stored ones.
    beyond: usize,
    /// Trailing spaces, which count only if something follows.
    spaces: usize,
    begun: bool,
}

impl LineBuffer {
    /// A buffer for messages of at most `most` characters.
    pub(crate) fn new(most: usize) -> Self {
        Self {
            most,
            text: Vec::new(),
            beyond: 0,
            spaces: 0,
            begun: false,
        }
    }

    /// Consumes bytes of the line. Returns their number, and the line if it is complete.
    fn take(&mut self, chunk: &[u8]) -> (usize, Option<Line>) {
        self.begun = true;
        if let Some(end) = chunk.iter().position(|byte| *byte == b'\n') {
            self.add(&chunk[..end]);
            (end + 1, self.rest())
        } else {
            self.add(chunk);
            (chunk.len(), None)
        }
    }

    fn add(&mut self, mut part: &[u8]) {
        if self.text.is_empty() {
            part = part.trim_ascii_start();
        }
        let free = self.most.saturating_mul(CHARACTER_BYTES) - self.text.len();
        let (text, beyond) = part.split_at(part.len().min(free));
        self.text.extend_from_slice(text);
        let words = beyond.trim_ascii_end();
        if !words.is_empty() {
            self.beyond += self.spaces + characters(words);
            self.spaces = 0;
        }
        self.spaces += beyond.len() - words.len();
    }

    /// Takes the line at the end of the input, if there is one.
    fn rest(&mut self) -> Option<Line> {
        let line = std::mem::replace(self, Self::new(self.most));
        if !line.begun {
            return None;
        }
        if line.beyond > 0 {
            let characters = characters(&line.text) + line.beyond;
            return Some(Line::TooLong {
                characters,
                most: line.most,
            });
        }
        let mut text = line.text;
        text.pop_if(|last| *last == b'\r');
        Some(String::from_utf8(text).map_or(Line::NotUtf8, Line::Text))
    }

    /// The next line of an input. `None` at its end.
    pub(crate) fn next(&mut self, input: &mut impl BufRead) -> io::Result<Option<Line>> {
        loop {
            let chunk = input.fill_buf()?;
            if chunk.is_empty() {
                return Ok(self.rest());
            }
            let (taken, line) = self.take(chunk);
            input.consume(taken);
            if line.is_some() {
                return Ok(line);
            }
        }
    }

    /// The next line, without blocking. Cancel safe.
    pub(crate) async fn next_from(
        &mut self,
        input: &mut (impl AsyncBufRead + Unpin),
    ) -> io::Result<Option<Line>> {
        loop {
            let chunk = input.fill_buf().await?;
            if chunk.is_empty() {
                return Ok(self.rest());
            }
            let (taken, line) = self.take(chunk);
            input.consume(taken);
            if line.is_some() {
                return Ok(line);
            }
        }
    }
}

/// Characters of a text, which begin with every byte that continues none.
fn characters(text: &[u8]) -> usize {
    text.iter().filter(|byte| **byte & 0xc0 != 0x80).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is read of an input that comes in pieces of so many bytes.
    fn read(input: &[u8], most: usize, piece: usize) -> Vec<Line> {
        let mut input = std::io::BufReader::with_capacity(piece, input);
        let mut buffer = LineBuffer::new(most);
        std::iter::from_fn(|| buffer.next(&mut input).unwrap()).collect()
    }

    fn text(text: &str) -> Line {
        Line::Text(text.to_owned())
    }

    #[test]
    fn lines_are_the_same_wherever_the_input_was_cut() {
        let long = "ä".repeat(9);
        let input = format!("one\r\n\n  \u{20ac}\u{20ac}   \n{long}x   y \n\n\u{1f600}\u{1f600}");
        let mut input = input.into_bytes();
        input.extend_from_slice(b"\n\xff\xfe\nlast");
        for piece in 1..40 {
            let characters = 9 + 1 + 3 + 1;
            let expected = [
                text("one"),
                text(""),
                text("\u{20ac}\u{20ac}   "),
                Line::TooLong {
                    characters,
                    most: 4,
                },
                text(""),
                text("\u{1f600}\u{1f600}"),
                Line::NotUtf8,
                text("last"),
            ];
            assert_eq!(read(&input, 4, piece), expected, "in pieces of {piece}");
        }
    }

    #[test]
    fn at_most_a_messages_limit_of_a_line_is_stored() {
        let mut buffer = LineBuffer::new(5);
        for _ in 0..1_000 {
            assert_eq!(buffer.take(&[b'x'; 1_000]), (1_000, None));
            assert!(buffer.text.capacity() <= 64, "{}", buffer.text.capacity());
        }
        let line = buffer.take(b" \nnext").1.unwrap();
        assert_eq!(
            line.message().unwrap_err().message,
            "the message has 1000000 characters; at most 5 are accepted"
        );
        let mut buffer = LineBuffer::new(5);
        buffer.take(b"x");
        for _ in 0..1_000 {
            buffer.take(&[b' '; 1_000]);
        }
        assert!(buffer.text.len() <= 20);
        assert!(
            matches!(buffer.take(b"\n").1, Some(Line::Text(_))),
            "spaces do not count"
        );
    }

    #[test]
    fn an_input_of_nothing_has_no_lines() {
        assert_eq!(read(b"", 4, 8), []);
        assert_eq!(read(b"\n", 4, 8), [text("")]);
    }
}
