//! The words in which a misfit is told.

use crate::yaml::{Kind, Node};

/// The longest piece of a value that a message quotes, in characters.
const MAX_QUOTE: usize = 40;

/// `McpServerFields` becomes `mcp server`.
pub(super) fn noun(type_name: &str) -> String {
    let mut words = String::new();
    for character in type_name.trim_end_matches("Fields").chars() {
        if character.is_uppercase() && !words.is_empty() {
            words.push(' ');
        }
        words.extend(character.to_lowercase());
    }
    words
}

pub(super) fn article(kind: &str) -> &'static str {
    match kind {
        "string" => "a text",
        "integer" => "a whole number",
        "number" => "a number",
        "boolean" => "`true` or `false`",
        "array" => "a list",
        "object" => "a map of keys and values",
        _ => "something else",
    }
}

/// What stands in the file, in words that quote at most a little of it.
pub(super) fn describe(node: &Node) -> String {
    match &node.kind {
        Kind::Null => "empty".to_owned(),
        Kind::Bool(value) => format!("`{value}`"),
        Kind::Number(number) => format!("the number {number}"),
        Kind::Text(text) => {
            let text = node.written.as_deref().unwrap_or(text);
            let mut quoted: String = text.chars().take(MAX_QUOTE).collect();
            if text.chars().count() > MAX_QUOTE {
                quoted.push('…');
            }
            format!("the text `{}`", quoted.replace('\n', " "))
        }
        Kind::List(_) => "a list".to_owned(),
        Kind::Map(_) => "a map of keys and values".to_owned(),
    }
}

/// What to write instead, where a value is of the wrong kind in a way that people often are.
pub(super) fn remedy(node: &Node, allowed: &[&str]) -> Option<String> {
    let wants = |kind: &str| allowed.contains(&kind);
    match &node.kind {
        Kind::Number(number) if wants("string") => {
            Some(format!("put it into quotes: \"{number}\""))
        }
        Kind::Bool(value) if wants("string") => Some(format!("put it into quotes: \"{value}\"")),
        Kind::Map(_) if wants("string") => {
            Some("put a text that begins with `{` or holds `: ` into quotes".to_owned())
        }
        Kind::Text(text)
            if wants("array") && node.written.is_none() && text.chars().count() <= MAX_QUOTE =>
        {
            Some(format!("for a list of one write `[{text}]`"))
        }
        Kind::Text(text) if wants("boolean") && matches!(text.as_str(), "yes" | "on") => {
            Some("write `true`".to_owned())
        }
        Kind::Text(text) if wants("boolean") && matches!(text.as_str(), "no" | "off") => {
            Some("write `false`".to_owned())
        }
        Kind::Null => Some("give it a value, or leave the key out".to_owned()),
        _ => None,
    }
}

/// A doc comment's line as a sentence without its end.
pub(super) fn plain(text: &str) -> String {
    text.trim_end_matches('.').to_owned()
}
