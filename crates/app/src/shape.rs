//! Checks that a file has the shape that its type's JSON Schema describes.
//!
//! Deserializing stops at the first error and rarely knows its position. This check walks the positioned
//! tree along the schema, so it finds every error with its position. It supports the part of JSON Schema
//! that is generated from the model's types.

mod choice;
mod messages;
mod repair;

use std::collections::BTreeSet;

use convoke_model::Name;
use regex::Regex;
use serde_json::Value;

use crate::spelling::{as_name, did_you_mean, nearest, one_of};
use crate::yaml::{Entry, Kind, MAX_PROBLEMS_PER_FILE, Node, push};

use messages::{article, describe, kind_help, noun, without_full_stop};
pub(crate) use repair::repaired;

/// One position where a value does not have the expected shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ShapeError {
    pub(crate) pointer: String,
    /// Whether the key is meant instead of its value.
    pub(crate) on_key: bool,
    /// The missing key.
    pub(crate) missing: Option<String>,
    /// Whether the value is `null`.
    pub(crate) is_null: bool,
    pub(crate) code: &'static str,
    pub(crate) message: String,
    pub(crate) help: Option<String>,
}

impl ShapeError {
    /// JSON pointer to what is wrong or missing. A wrong value of an enum may change the rules of its
    /// siblings, so it invalidates the parent.
    pub(crate) fn fault(&self) -> String {
        let mut pointer = self.pointer.clone();
        if self.code == "app.unknown_value" {
            pointer.truncate(pointer.rfind('/').unwrap_or_default());
        }
        if let Some(key) = &self.missing {
            push(&mut pointer, key);
        }
        pointer
    }

    /// Whether the deserializer may accept the value: through an alias that the schema does not contain,
    /// or because a rule enforces the bound.
    pub(crate) fn may_be_accepted(&self) -> bool {
        match self.code {
            "app.unknown_key" | "app.unknown_value" | "app.too_short" | "app.too_long"
            | "app.out_of_range" | "app.pattern" => true,
            "app.wrong_type" => self.is_null,
            _ => false,
        }
    }
}

/// All shape errors of `node`.
pub(crate) fn shape_errors(node: &Node, schema: &Value) -> Vec<ShapeError> {
    let mut walk = Walk {
        root: schema,
        pointer: String::new(),
        found: Vec::new(),
    };
    let noun = noun(
        schema
            .get("title")
            .and_then(Value::as_str)
            .unwrap_or("file"),
    );
    walk.check(node, schema, &noun);
    walk.found
}

struct Walk<'a> {
    root: &'a Value,
    pointer: String,
    found: Vec<ShapeError>,
}

impl<'a> Walk<'a> {
    fn add(&mut self, code: &'static str, message: String, help: Option<String>) {
        if self.found.len() >= MAX_PROBLEMS_PER_FILE {
            return;
        }
        let pointer = self.pointer.clone();
        self.found.push(ShapeError {
            pointer,
            on_key: false,
            missing: None,
            is_null: false,
            code,
            message,
            help,
        });
    }

    fn within(&mut self, segment: &str, walk: impl FnOnce(&mut Self)) {
        let length = self.pointer.len();
        push(&mut self.pointer, segment);
        walk(self);
        self.pointer.truncate(length);
    }

