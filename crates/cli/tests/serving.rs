//! Apps that are served and apps that change: tasks go on in whichever process is there for them, with the app
//! that they were begun with, and are removed when their time is over.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod program;

use std::process::{Child, Stdio};

use program::{Program, Serving, text};
use serde_json::{Value, json};

/// An app that asks and then says something.
fn write_app(program: &Program, workflow: &Value) -> String {
    write_keeping_app(program, workflow, 7)
}

/// The same, which keeps its tasks for so many days.
fn write_keeping_app(program: &Program, workflow: &Value, days: u32) -> String {
    let app = program.folder().join("app");
    let files = [
        (
            "convoke.json",
            json!({ "name": "asking", "limits": { "prune_seconds": 1 } }),
        ),
        (
            "agents/clerk.json",
            json!({ "name": "clerk", "role": "Asks.", "system_prompt": "Ask." }),
        ),
        (
            "config/retention_policy.json",
            json!({ "default_days": days, "by_task": { "critical": 30 } }),
        ),
        ("workflows/main.json", workflow.clone()),
    ];
    for (file, content) in files {
        let path = app.join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content.to_string()).unwrap();
    }
    app.to_str().unwrap().to_owned()
}

fn asking(word: &str) -> Value {
    json!({
        "name": "main", "entry_point": "ask",
        "nodes": {
            "ask": { "type": "human", "prompt": format!("May I say {word}?") },
            "count": { "type": "tool", "tool": "builtin.calculate", "arguments": { "expression": "1 + 1" } },
            "say": { "type": "compose", "prompt": format!("{word} {{{{ count.result | int }}}}") },
        },
        "edges": [
            { "from": "ask", "to": { "approve": "count" } },
            { "from": "count", "to": "say" },
        ],
    })
}

fn status_of(program: &Program, task: &str) -> Option<Value> {
    program.tasks().remove(task)
}

fn ask(program: &Program, app: &str, more: &[&str]) -> String {
    let arguments = [&["--json", "run", app, "Well?"][..], more].concat();
    let output = program.run(&arguments);
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    said["task"].as_str().unwrap().to_owned()
}

#[test]
fn a_task_continues_with_the_app_it_started_with() {
    let program = Program::new();
    let app = write_app(&program, &asking("old"));
    let old = ask(&program, &app, &[]);
    // The same name, and nothing in it that the old task knows.
    let changed = json!({
        "name": "main", "entry_point": "question",
        "nodes": {
            "question": { "type": "human", "prompt": "May I say new?" },
            "speak": { "type": "compose", "prompt": "new" },
        },
        "edges": [{ "from": "question", "to": { "approve": "speak" } }],
    });
    write_app(&program, &changed);
    let new = ask(&program, &app, &[]);
    for task in [&old, &new] {
        let noted = program.run(&["tasks", "answer", task, "approve"]);
        assert!(noted.status.success(), "{noted:?}");
    }
    let resumed = program.run(&["resume", &app]);
    assert!(resumed.status.success(), "{resumed:?}");
    assert_eq!(status_of(&program, &old).unwrap()["result"], "old 2");
    assert_eq!(status_of(&program, &new).unwrap()["result"], "new");
    for task in [&old, &new] {
        let replayed = program.run(&["tasks", "replay", task]);
        assert!(replayed.status.success(), "{replayed:?}");
    }
    let other = program.run(&["tasks", "replay", &old, "--app", &app]);
    assert_eq!(
        other.status.code(),
        Some(1),
        "with the changed app it comes out differently"
    );
}

#[test]
fn a_task_without_a_stored_app_is_unchanged_and_reported() {
    let program = Program::new();
    let app = write_app(&program, &asking("old"));
    let old = ask(&program, &app, &[]);
    let noted = program.run(&["tasks", "answer", &old, "approve"]);
    assert!(noted.status.success(), "{noted:?}");
    let store = rusqlite::Connection::open(program.folder().join(".convoke/store.db")).unwrap();
    store.execute("DELETE FROM definitions", []).unwrap();
    write_app(&program, &asking("new"));
    let resumed = program.run(&["resume", &app]);
    assert_eq!(resumed.status.code(), Some(4), "{resumed:?}");
    let told = text(&resumed.stderr);
    assert!(told.contains("are not in the store"), "{told}");
    assert_eq!(
        status_of(&program, &old).unwrap()["status"],
        "input-required"
    );
    // The app as it was is enough to go on.
    write_app(&program, &asking("old"));
    let resumed = program.run(&["resume", &app]);
    assert!(resumed.status.success(), "{resumed:?}");
    assert_eq!(status_of(&program, &old).unwrap()["result"], "old 2");
}

