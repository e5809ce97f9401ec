//! `docs/agents.md`: its example is a real app, and it speaks of every key that says how an agent
//! thinks.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::fs;
use std::path::Path;
use std::sync::Arc;

use convoke_app::App;
use convoke_flow::Assistant;
use convoke_model::{AgentLimits, Budget, Pattern, ToolMode};
use serde_json::{Value, json};

fn documentation() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/agents.md");
    fs::read_to_string(path).unwrap()
}

/// The fenced blocks that begin with a file's name, as name and content.
fn files(documentation: &str) -> Vec<(&str, &str)> {
    documentation
        .split("```yaml\n# ")
        .skip(1)
        .map(|rest| {
            let (name, rest) = rest.split_once('\n').unwrap();
            (name, rest.split_once("```").unwrap().0)
        })
        .collect()
}

#[test]
fn the_example_is_an_app_that_loads_and_can_answer() {
    let documentation = documentation();
    let folder = tempfile::tempdir().unwrap();
    let files = files(&documentation);
    assert_eq!(files.len(), 4);
    for (name, content) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    let environment = |name: &str| (name == "OPENROUTER_API_KEY").then(|| "key".to_owned());
    let loaded = App::load(folder.path(), &environment)
        .unwrap_or_else(|problems| panic!("{}", problems.pretty()));
    let app = Arc::new(loaded.app);
    let bookkeeper = app.agent("bookkeeper").unwrap();
    assert_eq!(bookkeeper.tool_mode, ToolMode::Auto);
    assert_eq!(bookkeeper.patterns, [Pattern::React, Pattern::Reflection]);
    assert_eq!(bookkeeper.models().count(), 2);
    assert_eq!(bookkeeper.budget.cost, Some(0.05));
    assert!(app.agent("auditor").unwrap().output_schema.is_some());
    Assistant::new(app).unwrap();
}

#[test]
fn every_key_is_told_with_its_default() {
    let documentation = documentation();
    let rows = |key: &str, default: &Value| {
        let named = [
            format!("`{key}`"),
            format!("`limits.{key}`"),
            format!("`budget.{key}`"),
        ];
        let default = match default {
            Value::Null => "none".to_owned(),
            other => other.to_string(),
        };
        documentation
            .lines()
            .any(|line| named.iter().any(|name| line.contains(name)) && line.contains(&default))
    };
    let mut limits = json!(AgentLimits::default());
    // It says nothing of how an agent thinks.
    limits.as_object_mut().unwrap().remove("enable_telemetry");
    let mut budget = json!(Budget::default());
    budget["cost"] = Value::Null;
    for defaults in [limits, budget] {
        for (key, default) in defaults.as_object().unwrap() {
            assert!(rows(key, default), "{key}: {default}");
        }
    }
    let others = [
        ("context_tokens", json!(16_384)),
        ("max_iterations", json!(10)),
    ];
    for (key, default) in others {
        assert!(rows(key, &default), "{key}");
    }
    for key in [
        "llm_config",
        "fallback_models",
        "tool_mode",
        "patterns",
        "output_schema",
        "budget",
        "prices",
        "agents",
        "system_prompt",
        "tools",
    ] {
        assert!(documentation.contains(&format!("`{key}`")), "{key}");
    }
}
