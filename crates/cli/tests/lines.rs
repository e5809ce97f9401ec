//! `run APP -`: every line is a request of its own, with a result of its own.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod program;

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Output, Stdio};

use program::{Program, text};
use serde_json::Value;

fn feed(program: &Program, arguments: &[&str], input: &[u8]) -> Output {
    let mut child = program
        .command(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    child.wait_with_output().unwrap()
}

/// A line that is taken, one that is too long, one that is no UTF-8, an empty one, and one that is taken again.
fn mixed() -> Vec<u8> {
    let long = "x".repeat(2_001);
    let lines: [&[u8]; 5] = [
        b"remind me to buy milk",
        long.as_bytes(),
        b"remind me to buy \xff\xfe",
        b"",
        b"remind me to buy bread",
    ];
    lines.join(&b'\n')
}

/// Lines are worked on at once, so their effects have no order.
fn titles(program: &Program) -> Vec<String> {
    let mut titles = program.todo_titles();
    titles.sort();
    titles
}

/// The most memory that a running process has held, in bytes.
fn most_memory(child: &Child) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.unwrap().trim().strip_suffix(" kB").unwrap();
    kilobytes.parse::<usize>().unwrap() * 1_024
}

#[test]
fn a_line_that_is_refused_leaves_the_others_their_answers() {
    let program = Program::new();
    let output = feed(&program, &["run", &program.app(), "-"], &mixed());
    assert_eq!(
        text(&output.stdout),
        "I've added \"buy milk\" to your tasks.\nI've added \"buy bread\" to your tasks.\n",
        "{output:?}"
    );
    let errors = text(&output.stderr);
    let errors: Vec<_> = errors.lines().collect();
    assert_eq!(errors.len(), 2, "{errors:?}");
    assert!(
        errors[0].starts_with("error[request.message_long]: line 2: "),
        "{errors:?}"
    );
    assert!(
        errors[0].contains("2001 characters; at most 2000"),
        "{errors:?}"
    );
    assert!(
        errors[1].starts_with("error[request.not_utf8]: line 3: "),
        "{errors:?}"
    );
    assert_eq!(
        output.status.code(),
        Some(2),
        "the worst of the lines: {output:?}"
    );
    assert_eq!(titles(&program), ["buy bread", "buy milk"]);
}

#[test]
fn every_line_has_a_result_of_its_own_in_json() {
    let program = Program::new();
    let output = feed(&program, &["--json", "run", &program.app(), "-"], &mixed());
    let objects: Vec<Value> = text(&output.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .filter(|object: &Value| object["state"] != "submitted")
        .collect();
    let of = |field: &str| {
        objects
            .iter()
            .map(|object| object[field].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(of("line"), [1, 2, 3, 5], "{objects:?}");
    assert_eq!(objects[0]["state"], "completed");
    assert_eq!(objects[1]["error"]["code"], "request.message_long");
    assert_eq!(objects[2]["error"]["code"], "request.not_utf8");
    assert_eq!(objects[3]["state"], "completed");
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
}

#[test]
fn the_last_line_needs_no_end_and_spaces_do_not_count() {
    let program = Program::new();
    let spaces = " ".repeat(50_000);
    let input = format!("{spaces}remind me to buy milk{spaces}\r\nremind me to buy bread");
    let output = feed(&program, &["run", &program.app(), "-"], input.as_bytes());
    assert!(output.status.success(), "{output:?}");
    assert_eq!(titles(&program), ["buy bread", "buy milk"]);
}

#[test]
fn the_exit_code_is_the_worst_of_the_lines() {
    let program = Program::new();
    let app = program.app_of(&[
        ("convoke.yaml", "name: app\n"),
        (
            "agents/clerk.yaml",
            "name: clerk\nrole: Helps.\nsystem_prompt: Help.\n",
        ),
        (
            "workflows/main.yaml",
            "name: main\nentry_point: which\nnodes:\n  which: {type: condition, expression: request}\n  \
             ask: {type: human, prompt: Really?}\n  \
             break: {type: tool, tool: builtin.calculate, arguments: {expression: 1 / 0}}\n  \
             say: {type: compose, prompt: Fine.}\n\
             edges:\n  - {from: which, to: {ask: ask, break: break, otherwise: say}}\nanswer: Fine.\n",
        ),
    ]);
    let long = "x".repeat(3_000);
    for (lines, code) in [
        (&["fine"][..], 0),
        (&["ask", "fine"], 4),
        (&["break", "ask", "fine"], 1),
        (&["break", &long, "ask"], 2),
        (&["fine", &long], 2),
    ] {
        let output = feed(&program, &["run", &app, "-"], lines.join("\n").as_bytes());
        assert_eq!(output.status.code(), Some(code), "{lines:?}: {output:?}");
    }
}

#[test]
fn a_line_without_end_takes_no_memory_and_the_next_is_read() {
    const LINE: usize = 128 << 20;
    let program = Program::new();
    let read = |length: usize| {
        let mut child = program
            .command(&["--json", "run", &program.app(), "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut input = child.stdin.take().unwrap();
        let chunk = vec![b'x'; 1 << 20];
        for _ in 0..length / chunk.len() {
            input.write_all(&chunk).unwrap();
        }
        input.write_all(b"\nremind me to buy milk\n").unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let objects = lines.map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
        let objects = objects
            .filter(|object| object["state"] != "submitted")
            .take(2);
        let objects: Vec<Value> = objects.collect();
        let most = most_memory(&child);
        drop(input);
        assert_eq!(child.wait().unwrap().code(), Some(2));
        (objects, most)
    };
    let (_, little) = read(1 << 20);
    let (objects, most) = read(LINE);
    assert_eq!(
        objects[0]["error"]["code"], "request.message_long",
        "{objects:?}"
    );
    let message = objects[0]["error"]["message"].as_str().unwrap();
    assert!(message.contains(&format!("{LINE} characters")), "{message}");
    assert_eq!(objects[1]["state"], "completed", "{objects:?}");
    assert!(
        most < little + (16 << 20),
        "{most} bytes, and {little} for a short line"
    );
}

#[test]
fn a_chat_from_a_pipe_refuses_a_line_and_goes_on() {
    let program = Program::new();
    let output = feed(&program, &["--json", "chat", &program.app()], &mixed());
    assert!(output.status.success(), "{output:?}");
    let objects: Vec<Value> = text(&output.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(objects.len(), 4, "{objects:?}");
    assert_eq!(objects[1]["error"]["code"], "request.message_long");
    assert_eq!(objects[2]["error"]["code"], "request.not_utf8");
    assert_eq!(titles(&program), ["buy bread", "buy milk"]);
}
