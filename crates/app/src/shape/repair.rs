//! Replaces faulty values so that the result has the shape of its schema.
//!
//! Otherwise one missing key would hide every broken rule in a file. The result is only checked, never
//! run: the shape error itself has been reported, and problems about replaced parts are dropped.

use convoke_model::Name;
use serde_json::{Map, Number, Value};

use super::choice::{allowed_texts, is_null, tag_key};
use super::{is_name_schema, list, matches_pattern};
use crate::spelling::as_name;

/// Limit of nested replacement values, for recursive types.
const MAX_DEPTH: usize = 16;

/// Replacement for a missing text.
const PLACEHOLDER_TEXT: &str = "x";

/// The value with everything that does not match the schema replaced or removed.
pub(crate) fn repaired(value: &Value, schema: &Value) -> Value {
    repair(Some(value), schema, schema, 0)
}

fn repair(value: Option<&Value>, schema: &Value, root: &Value, depth: usize) -> Value {
    if depth > MAX_DEPTH {
        return value.cloned().unwrap_or_default();
    }
    let reference = schema.get("$ref").and_then(Value::as_str);
    if let Some(target) = reference.and_then(|path| root.pointer(path.trim_start_matches('#'))) {
        return repair(value, target, root, depth + 1);
    }
    let choices = [list(schema, "anyOf"), list(schema, "oneOf")].concat();
    if !choices.is_empty() {
        return repair_choice(value, &choices, root, depth);
    }
    match (target_kind(value, schema), value) {
        (Some("string"), value) => Value::String(repair_text(value, schema)),
        (Some("integer" | "number"), value) => repair_number(value, schema),
        (Some("boolean"), Some(Value::Bool(value))) => Value::Bool(*value),
        (Some("boolean"), _) => Value::Bool(false),
        (Some("array"), Some(Value::Array(items))) => {
            let nothing = Value::Bool(true);
            let schema = schema.get("items").unwrap_or(&nothing);
            items
                .iter()
                .map(|item| repair(Some(item), schema, root, depth + 1))
                .collect()
        }
        (Some("array"), _) => Value::Array(Vec::new()),
        (Some("object"), value) => repair_map(value, schema, root, depth),
        (Some(_), _) => Value::Null,
        (None, value) => value.cloned().unwrap_or_default(),
    }
}

/// The kind of the result: the value's own if allowed, else the first one that is not `null`, or `null`
/// if there is no value and `null` is allowed.
fn target_kind<'a>(value: Option<&Value>, schema: &'a Value) -> Option<&'a str> {
    match schema.get("type")? {
        Value::String(kind) => Some(kind),
        Value::Array(kinds) => {
            let mut kinds = kinds.iter().filter_map(Value::as_str);
            kinds
                .clone()
                .find(|kind| has_kind(value, kind))
                .or_else(|| kinds.find(|k| *k != "null"))
        }
        _ => None,
    }
}

fn has_kind(value: Option<&Value>, kind: &str) -> bool {
    match value {
        None | Some(Value::Null) => kind == "null",
        Some(Value::Bool(_)) => kind == "boolean",
        Some(Value::Number(_)) => matches!(kind, "integer" | "number"),
        Some(Value::String(_)) => kind == "string",
        Some(Value::Array(_)) => kind == "array",
        Some(Value::Object(_)) => kind == "object",
    }
}

fn repair_choice(value: Option<&Value>, choices: &[&Value], root: &Value, depth: usize) -> Value {
    let resolved = |choice: &Value| {
        let reference = choice.get("$ref").and_then(Value::as_str);
        let target = reference.and_then(|path| root.pointer(path.trim_start_matches('#')));
        target.unwrap_or(choice).clone()
    };
    let choices: Vec<Value> = choices.iter().map(|choice| resolved(choice)).collect();
    let suits = |choice: &&Value| match (value, allowed_texts(choice).as_slice(), tag_key(choice)) {
        (Some(Value::String(text)), [_, ..], _) => allowed_texts(choice).contains(&text.as_str()),
        (Some(Value::Object(map)), [], Some(tag)) => map.contains_key(tag),
        (value, [], None) => target_kind(value, choice).is_none_or(|kind| has_kind(value, kind)),
        _ => false,
    };
    let suiting = choices.iter().find(suits);
    match suiting.or_else(|| choices.iter().find(|choice| !is_null(choice))) {
        Some(choice) => repair(value, choice, root, depth + 1),
        None => Value::Null,
    }
}

fn repair_text(value: Option<&Value>, schema: &Value) -> String {
    let text = match value {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Number(number)) => number.to_string(),
        Some(Value::Bool(value)) => value.to_string(),
        _ => PLACEHOLDER_TEXT.to_owned(),
    };
    let messages = allowed_texts(schema);
    if !messages.is_empty() && !messages.contains(&text.as_str()) {
        messages[0].to_owned()
    } else if is_name_schema(schema) && Name::new(&text).is_err() {
        as_name(&text).unwrap_or_else(|| PLACEHOLDER_TEXT.to_owned())
    } else {
        text
    }
}

fn repair_number(value: Option<&Value>, schema: &Value) -> Value {
    let bound = |key: &str| schema.get(key).and_then(Value::as_f64);
    let is_whole = schema
        .get("type")
        .is_some_and(|kind| kind.to_string().contains("integer"));
    let fits = |number: &&Number| {
        let value = number.as_f64().unwrap_or_default();
        bound("minimum").is_none_or(|least| value >= least)
            && bound("maximum").is_none_or(|most| value <= most)
            && (!is_whole
                || number
                    .as_u64()
                    .is_some_and(|whole| u32::try_from(whole).is_ok()))
    };
    match value.and_then(Value::as_number).filter(fits) {
        Some(number) => Value::Number(number.clone()),
        None => Value::from(1),
    }
}

fn repair_map(value: Option<&Value>, schema: &Value, root: &Value, depth: usize) -> Value {
    let nothing = Map::new();
    let present = value.and_then(Value::as_object).unwrap_or(&nothing);
    let properties = schema
        .get("properties")
        .and_then(Value::as_object)
        .unwrap_or(&nothing);
    let patterns = schema
        .get("patternProperties")
        .and_then(Value::as_object)
        .unwrap_or(&nothing);
    let others = schema
        .get("additionalProperties")
        .filter(|others| **others != Value::Bool(false));
    let open = others.or_else(|| {
        let is_open = schema.get("additionalProperties").is_none();
        is_open.then_some(&Value::Bool(true))
    });
    let mut map = Map::new();
    for (key, value) in present {
        let schema = properties
            .get(key)
            .or_else(|| {
                patterns
                    .iter()
                    .find(|(p, _)| matches_pattern(p, key))
                    .map(|(_, s)| s)
            })
            .or(open);
        if let Some(schema) = schema {
            map.insert(key.clone(), repair(Some(value), schema, root, depth + 1));
        }
    }
    for key in list(schema, "required")
        .into_iter()
        .filter_map(Value::as_str)
    {
        if let (false, Some(schema)) = (map.contains_key(key), properties.get(key)) {
            map.insert(key.to_owned(), repair(None, schema, root, depth + 1));
        }
    }
    Value::Object(map)
}
