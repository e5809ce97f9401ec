//! Characters that YAML forbids. The parser ends a file at a NUL and lets the others pass, so they are looked for
//! before it reads: otherwise a part of the file would be left out without a word.

use crate::diagnostic::{Diagnostic, Severity};
use crate::source::{Place, Position, Source};

/// The first character of a text, without its leading byte order mark, that may not stand in a file.
pub(crate) fn forbidden(source: &Source, text: &str) -> Option<Diagnostic> {
    let is_json = source.file().rsplit('.').next() == Some("json");
    let (at, found) = text
        .char_indices()
        .find(|&(_, character)| !may_stand(character, is_json))?;
    let start = source.position_of(source.text().len() - text.len() + at);
    let end = Position {
        column: start.column + 1,
        ..start
    };
    let code = u32::from(found);
    let (message, help) = match found {
        '\0' => (
            "a NUL stands here, and nothing may stand behind it".to_owned(),
            "take it out; if there is one at every second character, save the file as UTF-8",
        ),
        '\u{feff}' => (
            "a byte order mark stands in the middle of the file".to_owned(),
            "take it out; it comes from putting files together",
        ),
        _ => (
            format!("the character U+{code:04X} may not stand in a file"),
            "take it out, or write it as an escape in double quotes, such as \"\\u001B\"",
        ),
    };
    let place = Place { start, end };
    let error = Diagnostic::at(
        Severity::Error,
        source,
        place,
        "app.control_character",
        message,
    );
    Some(error.help(help))
}

/// Whether YAML counts a character among the printable ones. JSON also lets the controls behind ASCII stand in its
/// texts.
fn may_stand(character: char, is_json: bool) -> bool {
    match character {
        '\t' | '\n' | '\r' | '\u{85}' => true,
        '\u{7f}'..='\u{9f}' => is_json,
        '\0'..='\u{1f}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}' => false,
        _ => true,
    }
}
