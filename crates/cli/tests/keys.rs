//! API keys of the real binary: made, listed and revoked on the command line, and accepted by the service within their
//! scope.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod program;

use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use program::http::{Answer, Request};
use program::{Program, Serving, text};
use serde_json::{Value, json};

/// Settings with a file of keys.
fn settings(program: &Program) -> String {
    let keys = program.folder().join("keys.json");
    let settings = json!({ "auth": { "keys_file": keys } });
    let file = program.folder().join("server.json");
    std::fs::write(&file, settings.to_string()).unwrap();
    file.to_str().unwrap().to_owned()
}

fn keys(program: &Program, command: &str, arguments: &[&str]) -> Vec<Value> {
    let settings = program.folder().join("server.json");
    let fixed = [
        "--json",
        "keys",
        command,
        "--settings",
        settings.to_str().unwrap(),
    ];
    let output = program.run(&[&fixed, arguments].concat());
    assert!(output.status.success(), "{output:?}");
    let lines = text(&output.stdout);
    lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// Makes a key, and gives its id and its text.
fn key(program: &Program, arguments: &[&str]) -> (String, String) {
    let made = keys(program, "create", arguments).pop().unwrap();
    let word = |key: &str| made[key].as_str().unwrap().to_owned();
    (word("id"), word("key"))
}

fn get(address: &str, path: &str, key: &str) -> Answer {
    Request::new(address, "GET", path).token(key).send()
}

fn code(answer: Answer) -> (u16, Value) {
    (answer.status, answer.json()["code"].clone())
}

#[test]
fn a_key_is_accepted_until_it_is_revoked_and_its_secret_is_nowhere() {
    let program = Program::new();
    let settings = settings(&program);
    let serving = Serving::start(&program, &["--settings", &settings, &program.app()]);
    let address = serving.address();
    let list = "/api/v1/tasks";
    assert_eq!(
        code(Request::new(address, "GET", list).send()),
        (401, json!("auth.token_missing"))
    );
    let (id, ada) = key(&program, &["--user", "ada", "--name", "a test"]);
    let (_, other) = key(&program, &["--user", "ada"]);
    let (_, bob) = key(&program, &["--user", "bob"]);
    let submitted = Request::new(address, "POST", list)
        .token(&ada)
        .json(&json!({ "message": "remind me to buy milk" }))
        .send();
    assert_eq!(submitted.status, 201);
    let task = format!("{list}/{}", submitted.json()["id"].as_str().unwrap());
    // Another key of the same user is the same user.
    assert_eq!(get(address, &task, &other).status, 200);
    assert_eq!(get(address, &task, &bob).status, 404);
    let listed = keys(&program, "list", &[]);
    assert_eq!(listed.len(), 3);
    assert_eq!(
        (&listed[0]["id"], &listed[0]["name"], &listed[0]["state"]),
        (&json!(id), &json!("a test"), &json!("valid"))
    );
    let file = program.folder().join("keys.json");
    let written = std::fs::read_to_string(&file).unwrap();
    let secret = ada.rsplit_once(&format!("{id}_")).unwrap().1;
    assert!(!written.contains(secret) && written.contains(&id));
    assert_eq!(
        std::fs::metadata(&file).unwrap().permissions().mode() & 0o777,
        0o600
    );
    let letter = if secret.ends_with('A') { "B" } else { "A" };
    let altered = format!("{}{letter}", &ada[..ada.len() - 1]);
    let swapped = format!("cvk_{id}_{}", bob.rsplit_once('_').unwrap().1);
    for wrong in [
        altered.as_str(),
        &swapped,
        "cvk_",
        "cvk__",
        "cvk_0000000000000000_x",
        &ada[..20],
        secret,
        "a.b.c",
    ] {
        assert_eq!(
            code(get(address, list, wrong)),
            (401, json!("auth.token_invalid")),
            "{wrong}"
        );
    }
    keys(&program, "revoke", &[&id]);
    assert_eq!(
        code(get(address, list, &ada)),
        (401, json!("auth.token_invalid"))
    );
    assert_eq!(get(address, list, &other).status, 200);
    assert_eq!(keys(&program, "list", &[])[0]["state"], "revoked");
    let again = program.run(&["keys", "revoke", "--settings", &settings, &id]);
    assert_eq!(again.status.code(), Some(2), "{again:?}");
    assert!(text(&again.stderr).contains("keys.revoked"), "{again:?}");
    // A file that cannot be read lets nobody in, and one that is gone has no keys.
    std::fs::write(&file, "{").unwrap();
    assert_eq!(get(address, list, &other).status, 401);
    std::fs::remove_file(&file).unwrap();
    assert_eq!(get(address, list, &other).status, 401);
}

#[test]
fn a_key_ends_and_is_good_for_its_role_and_apps_alone() {
    let program = Program::new();
    let settings = settings(&program);
    let second = program.copy_of("home", &["agents", "config", "."]);
    let serving = Serving::start(
        &program,
        &["--settings", &settings, &program.app(), &second],
    );
    let address = serving.address();
    let (_, short) = key(&program, &["--user", "ada", "--expires", "0s"]);
    assert_eq!(get(address, "/api/v1/apps", &short).status, 401);
    let (_, scoped) = key(
        &program,
        &["--user", "ada", "--role", "admin", "--app", "todo"],
    );
    let (_, whole) = key(&program, &["--user", "ada", "--role", "admin"]);
    let (_, user) = key(&program, &["--user", "ada"]);
    let apps = |key: &str| {
        let apps = get(address, "/api/v1/apps", key).json();
        let apps = apps["apps"].as_array().unwrap().iter();
        apps.map(|app| app["name"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(apps(&scoped), ["todo"]);
    assert_eq!(apps(&whole), ["home", "todo"]);
    let tasks = |app: &str| format!("/apps/{app}/api/v1/tasks");
    assert_eq!(get(address, &tasks("todo"), &scoped).status, 200);
    let (outside, missing) = (
        get(address, &tasks("home"), &scoped),
        get(address, &tasks("none"), &scoped),
    );
    assert_eq!(
        (outside.status, outside.json()),
        (missing.status, missing.json())
    );
    assert_eq!(get(address, "/api/v1/all/tasks", &whole).status, 200);
    assert_eq!(
        code(get(address, "/api/v1/all/tasks", &scoped)),
        (403, json!("auth.scope"))
    );
    assert_eq!(
        code(get(address, "/api/v1/all/tasks", &user)),
        (403, json!("auth.role"))
    );
}

#[test]
fn decisions_are_in_the_audit_log_and_no_secret_is() {
    let program = Program::new();
    let settings = settings(&program);
    let log = program.folder().join("log");
    let arguments = [
        "--json",
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--settings",
        &settings,
    ];
    let made = program.run(&["keys", "create", "--settings", &settings, "--user", "ada"]);
    let ada = text(&made.stdout).trim().to_owned();
    assert!(ada.starts_with("cvk_"), "{made:?}");
    let told = text(&made.stderr);
    assert!(
        told.contains("audit") && told.contains("create_key"),
        "{told}"
    );
    let app = program.app();
    let mut command = program.command(&[&arguments[..], &[app.as_str()]].concat());
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(std::fs::File::create(&log).unwrap())
        .spawn()
        .unwrap();
    let mut output = std::io::BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    std::io::BufRead::read_line(&mut output, &mut line).unwrap();
    let ready: Value = serde_json::from_str(&line).unwrap();
    let address = ready["url"].as_str().unwrap().split('/').nth(2).unwrap();
    let body = json!({ "message": "remind me to buy milk" });
    let task = Request::new(address, "POST", "/api/v1/tasks")
        .token(&ada)
        .json(&body)
        .send()
        .json();
    let id = task["id"].as_str().unwrap();
    let act = |what: &str, body: Value| {
        let path = format!("/api/v1/tasks/{id}/{what}");
        Request::new(address, "POST", &path)
            .token(&ada)
            .json(&body)
            .send()
            .status
    };
    assert_eq!(act("cancel", json!({ "reason": "private words" })), 409);
    assert_eq!(act("answer", json!({ "action": "approve" })), 404);
    assert_eq!(act("fork", json!({ "at": "1" })), 201);
    program::signal(&child, "TERM");
    child.wait().unwrap();
    let log = std::fs::read_to_string(log).unwrap();
    let key = ada.split('_').nth(1).unwrap();
    for (action, outcome) in [
        ("cancel_task", "task.ended"),
        ("answer_question", "question"),
        ("fork_task", "done"),
    ] {
        let line = log.lines().find(|line| line.contains(action));
        let line = line.unwrap_or_else(|| panic!("{action}: {log}"));
        for part in ["audit", outcome, key, id] {
            assert!(line.contains(part), "{part}: {line}");
        }
    }
    let secret = ada.split_once(&format!("{key}_")).unwrap().1;
    assert!(
        !log.contains(secret) && !log.contains("private words"),
        "{log}"
    );
}
