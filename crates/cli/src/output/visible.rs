//! Replaces control and invisible characters by their names, as in `<U+202E>`.
//!
//! Each character is handled by itself, so it does not matter where a text is split.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Whether a character controls the terminal or the order of the text around it: control characters, and Unicode's
/// direction and line-end characters.
fn is_acted_upon(letter: char) -> bool {
    letter.is_control()
        || matches!(
            letter,
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{206f}'
        )
}

/// Whether a character is invisible. Some are legitimate in prose, such as emoji joiners.
fn is_unseen(letter: char) -> bool {
    // Unicode's Default_Ignorable_Code_Point, and the marks of annotations.
    matches!(
        letter,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
            | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}'
    )
}

fn is_hidden(letter: char) -> bool {
    is_acted_upon(letter) || is_unseen(letter)
}

/// Escapes control characters, except line ends and tabs.
pub(super) fn safe(text: &str) -> Cow<'_, str> {
    named(text, is_acted_upon)
}

/// Escapes control and invisible characters, except line ends and tabs.
pub(super) fn revealed(text: &str) -> Cow<'_, str> {
    named(text, is_hidden)
}

fn named(text: &str, is_named: fn(char) -> bool) -> Cow<'_, str> {
    let stays = |letter| matches!(letter, '\n' | '\t') || !is_named(letter);
    if text.chars().all(stays) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 32);
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        if stays(letter) {
            shown.push(letter);
        } else if letter != '\r' || letters.peek() != Some(&'\n') {
            let _ = write!(shown, "<U+{:04X}>", u32::from(letter));
        }
    }
    Cow::Owned(shown)
}

/// A text in a single line, for a cell of a table.
pub(super) fn in_one_line(text: &str) -> String {
    named(text, is_acted_upon).replace(['\n', '\t'], " ")
}

/// Escape syntax of a format.
#[derive(Debug, Clone, Copy)]
pub(super) enum Escapes {
    /// A surrogate pair.
    Json,
    /// A longer escape.
    Yaml,
}

/// JSON, or JSON within YAML, that means the same and has every hidden character as an escape. Outside of
/// strings there is none.
pub(super) fn escaped(json: String, escapes: Escapes) -> String {
    let stays = |letter| letter == '\n' || !is_hidden(letter);
    if json.chars().all(stays) {
        return json;
    }
    let mut text = String::with_capacity(json.len() + 32);
    for letter in json.chars() {
        if stays(letter) {
            text.push(letter);
            continue;
        }
        let code = u32::from(letter);
        let _ = match escapes {
            Escapes::Yaml if code > 0xffff => write!(text, "\\U{code:08x}"),
            _ => letter
                .encode_utf16(&mut [0; 2])
                .iter()
                .try_for_each(|unit| write!(text, "\\u{unit:04x}")),
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn every_letter() -> impl Iterator<Item = char> {
        (0..=0x0010_ffff).filter_map(char::from_u32)
    }

    #[test]
    fn no_control_character_and_no_direction_is_left_and_all_else_stays() {
        for letter in every_letter() {
            let text = format!("a{letter}b");
            let shown = safe(&text);
            if matches!(letter, '\n' | '\t') || !is_acted_upon(letter) {
                assert_eq!(shown, text, "{letter:?}");
            } else {
                assert_eq!(shown, format!("a<U+{:04X}>b", u32::from(letter)));
            }
            assert_eq!(safe(&shown), shown, "what is safe stays as it is");
        }
    }

    #[test]
    fn a_reader_sees_the_name_of_what_cannot_be_seen() {
        for letter in [
            '\u{200b}',
            '\u{200d}',
            '\u{200f}',
            '\u{2060}',
            '\u{feff}',
            '\u{ad}',
            '\u{e0041}',
            '\u{fe0f}',
        ] {
            let name = format!("<U+{:04X}>", u32::from(letter));
            assert_eq!(revealed(&letter.to_string()), name);
            let dangerous = is_acted_upon(letter);
            assert_eq!(safe(&letter.to_string()) == name, dangerous, "{letter:?}");
        }
        for letter in every_letter().filter(|letter| is_acted_upon(*letter)) {
            let kept = matches!(letter, '\n' | '\t');
            assert_eq!(revealed(&letter.to_string()).len() == 1, kept, "{letter:?}");
        }
    }

    #[test]
    fn the_ends_of_lines_stay_and_a_lone_return_does_not() {
        assert_eq!(safe("one\r\ntwo\rthree\n"), "one\ntwo<U+000D>three\n");
        assert_eq!(
            in_one_line("one\r\ntwo\tthree\u{85}"),
            "one two three<U+0085>"
        );
    }

    #[test]
    fn json_with_escapes_means_the_same() {
        for letter in every_letter().filter(|letter| is_hidden(*letter) || letter.is_ascii()) {
            let value = Value::from(format!("a{letter}b\\"));
            let text = escaped(value.to_string(), Escapes::Json);
            assert!(!text.contains(is_hidden), "{letter:?}");
            assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
        }
    }

    #[test]
    fn yaml_has_one_escape_for_one_character() {
        let text = escaped("\"\u{202e}\u{e0041}\"".into(), Escapes::Yaml);
        assert_eq!(text, r#""\u202e\U000e0041""#);
    }
}
