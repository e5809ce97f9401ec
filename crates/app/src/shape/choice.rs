//! Values with alternative shapes: optional values, enums without data, and enums whose key selects the
//! variant.

use serde_json::Value;

use super::messages::describe;
use super::{Walk, list};
use crate::spelling::{did_you_mean, one_of};
use crate::yaml::{Entry, Kind, Node};

impl<'a> Walk<'a> {
    /// Checks a value with alternative shapes.
    pub(super) fn check_choice(&mut self, node: &Node, choices: &[&'a Value], noun: &str) {
        let choices: Vec<&Value> = choices.iter().map(|choice| self.resolved(choice)).collect();
        if choices.iter().any(|choice| self.fits(node, choice)) {
            return;
        }
        let real: Vec<&Value> = choices
            .into_iter()
            .filter(|choice| !is_null(choice))
            .collect();
        let messages: Vec<&str> = real
            .iter()
            .flat_map(|choice| allowed_texts(choice))
            .collect();
        let tags: Vec<&str> = real.iter().filter_map(|choice| tag_key(choice)).collect();
        if let [only] = real.as_slice() {
            return self.check(node, only, noun);
        }
        if let (Kind::Text(_), false) = (&node.kind, messages.is_empty()) {
            return self.unknown_value(node, &messages);
        }
        if let (Kind::Map(entries), false) = (&node.kind, tags.is_empty()) {
            return self.check_outer_tag(entries, &real, &tags, noun);
        }
        if tags.len() == real.len() || messages.len() >= real.len() {
            let all: Vec<&str> = messages.into_iter().chain(tags).collect();
            let message = format!("{} cannot be {}", self.label(), describe(node));
            return self.add(
                "app.unknown_value",
                message,
                Some(format!("use {}", one_of(&all))),
            );
        }
        // The alternative of the same kind is the intended one.
        let best = real.iter().min_by_key(|choice| {
            let mut walk = Walk {
                root: self.root,
                pointer: String::new(),
                found: Vec::new(),
            };
            walk.check(node, choice, noun);
            let wrong_kind = walk
                .found
                .iter()
                .any(|m| m.code == "app.wrong_type" && m.pointer.is_empty());
            (wrong_kind, walk.found.len())
        });
        if let Some(best) = best {
            self.check(node, best, noun);
        }
    }

    /// `transport: {stdio: …}`: the key selects the variant.
    fn check_outer_tag(
        &mut self,
        entries: &[Entry],
        choices: &[&'a Value],
        tags: &[&str],
        noun: &str,
    ) {
        if entries.len() != 1 {
            let message = format!(
                "{} must have exactly one key, not {}",
                self.label(),
                entries.len()
            );
            return self.add("app.one_of", message, Some(format!("use {}", one_of(tags))));
        }
        for entry in entries {
            match choices
                .iter()
                .find(|choice| tag_key(choice) == Some(entry.key.as_str()))
            {
                Some(choice) => self.check_map(entries, choice, noun),
                None => self.within(&entry.key, |walk| {
                    let message = format!("unknown key `{}` in {noun}", entry.key);
                    walk.add(
                        "app.unknown_key",
                        message,
                        did_you_mean(&entry.key, tags.iter().copied()),
                    );
                    walk.point_last_at_key();
                }),
            }
        }
    }

    fn resolved(&self, schema: &'a Value) -> &'a Value {
        let reference = schema.get("$ref").and_then(Value::as_str);
        reference
            .and_then(|reference| self.root.pointer(reference.trim_start_matches('#')))
            .unwrap_or(schema)
    }

    fn fits(&self, node: &Node, schema: &'a Value) -> bool {
        let mut walk = Walk {
            root: self.root,
            pointer: String::new(),
            found: Vec::new(),
        };
        walk.check(node, schema, "");
        walk.found.is_empty()
    }
}

pub(super) fn is_null(schema: &Value) -> bool {
    schema.get("type").and_then(Value::as_str) == Some("null")
}

pub(super) fn allowed_texts(schema: &Value) -> Vec<&str> {
    match schema.get("const") {
        Some(only) => only.as_str().into_iter().collect(),
        None => list(schema, "enum")
            .into_iter()
            .filter_map(Value::as_str)
            .collect(),
    }
}

/// The single key of an object schema that represents an enum variant.
pub(super) fn tag_key(schema: &Value) -> Option<&str> {
    let properties = schema.get("properties")?.as_object()?;
    let closed = schema.get("additionalProperties") == Some(&Value::Bool(false));
    let required = list(schema, "required").len();
    (closed && properties.len() == 1 && required == 1)
        .then(|| properties.keys().next().map(String::as_str))
        .flatten()
}
