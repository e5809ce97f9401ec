//! Errors as people read them, word for word: what is wrong, once, under one code, and what to do.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod program;

use std::fmt::Write as _;

use program::{Program, text};
use serde_json::json;

/// What a command prints to standard error, and how it ends.
fn told(program: &Program, arguments: &[&str]) -> String {
    let output = program.run(arguments);
    let folder = program.folder().canonicalize().unwrap();
    let shown = text(&output.stderr).replace(folder.to_str().unwrap(), "FOLDER");
    let app = program.app();
    let command = arguments.join(" ").replace(&app, "APP");
    let command = command.replace(folder.to_str().unwrap(), "FOLDER");
    let code = output.status.code().unwrap();
    format!(
        "$ convoke {command}\n{}-> {code}\n\n",
        shown.replace(&app, "APP")
    )
}

fn all_told(program: &Program, commands: &[&[&str]]) -> String {
    let mut report = String::new();
    for command in commands {
        let told = told(program, command);
        let codes = told.matches("error[").count();
        assert!(codes <= 1, "it is told once: {told}");
        let _ = write!(report, "{told}");
    }
    report
}

#[test]
fn a_wrong_command_line() {
    let program = Program::new();
    let app = program.app();
    let report = all_told(
        &program,
        &[
            &["run", "nowhere", "hello"],
            &["check", "nowhere"],
            &["chat", "nowhere"],
            &["serve", "nowhere"],
            &["run", &format!("{app}/convoke.yaml"), "hello"],
            &["run", &app],
            &["run", &app, " "],
            &["run", &app, "hello", "--usr", "x"],
            &["run", &app, "hello", "--user", "42"],
            &["run", &app, "hello", "--conversation", "42"],
            &["run", &app, "hello", "--continue"],
            &["run", &app, "hello", "--model", "qwen"],
            &["run", &app, "hello", "--attach", "nowhere.txt"],
            &["run", &app, "hello", "--history", "nowhere.json"],
            &["run", &app, "hello", "--store", "redis://localhost"],
            &["run", &app, "hello", "--not-before", "-2h"],
            &["serve", &app, "--listen", "8080"],
            &["tasks", "show", "ffff"],
            &["tasks", "answer", "last", "approve"],
            &["tasks", "export"],
            &["tasks", "list", "--store", "nowhere.db"],
        ],
    );
    insta::assert_snapshot!(report);
}

#[test]
fn a_command_line_that_cannot_be_read_is_told_as_json_where_json_is_wanted() {
    let program = Program::new();
    let output = program.run(&["run", "--json", "--usr"]);
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(told["error"]["code"], "cli.usage");
    assert!(
        told["error"]["message"].as_str().unwrap().contains("--usr"),
        "{told}"
    );
    assert!(output.stderr.is_empty(), "{output:?}");
    assert_eq!(output.status.code(), Some(2));
    // What stands behind `--` is a message.
    let output = program.run(&["run", "--", "a", "b", "--json"]);
    assert!(output.stdout.is_empty(), "{output:?}");
}

#[test]
fn a_broken_store() {
    let program = Program::new();
    let app = program.app();
    let data = program.folder().join(".convoke");
    std::fs::create_dir_all(&data).unwrap();
    std::fs::write(data.join("store.db"), "no database, ".repeat(1_000)).unwrap();
    std::fs::create_dir_all(program.folder().join("a_folder")).unwrap();
    std::fs::write(program.folder().join("a_file"), "").unwrap();
    let report = all_told(
        &program,
        &[
            &["run", &app, "hello"],
            &["tasks", "list"],
            &["resume", &app],
            &["serve", &app],
            &["run", &app, "hello", "--store", "a_folder"],
            &["run", &app, "hello", "--data", "a_file"],
        ],
    );
    insta::assert_snapshot!(report);
}

#[test]
fn a_store_that_breaks_under_a_running_task_is_told_once_with_what_to_do() {
    let program = Program::new();
    let app = program.app();
    assert!(program.run(&["run", &app, "hello"]).status.success());
    let store = program.open_store();
    // What a damaged page does: a table that everything is written to cannot be read.
    store
        .execute_batch(
            "PRAGMA writable_schema = ON;
             UPDATE sqlite_schema SET rootpage = 1 WHERE name = 'entries';",
        )
        .unwrap();
    drop(store);
    let told = told(&program, &["run", &app, "hello"]);
    assert_eq!(told.matches("store.broken").count(), 1, "{told}");
    assert!(told.contains("tasks export"), "{told}");
}

#[test]
fn a_failed_task_is_told_under_the_code_of_its_cause() {
    let program = Program::new();
    let workflow = json!({ "name": "main", "entry_point": "ask",
        "nodes": { "ask": { "type": "compose", "prompt": "{{ request }}" }, "end": { "type": "compose", "prompt": "Done." } },
        "edges": [{ "from": "ask", "to": "end", "condition": "ask.sure" }] });
    let agent = json!({ "name": "clerk", "role": "Sells.", "system_prompt": "Sell." });
    let app = program.app_of(&[
        ("convoke.json", &json!({ "name": "shop" }).to_string()),
        ("agents/clerk.json", &agent.to_string()),
        ("workflows/main.json", &workflow.to_string()),
    ]);
    let told = told(&program, &["run", &app, "hello"]);
    assert!(
        told.contains("error[workflow.condition]: `ask.sure` is undefined"),
        "{told}"
    );
    assert_eq!(told.matches("workflow.condition").count(), 1, "{told}");
    assert!(
        !told.contains("template.undefined") && !told.contains("task.failed"),
        "{told}"
    );
}
