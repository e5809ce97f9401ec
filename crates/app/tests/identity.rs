//! The app's hash, and its debug output.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod support;

use convoke_app::App;
use support::{AGENT, app};

fn hash(files: &[(&str, &str)]) -> String {
    App::load(app(files).path(), &|name| Some(format!("value of {name}")))
        .unwrap()
        .app
        .hash
}

#[test]
fn formatting_file_names_and_evals_do_not_change_the_hash() {
    let base = hash(&[]);
    assert_eq!(base.len(), 64);
    let case = "cases: [{say: add milk, expect: {intent: create_task}}]";
    for files in [
        [("convoke.yaml", "# A comment.\n\"name\":   'todo'\n")],
        [("convoke.yaml", "name: todo\nevals: {intents: 0.5}\n")],
        [("evals/a.yaml", case)],
        [("agents/README.md", "Agents.")],
    ] {
        assert_eq!(hash(&files), base, "{files:?}");
    }
    let folder = app(&[("agents/renamed.yaml", AGENT)]);
    std::fs::remove_file(folder.path().join("agents/todo.yaml")).unwrap();
    assert_eq!(App::load(folder.path(), &|_| None).unwrap().app.hash, base);
    let reordered = "{\"servers\": [{\"transport\": {\"stdio\": {\"command\": \"convoke\"}}, \
                     \"connect_seconds\": 5, \"name\": \"todo\"}]}";
    let folder = app(&[("config/mcp_servers.json", reordered)]);
    std::fs::remove_file(folder.path().join("config/mcp_servers.yaml")).unwrap();
    assert_eq!(App::load(folder.path(), &|_| None).unwrap().app.hash, base);
}

#[test]
fn whatever_changes_how_the_app_runs_changes_the_hash() {
    let mut hashes = vec![
        hash(&[]),
        hash(&[("convoke.yaml", "name: other\n")]),
        hash(&[("convoke.yaml", "name: todo\nlimits: {task_seconds: 61}\n")]),
        hash(&[("agents/todo.yaml", &AGENT.replace("Added", "Put"))]),
        hash(&[(
            "agents/todo.yaml",
            &AGENT.replace("- add {title}", "- add {title}\n      - put {title}"),
        )]),
        hash(&[(
            "config/mcp_servers.yaml",
            &support::SERVERS.replace('5', "6"),
        )]),
        hash(&[(
            "config/channels.yaml",
            "channels: [{channel: sms, max_length: 160}]",
        )]),
        hash(&[("config/retention_policy.yaml", "default_days: 9")]),
        hash(&[(
            "config/domains.yaml",
            "domains: [{name: a, display_name: A, description: B}]",
        )]),
        hash(&[(
            "config/style_guide.yaml",
            "{version: '1', brand_name: A, personality: B}",
        )]),
        hash(&[(
            "workflows/a.yaml",
            "{name: a, nodes: {x: {type: condition}}, entry_point: x}",
        )]),
    ];
    let count = hashes.len();
    hashes.sort();
    hashes.dedup();
    assert_eq!(hashes.len(), count);
}

#[test]
fn the_value_of_a_secret_is_filled_in_and_neither_hashed_nor_printed() {
    let text = "name: todo\nmodels: {m: {endpoint: http://x, model: y, api_key: '${KEY}'}}\n";
    let folder = app(&[("convoke.yaml", text)]);
    let load = |value: &'static str| {
        App::load(folder.path(), &move |_| Some(value.to_owned()))
            .unwrap()
            .app
    };
    let (one, two) = (load("sk-first-key"), load("sk-second-key"));
    let key = one
        .config
        .models
        .values()
        .next()
        .unwrap()
        .api_key
        .as_deref();
    assert_eq!(key, Some("sk-first-key"));
    assert_eq!(one.hash, two.hash);
    let shown = format!("{one:?} {:?} {:?}", one.config, one.secrets);
    assert!(!shown.contains("sk-first-key"), "{shown}");
    assert_eq!(one.redact("401 for sk-first-key"), "401 for ${KEY}");
}
