//! Questions of a part of a message: the user is asked them, and a plain yes or no answers them.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod program;

use std::io::Write as _;

use program::{Program, text};
use serde_json::{Value, json};

/// An app with a to-do list whose skill `note` needs approval, and whose skill `list` does not.
fn app(program: &Program) -> String {
    let server = json!({ "name": "todo", "inject": { "user_id": "user_id" }, "honours_idempotency_key": true,
        "transport": { "stdio": { "command": "convoke",
            "args": ["tools", "todo", "--db", "${CONVOKE_DATA:-.convoke}/todo.db"] } },
        "tools": { "add_task": { "approval": "required", "approval_question": "Note {{ arguments.title }}?" } } });
    let skill = |name: &str, sentence: &str, slots: Value, action: Value| json!({ "name": name, "description": name, "sentences": [sentence], "slots": slots, "action": action });
    let note = json!({ "tool": "todo.add_task", "arguments": { "title": "{{ what }}" }, "reply": "Noted {{ what }}." });
    let list =
        json!({ "tool": "todo.list_tasks", "reply": "You have {{ result.tasks | length }} now." });
    let agent = json!({ "name": "clerk", "role": "Keeps a list.", "system_prompt": "Help.", "tools": ["todo.add_task", "todo.list_tasks"],
        "skills": [skill("note", "note {what}", json!({ "what": {} }), note), skill("list", "count them", json!({}), list)] });
    program.app_of(&[
        (
            "convoke.json",
            &json!({ "name": "clerk", "decide": { "several": "eager" } }).to_string(),
        ),
        (
            "config/mcp_servers.json",
            &json!({ "servers": [server] }).to_string(),
        ),
        ("agents/clerk.json", &agent.to_string()),
    ])
}

fn run(program: &Program, arguments: &[&str]) -> Value {
    let output = program.run(&[&["--json", "run"], arguments].concat());
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
}

#[test]
fn a_part_that_needs_approval_is_asked_about_and_yes_lets_the_whole_go_on() {
    for (answer, text, titles) in [
        ("yes", "Noted milk. You have 1 now.", &["milk"][..]),
        (
            "no",
            "You have 0 now. However, I could not do this: “note milk” (it was not approved).",
            &[],
        ),
    ] {
        let program = Program::new();
        let app = app(&program);
        let asked = run(&program, &[&app, "note milk and count them"]);
        assert_eq!(asked["state"], "input-required", "{asked}");
        assert_eq!(asked["questions"][0]["prompt"], "Note milk?", "{asked}");
        let ended = run(&program, &[&app, "--continue", answer]);
        assert_eq!(ended["answer"]["text"], text, "{ended}");
        assert_eq!(program.todo_titles(), titles);
    }
}

#[test]
fn a_chat_asks_what_a_part_asks() {
    let program = Program::new();
    let app = app(&program);
    for answer in ["yes", "/approve"] {
        let mut child = program.spawn(&["chat", &app]);
        let mut input = child.stdin.take().unwrap();
        writeln!(input, "note milk and count them\n{answer}").unwrap();
        drop(input);
        let output = child.wait_with_output().unwrap();
        let said = text(&output.stdout);
        assert!(
            said.contains("Note milk?") && said.contains("Noted milk."),
            "{said}"
        );
    }
}
