//! `convoke tasks follow`: a task that one process works on is followed from another, and a reader that comes back gets the
//! rest and nothing twice.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod program;

use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;

use convoke_testkit::{Reply, ScriptedModel};
use program::{Program, text};
use serde_json::{Value, json};

/// An app that asks, waits a while, and then says something.
fn write_app(program: &Program) -> String {
    let app = program.folder().join("app");
    let files = [
        ("convoke.json", json!({ "name": "patient" })),
        (
            "agents/clerk.json",
            json!({ "name": "clerk", "role": "Asks.", "system_prompt": "Ask." }),
        ),
        (
            "workflows/main.json",
            json!({
                "name": "main", "entry_point": "ask",
                "nodes": {
                    "ask": { "type": "human", "prompt": "May I?" },
                    "pause": { "type": "tool", "tool": "builtin.wait",
                        "arguments": { "seconds": 3 } },
                    "say": { "type": "compose", "prompt": "Waited {{ pause.waited_seconds }}." },
                },
                "edges": [
                    { "from": "ask", "to": { "approve": "pause" } },
                    { "from": "pause", "to": "say" },
                ],
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

fn events(output: &[u8]) -> Vec<Value> {
    let lines = text(output);
    lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn a_task_is_followed_over_a_question_and_a_timer_by_another_process() {
    let program = Program::new();
    let app = write_app(&program);
    let asked = program.run(&["run", &app, "Well?"]);
    assert_eq!(asked.status.code(), Some(4), "{asked:?}");
    let mut follow = program.command(&["--json", "tasks", "follow", "last"]);
    let reader = follow.stdout(Stdio::piped()).spawn().unwrap();
    let answered = program.run(&["tasks", "answer", "last", "approve"]);
    assert!(answered.status.success(), "{answered:?}");
    let resumed = program.run(&["resume", &app]);
    // The task waits for its timer, which `resume` does not wait for; `serve` does.
    assert_eq!(resumed.status.code(), Some(4), "{resumed:?}");
    assert!(text(&resumed.stdout).contains("waits until"), "{resumed:?}");
    let mut serving = program.spawn(&["serve", "--no-listen", &app]);
    let followed = reader.wait_with_output().unwrap();
    assert!(followed.status.success(), "{followed:?}");
    serving.kill().unwrap();
    serving.wait().unwrap();
    let all = events(&followed.stdout);
    let kinds: Vec<&str> = all
        .iter()
        .map(|event| event["type"].as_str().unwrap())
        .collect();
    for kind in [
        "question_asked",
        "question_answered",
        "timer_set",
        "tool_call_ended",
        "answer",
    ] {
        assert!(kinds.contains(&kind), "{kind}: {kinds:?}");
    }
    assert_eq!((kinds[0], *kinds.last().unwrap()), ("accepted", "ended"));
    for (index, event) in all.iter().enumerate() {
        let cursor = event["cursor"].as_str().unwrap();
        let rest = program.run(&["--json", "tasks", "follow", "last", "--after", cursor]);
        assert_eq!(events(&rest.stdout), all[index + 1..], "after {cursor}");
    }
}

#[test]
fn an_invalid_cursor_is_an_error() {
    let program = Program::new();
    program.run(&["run", &program.app(), "remind me to buy milk"]);
    for (cursor, code) in [("soon", "cursor.invalid"), ("99", "task.no_such_step")] {
        let refused = program.run(&["tasks", "follow", "last", "--after", cursor]);
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");
        assert!(text(&refused.stderr).contains(code), "{refused:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_whose_worker_was_killed_is_followed_to_its_end_from_another_process() {
    let sum = Reply::tool_calls([("calculate", json!({ "expression": "6 + 6" }))]);
    let replies = [sum, Reply::hang(), Reply::text("It is noon.")];
    let model = ScriptedModel::start(replies).await.unwrap();
    let program = Program::new();
    let app = program.agent_app(&json!({
        "llm_config": { "endpoint": model.endpoint(), "model": "m" },
        "tools": ["builtin.calculate"],
    }));
    let mut killed = program.spawn(&["run", &app, "What time is it?"]);
    model.wait_for_requests(2).await;
    let mut follow = program.command(&["--json", "tasks", "follow", "last"]);
    let mut reader = follow.stdout(Stdio::piped()).spawn().unwrap();
    let mut followed = BufReader::new(reader.stdout.take().unwrap());
    let mut seen = Vec::new();
    let mut line = String::new();
    // It is being thought when the worker is killed.
    while seen.iter().filter(|kind| *kind == "thought_begun").count() < 2 {
        line.clear();
        followed.read_line(&mut line).unwrap();
        seen.extend(
            events(line.as_bytes())
                .iter()
                .map(|event| event["type"].clone()),
        );
    }
    killed.kill().unwrap();
    killed.wait().unwrap();
    let resumed = program.run(&["resume", &app]);
    assert!(resumed.status.success(), "{resumed:?}");
    let mut rest = Vec::new();
    followed.read_to_end(&mut rest).unwrap();
    assert!(reader.wait().unwrap().success());
    seen.extend(events(&rest).iter().map(|event| event["type"].clone()));
    let all = program.run(&["--json", "tasks", "follow", "last"]);
    let all = events(&all.stdout);
    let kinds: Vec<Value> = all.iter().map(|event| event["type"].clone()).collect();
    assert_eq!(
        seen, kinds,
        "what was followed is what stands in the journal"
    );
    assert_eq!(
        kinds.iter().filter(|kind| *kind == "reset").count(),
        1,
        "{kinds:?}"
    );
    assert_eq!(kinds.last().unwrap(), "ended");
    for (index, event) in all.iter().enumerate() {
        let cursor = event["cursor"].as_str().unwrap();
        let rest = program.run(&["--json", "tasks", "follow", "last", "--after", cursor]);
        assert_eq!(events(&rest.stdout), all[index + 1..], "after {cursor}");
    }
}
