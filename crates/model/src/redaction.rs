//! Removes personal data and secrets from texts that are logged.
//!
//! It recognises form alone: addresses, long numbers, tokens and keys by their shape, and values by the
//! name of their field. That finds accidental leaks; it does not stop deliberate hiding.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What is removed from logs and traces.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Redaction {
    /// The kinds of data to remove; all by default.
    pub remove: BTreeSet<Sensitive>,
    /// Fields whose values are removed entirely, besides those of the kinds. A field matches if its name
    /// contains one of these words.
    pub fields: Vec<String>,
}

/// A kind of sensitive data.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Sensitive {
    /// E-mail addresses.
    EmailAddresses,
    /// Telephone and other long numbers.
    PhoneNumbers,
    /// Card numbers, recognised by their check digit.
    CardNumbers,
    /// Bearer tokens, signed tokens, cookies.
    Tokens,
    /// API keys by their form; passwords and other secrets by the name of their field.
    Keys,
}

impl Sensitive {
    const ALL: [Self; 5] = [
        Self::EmailAddresses,
        Self::PhoneNumbers,
        Self::CardNumbers,
        Self::Tokens,
        Self::Keys,
    ];

    /// Words in names of fields that contain such data.
    fn field_words(self) -> &'static [&'static str] {
        match self {
            Self::EmailAddresses => &["email", "e_mail"],
            Self::PhoneNumbers => &["phone"],
            Self::CardNumbers => &["card_number"],
            Self::Tokens => &["token", "authorization", "cookie"],
            Self::Keys => &[
                "password",
                "passwd",
                "secret",
                "api_key",
                "apikey",
                "private_key",
            ],
        }
    }
}

impl Default for Redaction {
    fn default() -> Self {
        Self {
            remove: Sensitive::ALL.into(),
            fields: vec!["address".into(), "user_name".into()],
        }
    }
}

/// Prefixes of API keys of well-known services.
const KEY_PREFIXES: [&str; 14] = [
    "sk-",
    "rk-",
    "sk_live_",
    "sk_test_",
    "pk_live_",
    "ghp_",
    "gho_",
    "ghs_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xoxp-",
    "AKIA",
    "AIza",
];

/// Shorter words are never treated as keys.
const MIN_KEY_LENGTH: usize = 16;

/// Shorter words are never treated as tokens.
const MIN_TOKEN_LENGTH: usize = 8;

/// Replacement of a value that is removed entirely.
const REMOVED: &str = "[removed]";

impl Redaction {
    /// Removes nothing.
    pub fn nothing() -> Self {
        Self {
            remove: BTreeSet::new(),
            fields: Vec::new(),
        }
    }

