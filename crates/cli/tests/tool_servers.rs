//! Apps that bring their own tool server, and servers that do not start: one error, at once, where the server is named.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod program;

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use program::{Program, Serving, text};
use serde_json::{Value, json};

fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().unwrap()
}

fn pantry() -> String {
    root().join("examples/pantry").to_str().unwrap().to_owned()
}

/// A copy of the to-do app whose server is this shell program, which appends a line to `FOLDER/starts` and then fails.
fn broken(program: &Program, also: &str) -> String {
    let app = program.copy_of("todo", &["agents", "config", "."]);
    let starts = program.folder().join("starts");
    let script = format!("echo start >> '{}'; {also}", starts.display());
    let servers = json!({ "servers": [{
        "name": "todo", "inject": { "user_id": "user_id" },
        "transport": { "stdio": { "command": "sh", "args": ["-c", script] } },
    }] });
    std::fs::remove_file(Path::new(&app).join("config/mcp_servers.yaml")).unwrap();
    let file = Path::new(&app).join("config/mcp_servers.json");
    std::fs::write(file, serde_json::to_string_pretty(&servers).unwrap()).unwrap();
    app
}

const FAILS: &str = "echo 'no such table: tasks' >&2; exit 3";

fn starts(program: &Program) -> usize {
    let starts = std::fs::read_to_string(program.folder().join("starts")).unwrap();
    starts.lines().count()
}

#[test]
fn an_app_brings_its_own_server_and_runs_wherever_it_is_started() {
    let program = Program::new();
    let checked = program.run(&["check", "--connect", &pantry()]);
    assert!(checked.status.success(), "{checked:?}");
    let put = program.run(&["run", &pantry(), "put rice into the pantry"]);
    assert_eq!(text(&put.stdout), "Rice is in the pantry.\n", "{put:?}");
    let again = program.run(&["run", &pantry(), "put rice into the pantry"]);
    assert_eq!(text(&again.stdout), "There is rice already.\n");
    let shown = program.run(&["run", &pantry(), "show me the pantry"]);
    assert_eq!(text(&shown.stdout), "In the pantry: rice.\n");
    assert!(program.folder().join(".convoke/pantry.db").exists());
    assert!(program.run(&["eval", &pantry()]).status.success());
}

#[test]
fn the_folder_of_the_app_is_known_to_its_files_whatever_the_environment_says() {
    let program = Program::new();
    let app = program.app_of(&[
        ("convoke.yaml", "name: a\ndescription: at ${APP_DIR}\n"),
        (
            "agents/a.yaml",
            "name: a\nrole: Answers.\nsystem_prompt: Answer.\ntools: [s.t]\n",
        ),
        (
            "config/mcp_servers.yaml",
            "servers:\n  - name: s\n    transport:\n      stdio:\n        command: sh\n        args: [\"${APP_DIR}/fail.sh\"]\n",
        ),
        ("fail.sh", "echo \"$0\" >&2\nexit 1\n"),
    ]);
    let checked = program
        .command(&["check", "--connect", "app"])
        .env("APP_DIR", "/elsewhere")
        .output()
        .unwrap();
    let script = Path::new(&app).join("fail.sh");
    let told = text(&checked.stderr);
    assert!(told.contains(script.to_str().unwrap()), "{told}");
}

