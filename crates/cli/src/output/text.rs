//! Printable text. Input is escaped immediately and colours are added only here, so foreign escape sequences are never
//! printed.

use std::borrow::Cow;
use std::fmt::{Display, Write as _};

use super::visible;

/// The style of a part of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TextStyle {
    Plain,
    Bold,
    Dimmed,
    Red,
    Green,
    Yellow,
}

impl TextStyle {
    /// Its SGR code.
    fn number(self) -> Option<u8> {
        match self {
            Self::Plain => None,
            Self::Bold => Some(1),
            Self::Dimmed => Some(2),
            Self::Red => Some(31),
            Self::Green => Some(32),
            Self::Yellow => Some(33),
        }
    }
}

/// A text without control characters, in styled parts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Text {
    parts: Vec<(TextStyle, String)>,
}

impl Text {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Adds text with a style.
    pub(crate) fn add(self, look: TextStyle, words: impl Display) -> Self {
        self.push(look, words.to_string(), visible::safe)
    }

    pub(crate) fn plain(self, words: impl Display) -> Self {
        self.add(TextStyle::Plain, words)
    }

    pub(crate) fn bold(self, words: impl Display) -> Self {
        self.add(TextStyle::Bold, words)
    }

    pub(crate) fn dimmed(self, words: impl Display) -> Self {
        self.add(TextStyle::Dimmed, words)
    }

    /// Adds text that a person decides by: invisible characters are shown by name.
    pub(crate) fn revealed(self, words: impl Display) -> Self {
        self.push(TextStyle::Plain, words.to_string(), visible::revealed)
    }

    fn push(mut self, look: TextStyle, words: String, show: fn(&str) -> Cow<'_, str>) -> Self {
        let shown = match show(&words) {
            Cow::Owned(shown) => shown,
            Cow::Borrowed(_) => words,
        };
        if !shown.is_empty() {
            self.parts.push((look, shown));
        }
        self
    }

    /// Removes trailing spaces.
    pub(crate) fn trim_end(mut self) -> Self {
        while let Some((_, last)) = self.parts.last_mut() {
            last.truncate(last.trim_end().len());
            if !last.is_empty() {
                break;
            }
            self.parts.pop();
        }
        self
    }

    /// The bytes for a terminal, or for a pipe.
    pub(super) fn rendered(&self, colour: bool) -> String {
        let mut text = String::new();
        for (look, words) in &self.parts {
            match look.number().filter(|_| colour) {
                Some(number) => {
                    let _ = write!(text, "\u{1b}[{number}m{words}\u{1b}[0m");
                }
                None => text.push_str(words),
            }
        }
        text
    }
}

impl<T: Display> From<T> for Text {
    fn from(words: T) -> Self {
        Self::new().plain(words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_colours_are_sent() {
        let text = Text::new()
            .bold("a\u{1b}[31mb")
            .plain(" c")
            .add(TextStyle::Red, "\u{9b}0m");
        assert_eq!(text.rendered(false), "a<U+001B>[31mb c<U+009B>0m");
        assert_eq!(
            text.rendered(true),
            "\u{1b}[1ma<U+001B>[31mb\u{1b}[0m c\u{1b}[31m<U+009B>0m\u{1b}[0m"
        );
    }

    #[test]
    fn what_somebody_decides_by_is_shown_in_full() {
        let text = Text::new().plain("a\u{200b}").revealed("b\u{200b}");
        assert_eq!(text.rendered(true), "a\u{200b}b<U+200B>");
    }

    #[test]
    fn spaces_at_the_end_go_over_all_parts() {
        let text = Text::from("a ").bold("b  ").dimmed("  ").plain("");
        assert_eq!(text.trim_end(), Text::from("a ").bold("b"));
    }
}
