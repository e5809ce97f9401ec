//! Characters that YAML forbids. The parser treats NUL as the end of the file and accepts the others, so
//! they are searched for first: otherwise a part of the file could be ignored silently.

use crate::diagnostic::{Diagnostic, Severity};
use crate::source::{Position, Source, SourceRange};

/// Reports the first forbidden character, after an optional leading byte order mark.
pub(crate) fn forbidden(source: &Source, text: &str) -> Option<Diagnostic> {
    let is_json = source.file().rsplit('.').next() == Some("json");
    let (at, found) = text
        .char_indices()
        .find(|&(_, character)| !is_allowed(character, is_json))?;
    let start = source.position_of(source.text().len() - text.len() + at);
    let end = Position {
        column: start.column + 1,
        ..start
    };
    let code = u32::from(found);
    let (message, help) = match found {
        '\0' => (
            "the file contains a NUL character here".to_owned(),
            "remove it; if every second character is a NUL, save the file as UTF-8",
        ),
        '\u{feff}' => (
            "there is a byte order mark inside the file".to_owned(),
            "remove it; it usually comes from concatenating files",
        ),
        _ => (
            format!("the character U+{code:04X} is not allowed in a file"),
            "remove it, or write it as an escape in double quotes, such as \"\\u001B\"",
        ),
    };
    let place = SourceRange { start, end };
    let error = Diagnostic::at(
        Severity::Error,
        source,
        place,
        "app.control_character",
        message,
    );
    Some(error.help(help))
}

/// Whether YAML counts a character as printable. JSON strings may also contain the control characters
/// after ASCII.
fn is_allowed(character: char, is_json: bool) -> bool {
    match character {
        '\t' | '\n' | '\r' | '\u{85}' => true,
        '\u{7f}'..='\u{9f}' => is_json,
        '\0'..='\u{1f}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}' => false,
        _ => true,
    }
}
