//! Fields of a tool's result that an app reads, held against the tool's output schema.

use convoke_app::ItemFields;
use serde_json::Value;

/// Limit of references from one schema to another that are followed.
const MAX_REFERENCES: usize = 16;

/// The keys whose field no result has, each with what is wrong.
pub(super) fn unknown_fields(items: &ItemFields, schema: &Value) -> Vec<(&'static str, String)> {
    let item = match &items.list {
        None => Some(schema),
        Some(list) => match field(schema, schema, list) {
            Err(message) => return vec![("items", message)],
            Ok(list) => list.and_then(|list| list.get("items")),
        },
    };
    let Some(item) = item else {
        return Vec::new();
    };
    let fields = items.of_item.iter();
    fields
        .filter_map(|(key, name)| Some((*key, field(schema, item, name).err()?)))
        .collect()
}

/// The schema of a field, if it is known. An error if a schema lists its fields without this one.
fn field<'s>(root: &'s Value, schema: &'s Value, name: &str) -> Result<Option<&'s Value>, String> {
    let schema = resolved(root, schema);
    let Some(known) = schema["properties"].as_object() else {
        return Ok(None);
    };
    if let Some(field) = known.get(name) {
        return Ok(Some(resolved(root, field)));
    }
    let is_open = |key: &str| !matches!(schema[key], Value::Null | Value::Bool(false));
    let others = [
        "additionalProperties",
        "patternProperties",
        "anyOf",
        "oneOf",
        "allOf",
    ];
    if others.into_iter().any(is_open) {
        return Ok(None);
    }
    let known: Vec<&str> = known.keys().map(String::as_str).collect();
    let known = known.join(", ");
    Err(format!(
        "the tool's result has no `{name}` here; it has {known}"
    ))
}

/// The schema that a local `$ref` names.
fn resolved<'s>(root: &'s Value, schema: &'s Value) -> &'s Value {
    let mut schema = schema;
    for _ in 0..MAX_REFERENCES {
        let target = schema["$ref"]
            .as_str()
            .and_then(|target| target.strip_prefix('#'));
        match target.and_then(|target| root.pointer(target)) {
            Some(target) => schema = target,
            None => break,
        }
    }
    schema
}