#[test]
fn of_several_processes_that_answer_at_once_exactly_one_is_accepted() {
    let program = Program::new();
    let app = write_app(&program, &asking("hello"));
    let task = ask(&program, &app, &[]);
    let people: Vec<Child> = (0..8)
        .map(|_| {
            let mut command = program.command(&["tasks", "answer", &task, "approve"]);
            command
                .stderr(Stdio::piped())
                .stdout(Stdio::null())
                .spawn()
                .unwrap()
        })
        .collect();
    let outputs: Vec<_> = people
        .into_iter()
        .map(|child| child.wait_with_output().unwrap())
        .collect();
    let (heard, refused): (Vec<_>, Vec<_>) =
        outputs.iter().partition(|output| output.status.success());
    assert_eq!((heard.len(), refused.len()), (1, 7), "{outputs:?}");
    for output in refused {
        assert!(
            text(&output.stderr).contains("error[question.answered]"),
            "{output:?}"
        );
    }
    program.run(&["resume", &app]);
    assert_eq!(status_of(&program, &task).unwrap()["result"], "hello 2");
    let history = text(&program.run(&["tasks", "history", &task]).stdout);
    assert_eq!(history.matches("answered").count(), 1, "{history}");
}

fn until(condition: impl Fn() -> bool) {
    while !condition() {
        std::thread::yield_now();
    }
}

#[test]
fn a_serving_process_continues_tasks_answered_elsewhere() {
    let program = Program::new();
    let app = write_app(&program, &asking("hello"));
    let task = ask(&program, &app, &[]);
    let serving = Serving::start(&program, &[&app]);
    let noted = program.run(&["tasks", "answer", &task, "approve"]);
    assert!(noted.status.success(), "{noted:?}");
    until(|| status_of(&program, &task).unwrap()["status"] == "completed");
    assert_eq!(status_of(&program, &task).unwrap()["result"], "hello 2");
    assert_eq!(serving.terminate(), Some(0));
}

#[test]
fn a_serving_process_deletes_expired_tasks() {
    let program = Program::new();
    let app = write_app(&program, &asking("hello"));
    let waiting = ask(&program, &app, &[]);
    let critical = ask(&program, &app, &["--tag", "critical"]);
    let kept = ask(&program, &app, &["--keep-days", "90"]);
    let plain = ask(&program, &app, &[]);
    for task in [&critical, &kept, &plain] {
        program.run(&["tasks", "cancel", task]);
    }
    program.run(&["resume", &app]);
    program.age_tasks(8);
    let dry = program.run(&["tasks", "prune", "--app", &app, "--dry-run"]);
    assert_eq!(text(&dry.stdout).trim(), plain);
    let serving = Serving::start(&program, &[&app]);
    until(|| status_of(&program, &plain).is_none());
    for task in [&waiting, &critical, &kept] {
        assert!(status_of(&program, task).is_some());
    }
    // The next sweep comes after `prune_seconds`.
    let later = ask(&program, &app, &[]);
    program.run(&["tasks", "cancel", &later]);
    until(|| status_of(&program, &later).is_some_and(|task| task["status"] == "canceled"));
    program.age_tasks(8);
    until(|| status_of(&program, &later).is_none());
    assert_eq!(serving.terminate(), Some(0));
}

#[test]
fn a_reload_takes_the_app_as_it_is_now_and_old_tasks_keep_theirs() {
    let program = Program::new();
    let app = write_keeping_app(&program, &asking("old"), 300);
    let (old, ended) = (ask(&program, &app, &[]), ask(&program, &app, &[]));
    program.run(&["tasks", "cancel", &ended]);
    program.run(&["resume", &app]);
    program.age_tasks(8);
    let mut serving = Serving::start(&program, &[&app]);
    write_keeping_app(&program, &asking("new"), 7);
    serving.signal("HUP");
    assert_eq!(
        serving.next(),
        json!({ "reload": "asking", "outcome": "reloaded" })
    );
    // The policy is the new one.
    until(|| status_of(&program, &ended).is_none());
    let new = ask(&program, &app, &[]);
    for (task, result) in [(&old, "old 2"), (&new, "new 2")] {
        let noted = program.run(&["tasks", "answer", task, "approve"]);
        assert!(noted.status.success(), "{noted:?}");
        until(|| status_of(&program, task).unwrap()["status"] == "completed");
        assert_eq!(status_of(&program, task).unwrap()["result"], result);
    }
    serving.signal("HUP");
    assert_eq!(
        serving.next(),
        json!({ "reload": "asking", "outcome": "unchanged" })
    );
    assert_eq!(serving.terminate(), Some(0));
}

#[test]
fn a_broken_app_is_not_reloaded_and_the_one_before_works_on() {
    let program = Program::new();
    let app = write_app(&program, &asking("old"));
    let task = ask(&program, &app, &[]);
    let mut serving = Serving::start(&program, &[&app]);
    let broken = json!({ "name": "main", "entry_point": "nowhere", "nodes": {} });
    write_app(&program, &broken);
    serving.signal("HUP");
    let told = serving.next();
    assert_eq!(told["outcome"], "refused", "{told}");
    assert_eq!(told["error"]["code"], "app.errors", "{told}");
    assert!(
        told["diagnostics"].to_string().contains("nowhere"),
        "{told}"
    );
    let noted = program.run(&["tasks", "answer", &task, "approve"]);
    assert!(noted.status.success(), "{noted:?}");
    until(|| status_of(&program, &task).unwrap()["status"] == "completed");
    assert_eq!(status_of(&program, &task).unwrap()["result"], "old 2");
    assert_eq!(serving.terminate(), Some(0));
}