    /// The text without sensitive data.
    pub fn text(&self, text: &str) -> String {
        let mut clean = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let (taken, replacement) = self.next_piece(rest, first);
            let (piece, after) = rest.split_at(taken);
            clean.push_str(replacement.unwrap_or(piece));
            rest = after;
            let Some(secret) = self.secret_after(piece, rest) else {
                continue;
            };
            let (gap, after) = rest.split_at(secret.start);
            clean.push_str(gap);
            clean.push_str(if secret.is_token { "[token]" } else { REMOVED });
            rest = &after[secret.length..];
        }
        clean
    }

    /// The length of the text's next piece, and its replacement if it is sensitive.
    fn next_piece(&self, rest: &str, first: char) -> (usize, Option<&'static str>) {
        let word = word(rest);
        let plain = (word.len().max(first.len_utf8()), None);
        if word.contains('@') && self.removes(Sensitive::EmailAddresses) {
            return match address(word) {
                Some(length) => (length, Some("[address]")),
                None => plain,
            };
        }
        if is_signed_token(word) && self.removes(Sensitive::Tokens) {
            return (word.len(), Some("[token]"));
        }
        if is_key(word) && self.removes(Sensitive::Keys) {
            return (word.len(), Some("[key]"));
        }
        if !matches!(first, '+' | '(' | '0'..='9') {
            return plain;
        }
        match number(rest) {
            Some(run) if self.removes(Sensitive::CardNumbers) && is_card(run) => {
                (run.len(), Some("[card]"))
            }
            Some(run) if self.removes(Sensitive::PhoneNumbers) && !is_card(run) => {
                (run.len(), Some("[number]"))
            }
            _ => plain,
        }
    }

    /// The value without what [`text`](Self::text) finds and without sensitive fields.
    pub fn value(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.text(text)),
            Value::Array(items) => items.iter().map(|item| self.value(item)).collect(),
            Value::Object(fields) => Value::Object(self.map(fields)),
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        }
    }

    /// The same for an object.
    pub fn map(&self, value: &Map<String, Value>) -> Map<String, Value> {
        value
            .iter()
            .map(|(key, field)| {
                let clean = match self.kind_by_name(key) {
                    // `input_tokens` is a number of tokens, not a token.
                    Some(Sensitive::Tokens) if !field.is_string() => self.value(field),
                    Some(_) if !field.is_null() => REMOVED.into(),
                    _ if !field.is_null() && self.is_listed(key) => REMOVED.into(),
                    _ => self.value(field),
                };
                (key.clone(), clean)
            })
            .collect()
    }

    fn removes(&self, kind: Sensitive) -> bool {
        self.remove.contains(&kind)
    }

    /// The kind of data that a field's name implies, if that kind is removed.
    fn kind_by_name(&self, name: &str) -> Option<Sensitive> {
        let name = normalized(name);
        let named = |kind: &&Sensitive| kind.field_words().iter().any(|word| name.contains(word));
        self.remove.iter().find(named).copied()
    }

    fn is_listed(&self, name: &str) -> bool {
        let name = normalized(name);
        self.fields
            .iter()
            .any(|word| name.contains(&normalized(word)))
    }

    /// The secret after `Bearer`, `password=` and the like, if it is to be removed.
    fn secret_after(&self, before: &str, rest: &str) -> Option<LabelledSecret> {
        let is_scheme = ["bearer", "basic"].contains(&before.to_lowercase().as_str());
        if is_scheme && self.removes(Sensitive::Tokens) {
            let value = rest.strip_prefix(' ')?;
            let length = value_length(value);
            return (length >= MIN_TOKEN_LENGTH).then_some(LabelledSecret {
                start: 1,
                length,
                is_token: true,
            });
        }
        if let Some((start, length)) = quoted_value(rest)
            && self.is_listed(before)
        {
            return Some(LabelledSecret {
                start,
                length,
                is_token: false,
            });
        }
        let kind = self.kind_by_name(before)?;
        if !matches!(kind, Sensitive::Keys | Sensitive::Tokens) {
            return None;
        }
        let quoted = rest.trim_start_matches(['"', '\'']);
        let value = quoted.strip_prefix(['=', ':'])?;
        let value = value.trim_start_matches([' ', '"', '\'']);
        let length = value_length(value);
        let scheme = ["bearer", "basic"].contains(&value[..length].to_lowercase().as_str());
        let is_count = value[..length].bytes().all(|byte| byte.is_ascii_digit());
        (length > 0 && !scheme && !is_count).then(|| LabelledSecret {
            start: rest.len() - value.len(),
            length,
            is_token: false,
        })
    }
}

/// A secret after its name.
struct LabelledSecret {
    start: usize,
    length: usize,
    is_token: bool,
}

fn normalized(name: &str) -> String {
    name.to_lowercase().replace('-', "_")
}

/// The place of the text in quotes after the name of a field, as in `name="…"` and `"name":"…"`, without the quotes. A
/// text that is cut off ends with the line.
fn quoted_value(after_name: &str) -> Option<(usize, usize)> {
    let rest = after_name.strip_prefix('"').unwrap_or(after_name);
    let rest = rest.strip_prefix(['=', ':'])?.trim_start_matches(' ');
    let text = rest.strip_prefix('"')?;
    let mut is_escaped = false;
    let end = text.find(|character| {
        let ends = character == '"' && !is_escaped;
        is_escaped = character == '\\' && !is_escaped;
        ends
    });
    let length = end.unwrap_or(text.len());
    (length > 0).then_some((after_name.len() - text.len(), length))
}

/// The length of a value in a log line.
fn value_length(text: &str) -> usize {
    let ends = |character: char| {
        character.is_whitespace() || matches!(character, '"' | '\'' | ',' | ';' | '}' | ')' | '&')
    };
    text.find(ends).unwrap_or(text.len())
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || matches!(character, '@' | '.' | '_' | '%' | '+' | '-')
}

fn word(text: &str) -> &str {
    let length = text.find(|character| !is_word(character));
    &text[..length.unwrap_or(text.len())]
}

/// Whether a word is a JSON web token: three parts, of which the first decodes to `{"…`.
fn is_signed_token(word: &str) -> bool {
    word.starts_with("eyJ") && word.len() >= MIN_KEY_LENGTH && word.matches('.').count() >= 1
}

fn is_key(word: &str) -> bool {
    word.len() >= MIN_KEY_LENGTH
        && KEY_PREFIXES
            .iter()
            .any(|beginning| word.starts_with(beginning))
        && word.bytes().any(|byte| byte.is_ascii_digit())
}

