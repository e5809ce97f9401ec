//! `docs/app-folder.md` documents every key of every file and every code.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use convoke_app::schema;
use regex::Regex;
use serde_json::Value;

fn documentation() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/app-folder.md");
    fs::read_to_string(path).unwrap()
}

fn keys(value: &Value, found: &mut BTreeSet<String>) {
    if let Some(properties) = value.get("properties").and_then(Value::as_object) {
        found.extend(properties.keys().cloned());
    }
    match value {
        Value::Object(map) => map.values().for_each(|value| keys(value, found)),
        Value::Array(items) => items.iter().for_each(|item| keys(item, found)),
        _ => {}
    }
}

#[test]
fn every_key_of_every_file_is_documented() {
    let documentation = documentation();
    for name in [
        "AppConfig",
        "Agent",
        "Workflow",
        "McpServersFile",
        "DomainsFile",
        "ChannelsFile",
        "StyleGuide",
        "RetentionPolicy",
        "EvalFile",
    ] {
        let mut found = BTreeSet::new();
        keys(schema(name).unwrap().as_value(), &mut found);
        assert!(found.len() > 1, "{name}");
        for key in found {
            assert!(
                documentation.contains(&format!("`{key}`")),
                "`{key}` of {name}"
            );
        }
    }
}

/// The sections of the page that describe a file, with the schema of the file.
const SECTIONS: [(&str, &str); 6] = [
    ("convoke.yaml", "AppConfig"),
    ("agents/*.yaml", "Agent"),
    ("config/mcp_servers.yaml", "McpServersFile"),
    ("config/domains.yaml", "DomainsFile"),
    ("workflows/*.yaml", "Workflow"),
    ("evals/*.yaml", "EvalFile"),
];

#[test]
fn every_key_in_a_table_of_a_file_is_a_key_of_that_file() {
    let documentation = documentation();
    let key = Regex::new("`([a-z_]+)`").unwrap();
    let mut count = 0;
    for (file, name) in SECTIONS {
        let (_, section) = documentation.split_once(&format!("\n## {file}\n")).unwrap();
        let section = section.split("\n## ").next().unwrap();
        let mut known = BTreeSet::new();
        keys(schema(name).unwrap().as_value(), &mut known);
        for row in section.lines().filter(|line| line.starts_with("| `")) {
            let cell = row.split('|').nth(1).unwrap();
            for found in key.captures_iter(cell) {
                count += 1;
                assert!(known.contains(&found[1]), "`{}` in {file}", &found[1]);
            }
        }
    }
    assert!(count > 120, "{count}");
}

#[test]
fn every_code_is_documented() {
    let documentation = documentation();
    let code = Regex::new(r#""(app\.[a-z_]*[a-z])""#).unwrap();
    let mut count = 0;
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for folder in [
        sources.clone(),
        sources.join("shape"),
        sources.join("template"),
    ] {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            let Ok(text) = fs::read_to_string(entry.path()) else {
                continue;
            };
            for found in code.captures_iter(&text) {
                count += 1;
                assert!(
                    documentation.contains(&format!("`{}`", &found[1])),
                    "{}",
                    &found[1]
                );
            }
        }
    }
    assert!(count > 40, "{count}");
}
