//! Takes what tells of a person, or opens a door, out of texts that are logged.
//!
//! It works on form alone: addresses, long numbers, tokens and keys as they look, and values whose name
//! says what they are. That finds what leaks by accident; it is no proof against somebody who hides
//! things on purpose.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What is taken out of logs and traces.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Redaction {
    /// The kinds of things that are taken out; all of them unless said otherwise.
    pub remove: BTreeSet<Sensitive>,
    /// Fields whose values are taken out whole, beside those that the kinds name. A field whose name
    /// contains one of these words is meant.
    pub fields: Vec<String>,
}

/// A kind of thing that does not belong in a log.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Sensitive {
    /// E-mail addresses.
    EmailAddresses,
    /// Telephone and other long numbers.
    PhoneNumbers,
    /// Card numbers, which their check digit tells.
    CardNumbers,
    /// Bearer tokens, signed tokens, cookies.
    Tokens,
    /// API keys by their form, passwords and other secrets by the name of their field.
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

    /// Words in the names of fields that hold such a thing.
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

/// How API keys of well-known services begin.
const KEY_BEGINNINGS: [&str; 14] = [
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

/// Shorter words are no keys, whatever they begin with.
const MIN_KEY_LENGTH: usize = 16;

/// Shorter words are no tokens.
const MIN_TOKEN_LENGTH: usize = 8;

/// What stands in the place of a value that was taken out whole.
const REMOVED: &str = "[removed]";

impl Redaction {
    /// Takes nothing out.
    pub fn nothing() -> Self {
        Self {
            remove: BTreeSet::new(),
            fields: Vec::new(),
        }
    }

    /// A text without what it should not tell.
    pub fn text(&self, text: &str) -> String {
        let mut clean = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let (taken, replacement) = self.piece(rest, first);
            let (piece, after) = rest.split_at(taken);
            clean.push_str(replacement.unwrap_or(piece));
            rest = after;
            let Some(sent) = self.secret_behind(piece, rest) else {
                continue;
            };
            let (gap, after) = rest.split_at(sent.start);
            clean.push_str(gap);
            clean.push_str(if sent.is_token { "[token]" } else { REMOVED });
            rest = &after[sent.length..];
        }
        clean
    }

    /// The length of what a text begins with, and what stands in its place.
    fn piece(&self, rest: &str, first: char) -> (usize, Option<&'static str>) {
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

    /// A value without what [`text`](Self::text) finds, and without what the names of fields declare.
    pub fn value(&self, given: &Value) -> Value {
        match given {
            Value::String(said) => Value::String(self.text(said)),
            Value::Array(items) => items.iter().map(|item| self.value(item)).collect(),
            Value::Object(fields) => Value::Object(self.map(fields)),
            Value::Null | Value::Bool(_) | Value::Number(_) => given.clone(),
        }
    }

    /// The same for the fields of an object.
    pub fn map(&self, given: &Map<String, Value>) -> Map<String, Value> {
        given
            .iter()
            .map(|(key, field)| {
                let clean = match self.declared(key) {
                    // `input_tokens` is a number of tokens, and no token.
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

    /// The kind of thing that a field's name says it holds, if that is taken out.
    fn declared(&self, name: &str) -> Option<Sensitive> {
        let name = folded(name);
        let named = |kind: &&Sensitive| kind.field_words().iter().any(|word| name.contains(word));
        self.remove.iter().find(named).copied()
    }

    fn is_listed(&self, name: &str) -> bool {
        let name = folded(name);
        self.fields.iter().any(|word| name.contains(&folded(word)))
    }

    /// What follows `Bearer`, `password=` and the like, if it has to go.
    fn secret_behind(&self, before: &str, rest: &str) -> Option<Sent> {
        let is_scheme = ["bearer", "basic"].contains(&before.to_lowercase().as_str());
        if is_scheme && self.removes(Sensitive::Tokens) {
            let value = rest.strip_prefix(' ')?;
            let length = value_length(value);
            return (length >= MIN_TOKEN_LENGTH).then_some(Sent {
                start: 1,
                length,
                is_token: true,
            });
        }
        let kind = self.declared(before)?;
        if !matches!(kind, Sensitive::Keys | Sensitive::Tokens) {
            return None;
        }
        let quoted = rest.trim_start_matches(['"', '\'']);
        let value = quoted.strip_prefix(['=', ':'])?;
        let value = value.trim_start_matches([' ', '"', '\'']);
        let length = value_length(value);
        let scheme = ["bearer", "basic"].contains(&value[..length].to_lowercase().as_str());
        let is_count = value[..length].bytes().all(|byte| byte.is_ascii_digit());
        (length > 0 && !scheme && !is_count).then(|| Sent {
            start: rest.len() - value.len(),
            length,
            is_token: false,
        })
    }
}

/// A secret that stands behind its name.
struct Sent {
    start: usize,
    length: usize,
    is_token: bool,
}

fn folded(name: &str) -> String {
    name.to_lowercase().replace('-', "_")
}

/// The length of a value in a line of a log.
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

/// Whether a word is a JSON web token: three parts, the first of which begins with `{"`.
fn is_signed_token(word: &str) -> bool {
    word.starts_with("eyJ") && word.len() >= MIN_KEY_LENGTH && word.matches('.').count() >= 1
}

fn is_key(word: &str) -> bool {
    word.len() >= MIN_KEY_LENGTH
        && KEY_BEGINNINGS
            .iter()
            .any(|beginning| word.starts_with(beginning))
        && word.bytes().any(|byte| byte.is_ascii_digit())
}

/// The length of an e-mail address that a word begins with; a full stop after it is not a part.
fn address(word: &str) -> Option<usize> {
    let address = word.trim_end_matches(['.', '-', '_', '+', '%', '@']);
    let (local, host) = address.split_once('@')?;
    (!local.is_empty() && host.contains('.') && !host.contains('@')).then_some(address.len())
}

/// The telephone, card or account number that a text begins with: 9 to 19 digits, grouped or not, that
/// are no date and no part of an id.
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

/// Whether the digits of a number are those of a card, by the check that all of them pass (Luhn).
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
    fn what_tells_of_a_person_or_opens_a_door_is_taken_out() {
        for (given, expected) in [
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
            assert_eq!(Redaction::default().text(given), expected);
        }
    }

    #[test]
    fn what_a_field_declares_secret_is_removed_whole() {
        let given = json!({
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
        assert_eq!(Redaction::default().value(&given), expected);
    }

    #[test]
    fn an_app_says_what_is_taken_out() {
        let only_cards: Redaction =
            serde_json::from_value(json!({ "remove": ["card_numbers"], "fields": ["salary"] }))
                .unwrap();
        let given = json!({ "to": "ann@example.org", "card": "4111111111111111", "salary": 1 });
        assert_eq!(
            only_cards.value(&given),
            json!({ "to": "ann@example.org", "card": "[card]", "salary": "[removed]" })
        );
        assert_eq!(Redaction::nothing().value(&given), given);
        assert!(serde_json::from_value::<Redaction>(json!({ "remove": ["names"] })).is_err());
    }

    #[test]
    fn any_text_is_read_to_its_end() {
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