/// The length of an e-mail address at the start of a word, without a trailing full stop.
fn address(word: &str) -> Option<usize> {
    let address = word.trim_end_matches(['.', '-', '_', '+', '%', '@']);
    let (local, host) = address.split_once('@')?;
    (!local.is_empty() && host.contains('.') && !host.contains('@')).then_some(address.len())
}

/// The phone, card or account number at the start of a text: 9 to 19 digits, with or without grouping,
/// that are neither a date nor part of an id.
fn number(text: &str) -> Option<&str> {
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
    (!followed && !is_date(run) && (9..=19).contains(&digits)).then_some(run)
}

/// Whether digits pass the check of card numbers (Luhn).
fn is_card(run: &str) -> bool {
    let digits: Vec<u32> = run.chars().filter_map(|digit| digit.to_digit(10)).collect();
    let doubled = |digit: u32| if digit > 4 { 2 * digit - 9 } else { 2 * digit };
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(place, digit)| {
            if place % 2 == 1 {
                doubled(*digit)
            } else {
                *digit
            }
        })
        .sum();
    (13..=19).contains(&digits.len()) && sum.is_multiple_of(10)
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
    fn personal_data_and_secrets_are_removed() {
        for (value, expected) in [
            ("write to ann.b+x@example.org.", "write to [address]."),
            ("call +49 170 1234567 today", "call [number] today"),
            ("call (030) 1234-5678!", "call [number]!"),
            ("card 4111 1111 1111 1111", "card [card]"),
            ("account 4111 1111 1111 1112", "account [number]"),
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
            (
                "Authorization: Bearer abc/def+123==, then",
                "Authorization: Bearer [token], then",
            ),
            (
                "a basic idea, and bearer bonds",
                "a basic idea, and bearer bonds",
            ),
            (
                "got eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl",
                "got [token]",
            ),
            ("key sk-proj-abcdef1234567890 leaked", "key [key] leaked"),
            ("password=hunter2 user=ann", "password=[removed] user=ann"),
            (r#"{"api_key": "abc-1"}"#, r#"{"api_key": "[removed]"}"#),
            ("spent output_tokens=512", "spent output_tokens=512"),
            (
                "the risk-free-approach-of-2026",
                "the risk-free-approach-of-2026",
            ),
        ] {
            assert_eq!(Redaction::default().text(value), expected);
        }
    }

    #[test]
    fn sensitive_fields_are_removed_entirely() {
        let value = json!({
            "Api-Key": "abc",
            "title": "buy milk",
            "to": ["ann@example.org"],
            "nested": { "password": 5, "count": 1_234_567_890, "input_tokens": 7 },
            "access_token": "abc",
            "delivery_address": "Main Street 1",
        });
        let expected = json!({
            "Api-Key": "[removed]",
            "title": "buy milk",
            "to": ["[address]"],
            "nested": { "password": "[removed]", "count": 1_234_567_890, "input_tokens": 7 },
            "access_token": "[removed]",
            "delivery_address": "[removed]",
        });
        assert_eq!(Redaction::default().value(&value), expected);
    }

    #[test]
    fn an_app_configures_what_is_removed() {
        let only_cards: Redaction =
            serde_json::from_value(json!({ "remove": ["card_numbers"], "fields": ["salary"] }))
                .unwrap();
        let value = json!({ "to": "ann@example.org", "card": "4111111111111111", "salary": 1 });
        assert_eq!(
            only_cards.value(&value),
            json!({ "to": "ann@example.org", "card": "[card]", "salary": "[removed]" })
        );
        assert_eq!(Redaction::nothing().value(&value), value);
        assert!(serde_json::from_value::<Redaction>(json!({ "remove": ["names"] })).is_err());
    }

    #[test]
    fn the_fields_of_an_app_are_removed_from_texts_too() {
        let redaction: Redaction =
            serde_json::from_value(json!({ "remove": [], "fields": ["salary"] })).unwrap();
        for (text, clean) in [
            (
                r#"pay base_salary="5 \"net\" k" to="Ann""#,
                r#"pay base_salary="[removed]" to="Ann""#,
            ),
            (
                r#"{"salary":"five, or so","to":"Ann"}"#,
                r#"{"salary":"[removed]","to":"Ann"}"#,
            ),
            (r#"{"salary": "five, or"#, r#"{"salary": "[removed]"#),
            ("the salary is paid", "the salary is paid"),
            ("salary: paid", "salary: paid"),
        ] {
            assert_eq!(redaction.text(text), clean);
        }
    }

    #[test]
    fn redaction_terminates_on_any_text() {
        for text in [
            "",
            "@",
            "+",
            "(",
            "Bearer ",
            "password=",
            "é@",
            "token:\"",
            "eyJ.",
            "0\u{301}9",
        ] {
            Redaction::default().text(text);
        }
    }
}
