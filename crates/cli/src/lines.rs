//! Messages that come in one a line. A line is measured while it is read: of one that is too long no more is kept
//! than a message may have, and the rest is skipped up to its end.

use std::io::{self, BufRead};

use tokio::io::{AsyncBufRead, AsyncBufReadExt};

use crate::exit::UsageError;

/// Bytes of a character, at most.
const CHARACTER_BYTES: usize = 4;

/// A line, without its end.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    Text(String),
    /// More than a message may have.
    TooLong {
        /// Characters that there were, without the spaces around them.
        characters: usize,
        /// Characters that a message may have.
        most: usize,
    },
    NotUtf8,
}

impl Line {
    pub(crate) fn is_blank(&self) -> bool {
        matches!(self, Self::Text(text) if text.trim().is_empty())
    }

    /// The message, or why it is refused.
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
    /// Characters that a message may have.
    most: usize,
    /// The line without the spaces before it, as far as it may be a message.
    kept: Vec<u8>,
    /// Characters that came after those that are kept.
    beyond: usize,
    /// Spaces after the last of them, which do not count unless something follows.
    spaces: usize,
    begun: bool,
}

impl LineBuffer {
    /// For messages of so many characters at most.
    pub(crate) fn new(most: usize) -> Self {
        Self {
            most,
            kept: Vec::new(),
            beyond: 0,
            spaces: 0,
            begun: false,
        }
    }

    /// Takes what belongs to the line. Gives how many bytes that were, and the line if its end was among them.
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
        if self.kept.is_empty() {
            part = part.trim_ascii_start();
        }
        let room = self.most.saturating_mul(CHARACTER_BYTES) - self.kept.len();
        let (kept, beyond) = part.split_at(part.len().min(room));
        self.kept.extend_from_slice(kept);
        let words = beyond.trim_ascii_end();
        if !words.is_empty() {
            self.beyond += self.spaces + characters(words);
            self.spaces = 0;
        }
        self.spaces += beyond.len() - words.len();
    }

    /// The line as it stands, if one was begun; the next is another.
    fn rest(&mut self) -> Option<Line> {
        let line = std::mem::replace(self, Self::new(self.most));
        if !line.begun {
            return None;
        }
        if line.beyond > 0 {
            let characters = characters(&line.kept) + line.beyond;
            return Some(Line::TooLong {
                characters,
                most: line.most,
            });
        }
        let mut kept = line.kept;
        kept.pop_if(|last| *last == b'\r');
        Some(String::from_utf8(kept).map_or(Line::NotUtf8, Line::Text))
    }

    /// The next line of an input, or nothing at its end.
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

    /// The same without blocking. What was read of a line before a cancelled call is kept.
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
    fn what_is_kept_of_a_line_is_no_more_than_a_message_may_have() {
        let mut buffer = LineBuffer::new(5);
        for _ in 0..1_000 {
            assert_eq!(buffer.take(&[b'x'; 1_000]), (1_000, None));
            assert!(buffer.kept.capacity() <= 64, "{}", buffer.kept.capacity());
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
        assert!(buffer.kept.len() <= 20);
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
