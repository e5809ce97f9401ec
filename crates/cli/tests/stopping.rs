//! Commands that are told to stop while a tool call is under way: once, and again.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod program;

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use program::{Program, Serving, signal, text};
use serde_json::{Value, json};

/// An app whose tool waits until the test lets it go on.
struct WaitingApp {
    program: Program,
    app: String,
}

impl WaitingApp {
    /// The app asks before it calls its tool, if that is wanted.
    fn new(asks: bool, limits: &Value) -> Self {
        let program = Program::new();
        let app = Self::write(&program, "desk", asks, limits);
        Self { program, app }
    }

    fn write(program: &Program, name: &str, asks: bool, limits: &Value) -> String {
        let app = program.folder().join(name);
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../runtime/tests/patient.py");
        let stdio = json!({ "command": "python3", "args": [script, program.folder(), name] });
        let files = [
            ("convoke.json", json!({ "name": name, "limits": limits })),
            (
                "agents/clerk.json",
                json!({ "name": "clerk", "role": "Works.", "system_prompt": "Work.", "tools": ["desk.work"] }),
            ),
            (
                "config/mcp_servers.json",
                json!({ "servers": [{ "name": "desk", "transport": { "stdio": stdio } }] }),
            ),
            ("workflows/main.json", workflow(asks)),
        ];
        for (file, content) in files {
            let path = app.join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content.to_string()).unwrap();
        }
        app.to_str().unwrap().to_owned()
    }

    fn path(&self, file: &str) -> PathBuf {
        self.program.folder().join(file)
    }

    /// Begins a command, and returns once the tool's call is under way.
    fn begin(&self, command: &str) -> Child {
        if command == "serve" || command == "resume" {
            let asked = self.program.run(&["run", &self.app, "Work."]);
            assert_eq!(asked.status.code(), Some(4), "{asked:?}");
            let noted = self.program.run(&["tasks", "answer", "last", "approve"]);
            assert!(noted.status.success(), "{noted:?}");
        }
        let mut arguments = vec![command, self.app.as_str()];
        if command == "serve" {
            arguments.push("--no-listen");
        }
        if command == "run" {
            arguments.push("Work.");
        }
        let mut command = self.program.command(&arguments);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // Only a conversation reads it, and the pipe stays open.
        let _ = child.stdin.as_mut().unwrap().write_all(b"Work.\n");
        while !self.path("desk.begun").exists() {
            assert!(
                child.try_wait().unwrap().is_none(),
                "{arguments:?} has ended"
            );
        }
        child
    }

    fn go(&self, server: &str) {
        std::fs::write(self.path(&format!("{server}.go")), "").unwrap();
    }

    fn lines(&self, file: &str) -> usize {
        let lines = std::fs::read_to_string(self.path(file)).unwrap_or_default();
        lines.lines().count()
    }
}

fn workflow(asks: bool) -> Value {
    let mut workflow = json!({
        "name": "main", "entry_point": "work",
        "nodes": { "work": { "type": "tool", "tool": "desk.work" } },
        "answer": "{{ work.name }}",
    });
    if asks {
        workflow["entry_point"] = json!("ask");
        workflow["nodes"]["ask"] = json!({ "type": "human", "prompt": "Now?" });
        workflow["edges"] = json!([{ "from": "ask", "to": { "approve": "work" } }]);
    }
    workflow
}

fn until(condition: impl Fn() -> bool) {
    while !condition() {
        std::thread::yield_now();
    }
}

/// Waits until a process says that it stops.
fn until_stopping(child: &mut Child) {
    let mut errors = BufReader::new(child.stderr.as_mut().unwrap());
    let mut line = String::new();
    while !line.contains("stopping") {
        line.clear();
        assert_ne!(errors.read_line(&mut line).unwrap(), 0, "it has ended");
    }
}

const COMMANDS: [(&str, i32); 4] = [("run", 130), ("resume", 130), ("serve", 0), ("chat", 130)];

#[test]
fn a_stopped_command_finishes_its_open_call() {
    for (command, code) in COMMANDS {
        let asks = command == "serve" || command == "resume";
        let desk = WaitingApp::new(asks, &json!({ "shutdown_seconds": 100_000 }));
        let mut child = desk.begin(command);
        signal(&child, "INT");
        until_stopping(&mut child);
        desk.go("desk");
        assert_eq!(child.wait().unwrap().code(), Some(code), "{command}");
        assert_eq!(desk.lines("desk.done"), 1, "{command}");
        // What came of the call is in the journal, and it is not made again.
        let resumed = desk.program.run(&["resume", &desk.app]);
        assert_eq!(resumed.status.code(), Some(0), "{command}: {resumed:?}");
        let shown = desk.program.run(&["tasks", "show", "last"]);
        assert!(text(&shown.stdout).contains("completed"), "{command}");
        assert_eq!(desk.lines("desk.begun"), 1, "{command}");
    }
}

