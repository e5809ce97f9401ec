//! Error messages for values that do not match their schema.

use crate::yaml::{Kind, Node};

/// Limit of a quoted value, in characters.
const MAX_QUOTE: usize = 40;

/// `McpServerFields` becomes `mcp server`.
pub(super) fn noun(type_name: &str) -> String {
    let mut messages = String::new();
    for character in type_name.trim_end_matches("Fields").chars() {
        if character.is_uppercase() && !messages.is_empty() {
            messages.push(' ');
        }
        messages.extend(character.to_lowercase());
    }
    messages
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

/// Describes the value in the file, with a short quote.
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

/// Help for common mistakes with the kind of a value.
pub(super) fn kind_help(node: &Node, allowed: &[&str]) -> Option<String> {
    let wants = |kind: &str| allowed.contains(&kind);
    match &node.kind {
        Kind::Number(number) if wants("string") => Some(format!("quote it: \"{number}\"")),
        Kind::Bool(value) if wants("string") => Some(format!("quote it: \"{value}\"")),
        Kind::Map(_) if wants("string") => {
            Some("quote a text that starts with `{` or contains `: `".to_owned())
        }
        Kind::Text(text)
            if wants("array") && node.written.is_none() && text.chars().count() <= MAX_QUOTE =>
        {
            Some(format!("for a list with one item write `[{text}]`"))
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

/// A line of a doc comment, without the full stop.
pub(super) fn without_full_stop(text: &str) -> String {
    text.trim_end_matches('.').to_owned()
}