    fn check(&mut self, node: &Node, schema: &'a Value, noun: &str) {
        if self.found.len() >= MAX_PROBLEMS_PER_FILE {
            return;
        }
        if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
            let name = reference.rsplit('/').next().unwrap_or(reference);
            if let Some(target) = self.root.pointer(reference.trim_start_matches('#')) {
                self.check(node, target, &messages::noun(name));
            }
        }
        for part in list(schema, "allOf") {
            self.check(node, part, noun);
        }
        let choices = [list(schema, "anyOf"), list(schema, "oneOf")].concat();
        if !choices.is_empty() {
            self.check_choice(node, &choices, noun);
        }
        if !self.check_type(node, schema) {
            return;
        }
        match &node.kind {
            Kind::Map(entries) => self.check_map(entries, schema, noun),
            Kind::List(items) => {
                let Some(schema) = schema.get("items") else {
                    return;
                };
                for (index, item) in items.iter().enumerate() {
                    self.within(&index.to_string(), |walk| walk.check(item, schema, noun));
                }
            }
            Kind::Text(text) => self.check_text(node, text, schema),
            Kind::Number(number) => self.check_number(number, schema),
            Kind::Null | Kind::Bool(_) => {}
        }
    }

    fn check_type(&mut self, node: &Node, schema: &Value) -> bool {
        let expected: Vec<&str> = match schema.get("type") {
            Some(Value::String(one)) => vec![one],
            Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).collect(),
            _ => return true,
        };
        let fits = expected
            .iter()
            .any(|expected| match (&node.kind, *expected) {
                (Kind::Null, "null")
                | (Kind::Bool(_), "boolean")
                | (Kind::Text(_), "string")
                | (Kind::Number(_), "number")
                | (Kind::List(_), "array")
                | (Kind::Map(_), "object") => true,
                (Kind::Number(number), "integer") => number.is_i64() || number.is_u64(),
                _ => false,
            });
        if !fits {
            let kinds: Vec<&str> = expected
                .iter()
                .filter(|kind| **kind != "null")
                .map(|kind| article(kind))
                .collect();
            let message = format!(
                "{} must be {}, not {}",
                self.label(),
                kinds.join(" or "),
                describe(node)
            );
            self.add("app.wrong_type", message, kind_help(node, &expected));
            if let Some(last) = self.found.last_mut() {
                last.is_null = matches!(node.kind, Kind::Null);
            }
        }
        fits
    }

    fn check_map(&mut self, entries: &[Entry], schema: &'a Value, noun: &str) {
        let properties = schema.get("properties").and_then(Value::as_object);
        let patterns = schema.get("patternProperties").and_then(Value::as_object);
        let others = schema.get("additionalProperties");
        let known: Vec<&str> = properties
            .map(|map| map.keys().map(String::as_str).collect())
            .unwrap_or_default();
        let unused: Vec<&str> = known
            .iter()
            .filter(|key| !entries.iter().any(|e| e.key == **key))
            .copied()
            .collect();
        let mut suggested = BTreeSet::new();
        for entry in entries {
            if self.found.len() >= MAX_PROBLEMS_PER_FILE {
                return;
            }
            let named = properties.and_then(|map| map.get(&entry.key)).or_else(|| {
                let pattern = patterns?
                    .iter()
                    .find(|(pattern, _)| matches_pattern(pattern, &entry.key))?;
                Some(pattern.1)
            });
            self.within(&entry.key, |walk| match named.or(others) {
                Some(Value::Bool(false)) if patterns.is_some() => walk.bad_name(&entry.key, true),
                Some(Value::Bool(false)) => {
                    suggested.extend(nearest(&entry.key, unused.iter().copied()));
                    let help = match nearest(&entry.key, unused.iter().copied()) {
                        Some(key) => Some(format!("did you mean `{key}`?")),
                        None => did_you_mean(&entry.key, known.iter().copied()),
                    };
                    let message = format!("unknown key `{}` in {noun}", entry.key);
                    walk.add("app.unknown_key", message, help);
                    walk.point_last_at_key();
                }
                Some(schema) => walk.check(&entry.node, schema, noun),
                None => {}
            });
        }
        for key in list(schema, "required")
            .iter()
            .filter_map(|key| key.as_str())
        {
            // A misspelt key has already been reported.
            if unused.contains(&key) && !suggested.contains(key) {
                let what = properties.and_then(|map| map.get(key)?.get("description")?.as_str());
                let what = what
                    .and_then(|text| text.lines().next())
                    .map(without_full_stop);
                let help = match what {
                    Some(what) => format!("add `{key}:` ({what})"),
                    None => format!("add `{key}:`"),
                };
                self.add(
                    "app.missing_key",
                    format!("`{key}` is missing in {noun}"),
                    Some(help),
                );
                if let Some(last) = self.found.last_mut() {
                    last.missing = Some(key.to_owned());
                }
            }
        }
    }

    fn point_last_at_key(&mut self) {
        if let Some(last) = self.found.last_mut() {
            last.on_key = true;
        }
    }

    fn check_text(&mut self, node: &Node, text: &str, schema: &Value) {
        let allowed: Vec<&str> = match schema.get("const") {
            Some(only) => only.as_str().into_iter().collect(),
            None => list(schema, "enum")
                .iter()
                .filter_map(|value| value.as_str())
                .collect(),
        };
        if !allowed.is_empty() && !allowed.contains(&text) {
            self.unknown_value(node, &allowed);
        }
        if let Some(pattern) = schema.get("pattern").and_then(Value::as_str) {
            if is_name_schema(schema) {
                if Name::new(text).is_err() {
                    self.bad_name(node.written.as_deref().unwrap_or(text), false);
                }
            } else if !matches_pattern(pattern, text) {
                let message = format!("{} does not match `{pattern}`", self.label());
                self.add("app.pattern", message, None);
            }
        }
        let length = text.chars().count() as u64;
        if let Some(least) = schema.get("minLength").and_then(Value::as_u64)
            && length < least
        {
            let message = if least == 1 {
                format!("{} is empty", self.label())
            } else {
                format!(
                    "{} must have at least {least} characters, not {length}",
                    self.label()
                )
            };
            self.add("app.too_short", message, None);
        }
        if let Some(most) = schema.get("maxLength").and_then(Value::as_u64)
            && length > most
            && !is_name_schema(schema)
        {
            let message = format!(
                "{} must have at most {most} characters, not {length}",
                self.label()
            );
            self.add("app.too_long", message, None);
        }
    }

    /// Reports an invalid name with the model's message.
    fn bad_name(&mut self, text: &str, on_key: bool) {
        let help = as_name(text).map(|name| format!("for example `{name}`"));
        if let Err(invalid) = Name::new(text) {
            for problem in invalid.problems {
                self.add(problem.code, problem.message, help.clone());
                if on_key {
                    self.point_last_at_key();
                }
            }
        }
    }

    fn unknown_value(&mut self, node: &Node, allowed: &[&str]) {
        let message = format!(
            "{} cannot be {}; it must be {}",
            self.label(),
            describe(node),
            one_of(allowed)
        );
        let help = node
            .as_text()
            .and_then(|text| nearest(text, allowed.iter().copied()))
            .map(|near| format!("did you mean `{near}`?"));
        self.add("app.unknown_value", message, help);
    }

    fn check_number(&mut self, number: &serde_json::Number, schema: &Value) {
        let Some(value) = number.as_f64() else { return };
        let format = schema
            .get("format")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let by_format = match format {
            "uint8" => Some(f64::from(u8::MAX)),
            "uint16" => Some(f64::from(u16::MAX)),
            "uint32" => Some(f64::from(u32::MAX)),
            "int32" => Some(f64::from(i32::MAX)),
            _ => None,
        };
        let least = schema.get("minimum").and_then(Value::as_f64);
        let most = schema.get("maximum").and_then(Value::as_f64).or(by_format);
        if least.is_some_and(|least| value < least) || most.is_some_and(|most| value > most) {
            let range = match (least, most) {
                (Some(least), Some(most)) => format!("between {least} and {most}"),
                (Some(least), None) => format!("at least {least}"),
                (None, most) => format!("at most {}", most.unwrap_or_default()),
            };
            let message = format!("{} must be {range}, not {number}", self.label());
            self.add("app.out_of_range", message, None);
        }
    }

    /// How messages refer to the current value.
    fn label(&self) -> String {
        let mut parts = self.pointer.rsplit('/');
        let last = parts.next().filter(|_| !self.pointer.is_empty());
        let index = last.and_then(|last| last.parse::<usize>().ok());
        match (last, index, parts.next()) {
            (None, ..) => "the file".to_owned(),
            (Some(_), Some(index), Some(around)) if !around.is_empty() => {
                format!("item {} of `{}`", index + 1, unescaped(around))
            }
            (Some(key), ..) => format!("`{}`", unescaped(key)),
        }
    }
}

fn unescaped(segment: &str) -> String {
    segment.replace("~1", "/").replace("~0", "~")
}

fn list<'a>(schema: &'a Value, key: &str) -> Vec<&'a Value> {
    schema
        .get(key)
        .and_then(Value::as_array)
        .map(|list| list.iter().collect())
        .unwrap_or_default()
}

fn is_name_schema(schema: &Value) -> bool {
    schema.get("pattern").and_then(Value::as_str) == Some("^[a-z][a-z0-9_-]*$")
}

fn matches_pattern(pattern: &str, text: &str) -> bool {
    Regex::new(pattern).is_ok_and(|pattern| pattern.is_match(text))
}
