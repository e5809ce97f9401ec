//! Two apps with different policies in one store and one process: nothing of one crosses to the other.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod program;

use std::process::Output;

use program::{Program, Serving, text};
use serde_json::{Value, json};
use uuid::Uuid;

/// An app that asks, says its name then, and keeps its tasks for so many days.
fn write_app(program: &Program, name: &str, days: u32, more: &Value) -> String {
    let app = program.folder().join(name);
    let mut config = json!({ "name": name, "limits": { "prune_seconds": 1 } });
    let fields = config.as_object_mut().unwrap();
    fields.extend(more.as_object().unwrap().clone());
    let files = [
        ("convoke.json", config),
        (
            "agents/clerk.json",
            json!({ "name": "clerk", "role": "Asks.", "system_prompt": "Ask." }),
        ),
        (
            "config/retention_policy.json",
            json!({ "default_days": days }),
        ),
        (
            "workflows/main.json",
            json!({
                "name": "main", "entry_point": "ask",
                "nodes": {
                    "ask": { "type": "human", "prompt": format!("May {name} go on?") },
                    "say": { "type": "compose", "prompt": format!("{name} says: {{{{ request }}}}") },
                },
                "edges": [{ "from": "ask", "to": { "approve": "say" } }],
            }),
        ),
    ];
    for (file, content) in files {
        let path = app.join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content.to_string()).unwrap();
    }
    app.to_str().unwrap().to_owned()
}

/// Asks an app something, and returns the task and its conversation.
fn ask(program: &Program, app: &str, more: &[&str]) -> (String, String) {
    let output = run(program, app, more);
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    let part = |name: &str| said[name].as_str().unwrap().to_owned();
    (part("task"), part("conversation"))
}

fn run(program: &Program, app: &str, more: &[&str]) -> Output {
    program.run(&[&["--json", "run", app, "Well?"][..], more].concat())
}

fn code_of(output: &Output) -> String {
    let told: Value = serde_json::from_slice(&output.stderr)
        .or_else(|_| serde_json::from_slice(&output.stdout))
        .unwrap();
    told["error"]["code"].as_str().unwrap().to_owned()
}

fn until(condition: impl Fn() -> bool) {
    while !condition() {
        std::thread::yield_now();
    }
}

fn both(program: &Program) -> [String; 2] {
    let brief = write_app(program, "brief", 1, &json!({}));
    [brief, write_app(program, "lasting", 300, &json!({}))]
}

#[test]
fn one_process_works_on_both_and_each_keeps_its_tasks_as_long_as_it_says() {
    let program = Program::new();
    let apps = both(&program);
    let [(brief, _), (lasting, _)] = [0, 1].map(|app| ask(&program, &apps[app], &[]));
    let serving = Serving::start(&program, &[&apps[0], &apps[1]]);
    for (task, app) in [(&brief, "brief"), (&lasting, "lasting")] {
        let noted = program.run(&["tasks", "answer", task, "approve"]);
        assert!(noted.status.success(), "{noted:?}");
        until(|| program.tasks()[task.as_str()]["status"] == "completed");
        let result = program.tasks()[task.as_str()]["result"].clone();
        assert!(result.as_str().unwrap().starts_with(app), "{result}");
    }
    program.age_tasks(8);
    until(|| !program.tasks().contains_key(&brief));
    assert!(program.tasks().contains_key(&lasting));
    assert_eq!(serving.terminate(), Some(0));
}

#[test]
fn conversations_and_keys_belong_to_one_app() {
    let program = Program::new();
    let [brief, lasting] = both(&program);
    let serving = Serving::start(&program, &[&brief, &lasting]);
    let (_, conversation) = ask(&program, &brief, &[]);
    // The other app has no conversation to go on with, and cannot go on with this one.
    let none = run(&program, &lasting, &["--continue"]);
    assert_eq!(none.status.code(), Some(2), "{none:?}");
    assert_eq!(code_of(&none), "conversation.none");
    let foreign = run(&program, &lasting, &["--conversation", &conversation]);
    assert_eq!(foreign.status.code(), Some(2), "{foreign:?}");
    let unknown = Uuid::from_u128(7).to_string();
    let (_, own) = ask(&program, &lasting, &["--conversation", &unknown]);
    assert_eq!(own, unknown);
    let (_, again) = ask(&program, &brief, &["--continue"]);
    assert_eq!(again, conversation);
    // The same key is another task in each app, and the same in one.
    let key = ["--key", "k"];
    let [first, other, again] = [&brief, &lasting, &brief].map(|app| ask(&program, app, &key).0);
    assert_ne!(first, other);
    assert_eq!(first, again);
    assert_eq!(serving.terminate(), Some(0));
}

#[test]
fn apps_with_different_stores_are_served_once_one_is_named_for_all() {
    let program = Program::new();
    let [brief, _] = both(&program);
    let apart = write_app(
        &program,
        "apart",
        1,
        &json!({ "store": { "url": "apart.db" } }),
    );
    let refused = program.run(&["--json", "serve", "--no-listen", &brief, &apart]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert_eq!(code_of(&refused), "registry.stores_differ");
    let twice = program.run(&["--json", "serve", "--no-listen", &brief, &brief]);
    assert_eq!(twice.status.code(), Some(2), "{twice:?}");
    assert_eq!(code_of(&twice), "registry.same_name");
    let store = program.folder().join(".convoke/store.db");
    let serving = Serving::start(
        &program,
        &[&brief, &apart, "--store", store.to_str().unwrap()],
    );
    let (task, _) = ask(&program, &apart, &["--store", store.to_str().unwrap()]);
    let noted = program.run(&["tasks", "answer", &task, "approve"]);
    assert!(noted.status.success(), "{}", text(&noted.stderr));
    until(|| program.tasks()[task.as_str()]["status"] == "completed");
    assert_eq!(serving.terminate(), Some(0));
}
