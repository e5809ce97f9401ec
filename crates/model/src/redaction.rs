//! Takes what tells of a person, or opens a door, out of texts that are logged.
//!
//! It works on form alone: addresses, long numbers, and values whose key says what they are. That
//! finds what leaks by accident; it is no proof against somebody who hides things on purpose.

use serde_json::{Map, Value};

const SECRET_KEYS: [&str; 12] = [
    "password",
    "passwd",
    "secret",
    "token",
    "api_key",
    "apikey",
    "authorization",
    "cookie",
    "email",
    "phone",
    "address",
    "user_name",
];

/// A text without addresses and long numbers.
pub(crate) fn text(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let (taken, replacement) = match first {
            _ if word_length(rest) > 0 && word(rest).contains('@') => match address(word(rest)) {
                Some(length) => (length, Some("[address]")),
                None => (word_length(rest), None),
            },
            '+' | '(' | '0'..='9' => match number(rest) {
                Some(length) => (length, Some("[number]")),
                None => (word_length(rest).max(first.len_utf8()), None),
            },
            _ => (word_length(rest).max(first.len_utf8()), None),
        };
        let (piece, after) = rest.split_at(taken);
        clean.push_str(replacement.unwrap_or(piece));
        rest = after;
    }
    clean
}

/// A value without what [`text`] finds, and without whatever a key declares to be secret.
pub(crate) fn value(given: &Value) -> Value {
    match given {
        Value::String(said) => Value::String(text(said)),
        Value::Array(items) => Value::Array(items.iter().map(value).collect()),
        Value::Object(fields) => Value::Object(map(fields)),
        Value::Null | Value::Bool(_) | Value::Number(_) => given.clone(),
    }
}

/// The same for the fields of an object.
pub(crate) fn map(given: &Map<String, Value>) -> Map<String, Value> {
    given
        .iter()
        .map(|(key, field)| {
            let lower = key.to_lowercase().replace('-', "_");
            let secret = SECRET_KEYS.iter().any(|word| lower.contains(word));
            let clean = if secret && !field.is_null() {
                "[removed]".into()
            } else {
                value(field)
            };
            (key.clone(), clean)
        })
        .collect()
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || matches!(character, '@' | '.' | '_' | '%' | '+' | '-')
}

fn word(text: &str) -> &str {
    &text[..word_length(text)]
}

fn word_length(text: &str) -> usize {
    text.find(|character| !is_word(character))
        .unwrap_or(text.len())
}

/// The length of an e-mail address that a word begins with; a full stop after it is not a part.
fn address(word: &str) -> Option<usize> {
    let address = word.trim_end_matches(['.', '-', '_', '+', '%', '@']);
    let (local, host) = address.split_once('@')?;
    (!local.is_empty() && host.contains('.') && !host.contains('@')).then_some(address.len())
}

/// The length of a telephone, card or account number that a text begins with: 9 to 19 digits,
/// grouped or not, that are no date and no part of an id.
fn number(text: &str) -> Option<usize> {
    let grouped = |character: char| {
        character.is_ascii_digit() || matches!(character, '+' | '(' | ')' | ' ' | '-' | '.' | '/')
    };
    let run = &text[..text
        .find(|character| !grouped(character))
        .unwrap_or(text.len())];
    let run = &run[..=run.rfind(|last: char| last.is_ascii_digit())?];
    let followed = text[run.len()..]
        .chars()
        .next()
        .is_some_and(|next| next.is_alphabetic() || matches!(next, '_' | '@'));
    let digits = run.chars().filter(char::is_ascii_digit).count();
    (!followed && !is_date(run) && (9..=19).contains(&digits)).then_some(run.len())
}

fn is_date(run: &str) -> bool {
    let shape: String = run
        .chars()
        .take(10)
        .map(|next| if next.is_ascii_digit() { '0' } else { next })
        .collect();
    shape == "0000-00-00"
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn addresses_and_long_numbers_are_taken_out() {
        for (given, expected) in [
            ("write to ann.b+x@example.org.", "write to [address]."),
            ("call +49 170 1234567 today", "call [number] today"),
            ("call (030) 1234-5678!", "call [number]!"),
            ("card 4111 1111 1111 1111", "card [number]"),
            (
                "order 123456 of 2025-11-02 10:30:05",
                "order 123456 of 2025-11-02 10:30:05",
            ),
            (
                "task 550e8400-e29b-41d4-a716-446655440000",
                "task 550e8400-e29b-41d4-a716-446655440000",
            ),
            (
                "12345678-e29b-41d4-a716-446655440000",
                "12345678-e29b-41d4-a716-446655440000",
            ),
            ("32/40 hours, 1.5 % @home", "32/40 hours, 1.5 % @home"),
            ("grüße an jörg@müller.de", "grüße an [address]"),
        ] {
            assert_eq!(text(given), expected);
        }
    }

    #[test]
    fn what_a_key_declares_secret_is_removed_whole() {
        let given = json!({
            "Api-Key": "abc",
            "title": "buy milk",
            "to": ["ann@example.org"],
            "nested": { "password": 5, "count": 1_234_567_890 },
        });
        let expected = json!({
            "Api-Key": "[removed]",
            "title": "buy milk",
            "to": ["[address]"],
            "nested": { "password": "[removed]", "count": 1_234_567_890 },
        });
        assert_eq!(value(&given), expected);
    }
}