#[test]
fn the_server_of_the_documentation_is_the_example_and_does_everything_once() {
    let file = root().join("examples/pantry/tools/server.py");
    let source = std::fs::read_to_string(&file).unwrap();
    let page = std::fs::read_to_string(root().join("docs/tool-servers.md")).unwrap();
    assert!(page.contains(&format!("```python\n{source}```")));

    let folder = tempfile::tempdir().unwrap();
    let mut server = Command::new("python3")
        .arg(file)
        .arg(folder.path().join("pantry.db"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = server.stdin.take().unwrap();
    let mut output = BufReader::new(server.stdout.take().unwrap());
    let mut call = |name: &str, arguments: Value, key: &str| -> Value {
        let params =
            json!({ "name": name, "arguments": arguments, "_meta": { "idempotencyKey": key } });
        let request =
            json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
        writeln!(input, "{request}").unwrap();
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        serde_json::from_str::<Value>(&line).unwrap()["result"].clone()
    };
    let rice = json!({ "user_id": "u", "name": "rice" });
    let first = call("add_item", rice.clone(), "k1");
    assert_eq!(first["structuredContent"], json!({ "id": 1 }));
    assert_eq!(call("add_item", rice.clone(), "k1"), first);
    let refused = call("add_item", rice, "k2");
    assert_eq!(refused["isError"], true, "{refused}");
    let listed = call("list_items", json!({ "user_id": "u" }), "k3");
    let items = listed["structuredContent"]["items"].as_array().unwrap();
    assert_eq!(items.len(), 1);
    let others = call("list_items", json!({ "user_id": "v" }), "k4");
    assert_eq!(others["structuredContent"]["items"], json!([]));
    drop(input);
    assert!(server.wait().unwrap().success());
}

#[test]
fn a_server_that_does_not_start_is_one_error_where_it_is_named() {
    let program = Program::new();
    let app = broken(&program, FAILS);
    let checked = program.run(&["--json", "check", "--connect", &app]);
    assert_eq!(checked.status.code(), Some(1));
    let told: Value = serde_json::from_slice(&checked.stdout).unwrap();
    assert_eq!(told["errors"], 1, "{told}");
    let error = &told["diagnostics"][0];
    assert_eq!(error["code"], "connect.server_unreachable");
    assert_eq!(error["file"], "config/mcp_servers.json");
    assert_eq!((&error["line"], &error["column"]), (&json!(4), &json!(15)));
    assert_eq!(error["output"], json!(["no such table: tasks"]));
    let message = error["message"].as_str().unwrap();
    assert!(message.ends_with("it exited with code 3"), "{message}");
    assert_eq!(starts(&program), 1);
}

#[test]
fn a_run_tells_once_why_a_server_does_not_start_and_tries_it_once() {
    let program = Program::new();
    let app = broken(&program, FAILS);
    let output = program.run(&["run", &app, "remind me to buy milk"]);
    let told = text(&output.stderr);
    assert_eq!(
        told.matches("connect.server_unreachable").count(),
        1,
        "{told}"
    );
    assert!(told.contains("config/mcp_servers.json:4:15"), "{told}");
    assert!(told.contains("|   no such table: tasks"), "{told}");
    assert!(
        !text(&output.stdout).contains("no such table"),
        "{output:?}"
    );
    assert_eq!(starts(&program), 1);
}

#[test]
fn a_chat_and_a_service_tell_of_a_server_that_does_not_start_before_anybody_asks() {
    let program = Program::new();
    let app = broken(&program, FAILS);
    for command in [&["chat"][..], &["serve", "--no-listen"]] {
        let mut child = program
            .command(&[command, &[&app]].concat())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let told = BufReader::new(child.stderr.take().unwrap());
        let mut lines = told.lines().map(Result::unwrap);
        let found = lines.find(|line| line.contains("connect.server_unreachable"));
        assert!(found.is_some(), "{command:?}");
        program::signal(&child, "TERM");
        drop(child.stdin.take());
        lines.for_each(drop);
        child.wait().unwrap();
    }
}

#[test]
fn a_service_goes_on_when_a_server_that_did_not_start_is_mended() {
    let program = Program::new();
    let mended = program.folder().join("mended");
    let server = format!(
        "test -e '{}' || {{ {FAILS}; }}; exec '{}' tools todo",
        mended.display(),
        env!("CARGO_BIN_EXE_convoke")
    );
    let app = broken(&program, &server);
    let serving = Serving::start(&program, &[&app]);
    std::fs::write(mended, "").unwrap();
    let output = program.run(&["run", &app, "remind me to buy milk"]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(serving.terminate(), Some(0));
}

#[test]
fn secrets_do_not_show_in_what_a_server_wrote_when_it_failed() {
    let program = Program::new();
    let app = broken(&program, "echo \"denied: $TOKEN\" >&2; exit 1");
    let file = Path::new(&app).join("config/mcp_servers.json");
    let written = std::fs::read_to_string(&file).unwrap();
    let env = "\"stdio\": {\"env\": {\"TOKEN\": \"${SHOP_TOKEN}\"},";
    std::fs::write(&file, written.replace("\"stdio\": {", env)).unwrap();
    for command in [
        &["check", "--connect", &app][..],
        &["run", &app, "remind me to buy milk"],
    ] {
        let output = program
            .command(command)
            .env("SHOP_TOKEN", "hunter2hunter2")
            .output()
            .unwrap();
        let told = text(&output.stderr) + &text(&output.stdout);
        assert!(told.contains("denied: ${SHOP_TOKEN}"), "{told}");
        assert!(!told.contains("hunter2"), "{told}");
    }
}