#[test]
fn a_second_signal_ends_a_command_at_once_and_its_call_is_not_repeated() {
    for (command, _) in COMMANDS {
        let asks = command == "serve" || command == "resume";
        let desk = WaitingApp::new(asks, &json!({ "shutdown_seconds": 100_000 }));
        let mut child = desk.begin(command);
        signal(&child, "INT");
        until_stopping(&mut child);
        signal(&child, "INT");
        assert_eq!(child.wait().unwrap().code(), Some(130), "{command}");
        // Nobody knows what came of the call, so that a person is asked.
        let resumed = desk.program.run(&["resume", &desk.app]);
        assert_eq!(resumed.status.code(), Some(4), "{command}: {resumed:?}");
        assert_eq!(desk.lines("desk.begun"), 1, "{command}");
    }
}

#[test]
fn a_stopped_eval_leaves_nothing_behind() {
    let desk = WaitingApp::new(false, &json!({ "shutdown_seconds": 100_000 }));
    let cases =
        json!({ "cases": [{ "say": "Work.", "expect": { "reply": { "equals": "Done." } } }] });
    std::fs::create_dir(Path::new(&desk.app).join("evals")).unwrap();
    std::fs::write(
        Path::new(&desk.app).join("evals/cases.json"),
        cases.to_string(),
    )
    .unwrap();
    for name in ["INT", "TERM"] {
        let temporary = desk.path(name);
        std::fs::create_dir(&temporary).unwrap();
        let mut child = desk
            .program
            .command(&["eval", &desk.app])
            .env("TMPDIR", &temporary)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        until(|| desk.path("desk.begun").exists());
        assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 1);
        signal(&child, name);
        assert_eq!(child.wait().unwrap().code(), Some(130), "{name}");
        assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 0, "{name}");
        std::fs::remove_file(desk.path("desk.begun")).unwrap();
    }
}

#[test]
fn stopping_waits_no_longer_than_the_app_says() {
    let desk = WaitingApp::new(false, &json!({ "shutdown_seconds": 1 }));
    let mut child = desk.begin("run");
    signal(&child, "TERM");
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(desk.lines("desk.done"), 0);
}

#[test]
fn all_apps_of_a_process_share_the_tasks_that_run_at_once() {
    let desk = WaitingApp::new(true, &json!({}));
    let other = WaitingApp::write(&desk.program, "other", true, &json!({}));
    for app in [&desk.app, &other] {
        let asked = desk.program.run(&["run", app, "Work."]);
        assert_eq!(asked.status.code(), Some(4), "{asked:?}");
        let noted = desk.program.run(&["tasks", "answer", "last", "approve"]);
        assert!(noted.status.success(), "{noted:?}");
    }
    let arguments = [desk.app.as_str(), &other, "--concurrent-tasks", "1"];
    let serving = Serving::start(&desk.program, &arguments);
    let begun = || ["desk", "other"].map(|name| desk.path(&format!("{name}.begun")).exists());
    until(|| begun().contains(&true));
    // The other task waits, whichever it is.
    assert!(begun().contains(&false));
    let first = if begun()[0] { "desk" } else { "other" };
    desk.go(first);
    until(|| begun() == [true, true]);
    desk.go("desk");
    desk.go("other");
    let tasks = || desk.program.tasks().into_values();
    until(|| tasks().all(|task| task["status"] == "completed"));
    assert_eq!(serving.terminate(), Some(0));
}

#[test]
fn lines_wait_while_the_backlog_is_full() {
    let limits = json!({ "backlog": 1, "concurrent_tasks": 1 });
    let desk = WaitingApp::new(false, &limits);
    desk.go("desk");
    let mut child = desk.program.spawn(&["run", &desk.app, "-"]);
    let mut input = child.stdin.take().unwrap();
    for _ in 0..5 {
        writeln!(input, "Work.").unwrap();
    }
    drop(input);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(text(&output.stdout), "desk\n".repeat(5));
    assert_eq!(desk.lines("desk.done"), 5);
}
