//! The keys of an app folder, as the JSON Schemas of its files have them: `agents/*.yaml#skills[].slots.*.ask`. A value of
//! a closed set stands behind its key: `convoke.yaml#decide.several=never`.

use std::collections::BTreeSet;

use serde_json::Value;

/// A file of an app folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct File {
    path: &'static str,
    schema: &'static str,
}

impl File {
    pub(crate) const ALL: [Self; 9] = [
        Self::of("convoke.yaml", "AppConfig"),
        Self::of("agents/*.yaml", "Agent"),
        Self::of("workflows/*.yaml", "Workflow"),
        Self::of("config/mcp_servers.yaml", "McpServersFile"),
        Self::of("config/domains.yaml", "DomainsFile"),
        Self::of("config/channels.yaml", "ChannelsFile"),
        Self::of("config/style_guide.yaml", "StyleGuide"),
        Self::of("config/retention_policy.yaml", "RetentionPolicy"),
        Self::of("evals/*.yaml", "EvalFile"),
    ];

    const fn of(path: &'static str, schema: &'static str) -> Self {
        Self { path, schema }
    }

    pub(crate) fn path(self) -> &'static str {
        self.path
    }

    /// The file of this path.
    pub(crate) fn at(path: &str) -> Self {
        let folder = path.split_once('/').map_or("", |(folder, _)| folder);
        let found = Self::ALL.into_iter().find(|file| {
            file.path == path
                || file
                    .path
                    .strip_suffix("/*.yaml")
                    .is_some_and(|of| of == folder)
        });
        found.unwrap_or_else(|| panic!("no file of an app is {path}"))
    }

    fn schema(self) -> Value {
        convoke_app::schema(self.schema).unwrap().as_value().clone()
    }
}

/// A schema and everything that it stands for: references and alternatives.
fn meanings<'a>(root: &'a Value, schema: &'a Value, found: &mut Vec<&'a Value>) {
    found.push(schema);
    if let Some(reference) = schema["$ref"].as_str() {
        let target = root.pointer(reference.trim_start_matches('#')).unwrap();
        meanings(root, target, found);
    }
    for branch in ["allOf", "anyOf", "oneOf"] {
        for part in schema[branch].as_array().into_iter().flatten() {
            meanings(root, part, found);
        }
    }
}

fn all<'a>(root: &'a Value, schema: &'a Value) -> Vec<&'a Value> {
    let mut found = Vec::new();
    meanings(root, schema, &mut found);
    found
}

/// The keys of a file that are set by themselves: not those that only hold others. With the values of closed sets.
pub(crate) fn keys(file: File) -> BTreeSet<String> {
    let root = file.schema();
    let mut found = BTreeSet::new();
    walk(&root, &root, &format!("{}#", file.path), true, &mut found);
    found
}

fn join(path: &str, key: &str) -> String {
    if path.ends_with('#') {
        format!("{path}{key}")
    } else {
        format!("{path}.{key}")
    }
}

fn walk(root: &Value, schema: &Value, path: &str, is_root: bool, found: &mut BTreeSet<String>) {
    let before = found.len();
    let all = all(root, schema);
    for meaning in &all {
        for (key, schema) in meaning["properties"].as_object().into_iter().flatten() {
            walk(root, schema, &join(path, key), false, found);
        }
        for (_, schema) in meaning["patternProperties"]
            .as_object()
            .into_iter()
            .flatten()
        {
            walk(root, schema, &join(path, "*"), true, found);
        }
        if meaning["additionalProperties"].is_object() {
            walk(
                root,
                &meaning["additionalProperties"],
                &join(path, "*"),
                true,
                found,
            );
        }
        if meaning["items"].is_object() {
            walk(root, &meaning["items"], &format!("{path}[]"), true, found);
        }
    }
    if found.len() == before && !is_root {
        found.insert(path.to_owned());
    }
    for value in values(&all) {
        found.insert(format!("{path}={value}"));
    }
}

/// The values of a closed set.
fn values(meanings: &[&Value]) -> Vec<String> {
    let texts = |meaning: &Value| -> Vec<String> {
        let several = meaning["enum"].as_array().cloned().unwrap_or_default();
        let only = meaning.get("const").cloned();
        let texts = several.into_iter().chain(only);
        texts
            .filter_map(|value| value.as_str().map(str::to_owned))
            .collect()
    };
    meanings.iter().flat_map(|meaning| texts(meaning)).collect()
}

/// The key at a place in a file, such as `agents/clerk.yaml#/skills/0/slots/what/ask`, and the values of a closed set that
/// a value there has.
pub(crate) fn key_at(place: &str, set: &[&Value]) -> Vec<String> {
    let (path, pointer) = place.split_once('#').unwrap();
    let file = File::at(path);
    let root = file.schema();
    let mut schemas = all(&root, &root);
    let mut key = format!("{}#", file.path);
    let mut shown = Vec::new();
    for segment in pointer.split('/').skip(1) {
        let segment = segment.replace("~1", "/").replace("~0", "~");
        let named = schemas
            .iter()
            .find_map(|schema| schema["properties"].get(&segment));
        let next = if let Some(named) = named {
            key = join(&key, &segment);
            named
        } else if let Some(items) = schemas.iter().find_map(|schema| schema.get("items")) {
            key = format!("{key}[]");
            items
        } else {
            let open = schemas.iter().find_map(|schema| {
                let named = schema["patternProperties"].as_object();
                let named = named.and_then(|map| map.values().next());
                named.or_else(|| schema.get("additionalProperties").filter(|s| s.is_object()))
            });
            key = join(&key, "*");
            open.unwrap_or_else(|| panic!("{place}: there is no key `{segment}`"))
        };
        schemas = all(&root, next);
    }
    let mut whole = key.as_str();
    shown.push(key.clone());
    // An entry of a map or a list shows the map or the list.
    while let Some(around) = whole
        .strip_suffix(".*")
        .or_else(|| whole.strip_suffix("[]"))
    {
        shown.push(around.to_owned());
        whole = around;
    }
    for value in set {
        add_values(&schemas, &key, value, &mut shown);
    }
    shown
}

fn add_values(schemas: &[&Value], key: &str, set: &Value, shown: &mut Vec<String>) {
    match set {
        Value::String(text) => shown.push(format!("{key}={text}")),
        Value::Array(items) => {
            // A list of plain values is set as a whole.
            shown.push(format!("{key}[]"));
            for item in items.iter().filter(|item| item.is_string()) {
                add_values(schemas, &format!("{key}[]"), item, shown);
            }
        }
        Value::Object(fields) => {
            for (name, value) in fields {
                let is_named = schemas
                    .iter()
                    .any(|schema| schema["properties"].get(name).is_some());
                let inner = join(key, if is_named { name } else { "*" });
                shown.push(inner.clone());
                if value.is_string() {
                    shown.push(format!("{inner}={}", value.as_str().unwrap()));
                }
            }
        }
        _ => {}
    }
}
