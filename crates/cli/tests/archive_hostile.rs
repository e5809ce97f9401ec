//! Exports that were made to lead out of their folder, to hang whoever reads them, or to be too much: the real
//! binary refuses each with a code, and changes nothing.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

#[path = "archive_trust/export.rs"]
mod export;
mod program;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use export::{AskingApp, Export};
use program::{Program, text};
use serde_json::{Value, json};

/// Moves a file or folder out of the export and leaves a link to it, which a careless reader follows.
fn link(path: &Path) {
    let aside = aside(path);
    fs::rename(path, &aside).unwrap();
    symlink(aside, path).unwrap();
}

/// Puts a pipe in a file's place. Somebody waits to write the file's text into it, so that a careless reader
/// is given what it expects.
fn pipe(path: &Path) {
    let text = fs::read_to_string(path).unwrap();
    fs::remove_file(path).unwrap();
    let made = Command::new("mkfifo").arg(path).status().unwrap();
    assert!(made.success());
    let path = path.to_owned();
    std::thread::spawn(move || fs::write(path, text));
}

/// A place of the same name outside the export.
fn aside(path: &Path) -> PathBuf {
    let folder = path.ancestors().find(|folder| folder.ends_with("out"));
    let program = folder.unwrap().parent().unwrap();
    program.join(format!("aside-{}", path.file_name().unwrap().display()))
}

fn change(path: &Path, change: impl FnOnce(&mut Value)) {
    let mut value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    change(&mut value);
    fs::write(path, value.to_string()).unwrap();
}

fn set(export: &Export, pointer: &str, value: Value) {
    change(&export.task().join("task.json"), |task| {
        // A task that has none leaves the key out.
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        task.pointer_mut(parent).unwrap()[key] = value;
    });
}

fn many(folder: &Path, number: usize, name: impl Fn(usize) -> String) {
    for place in 0..number {
        fs::write(folder.join(name(place)), "").unwrap();
    }
}

/// A file that holds nothing but takes up more than any machine has.
fn swell(path: &Path) {
    let file = fs::File::options().write(true).open(path).unwrap();
    file.set_len(1 << 40).unwrap();
}

/// What is done to an export, the code that tells of it, and what the message names.
type Attack = (&'static str, &'static str, fn(&Export));

const ATTACKS: [Attack; 22] = [
    ("archive.invalid", "out", |export| link(&export.folder)),
    ("archive.invalid", "tasks", |export| {
        link(&export.folder.join("tasks"));
    }),
    ("archive.invalid", "definitions", |export| {
        link(&export.folder.join("definitions"));
    }),
    ("archive.invalid", "definitions/", |export| {
        link(&export.definition());
    }),
    ("archive.invalid", "agents", |export| {
        link(&export.definition().join("agents"));
    }),
    ("archive.invalid", "convoke.yaml", |export| {
        link(&export.definition().join("convoke.yaml"));
    }),
    ("archive.invalid", "tasks/", |export| link(&export.task())),
    ("archive.invalid", "task.json", |export| {
        link(&export.task().join("task.json"));
    }),
    ("archive.invalid", "checkpoint_000.json", |export| {
        link(&export.task().join("checkpoint_000.json"));
    }),
    ("archive.invalid", "task.json", |export| {
        pipe(&export.task().join("task.json"));
    }),
    ("archive.invalid", "checkpoint_000.json", |export| {
        pipe(&export.task().join("checkpoint_000.json"));
    }),
    ("archive.invalid", "clerk.yaml", |export| {
        pipe(&export.definition().join("agents/clerk.yaml"));
    }),
    ("archive.too_large", "task.json", |export| {
        swell(&export.task().join("task.json"));
    }),
    ("archive.too_large", "checkpoint_000.json", |export| {
        swell(&export.task().join("checkpoint_000.json"));
    }),
    ("archive.too_large", "convoke.yaml", |export| {
        swell(&export.definition().join("convoke.yaml"));
    }),
    ("archive.too_large", "agents", |export| {
        let agents = export.definition().join("agents");
        many(&agents, 1_001, |place| format!("agent_{place}.yaml"));
    }),
    ("archive.invalid", "agents/a", |export| {
        let deep = "a/".repeat(500);
        fs::create_dir_all(export.definition().join("agents").join(deep)).unwrap();
    }),
    ("archive.invalid", "key", |export| {
        set(export, "/key", "k".repeat(100_000).into());
    }),
    ("archive.invalid", "key", |export| {
        set(export, "/key", "a\u{1b}[2Kb".into());
    }),
    ("archive.invalid", "tags", |export| {
        set(export, "/tags", vec!["a"; 21].into());
    }),
    ("archive.invalid", "tags", |export| {
        set(export, "/tags", vec!["t".repeat(101)].into());
    }),
    ("archive.invalid", "signal", |export| {
        let signal = json!({
            "key": "k".repeat(100_000), "kind": "cancel", "payload": {}, "at": "2026-11-18T02:03:35Z",
            "consumed": true,
        });
        set(export, "/signals", json!([signal]));
    }),
];

/// A task's folder with files of no meaning beside its own is one that would be read for ever.
const LIMITS: [(&str, &str, &str); 4] = [
    ("--max-tasks", "1", "tasks"),
    ("--max-task-files", "2", "tasks/"),
    ("--max-file-bytes", "100", "task.json"),
    ("--max-task-bytes", "1000", "tasks/"),
];

#[test]
fn an_export_that_leads_elsewhere_or_never_ends_is_refused_and_changes_nothing() {
    for (number, (code, place, attack)) in ATTACKS.into_iter().enumerate() {
        let program = Program::new();
        let app = AskingApp::new(&program, "desk");
        let export = Export::of_waiting_task(&program, &app);
        attack(&export);
        // Whoever reads a file of a terabyte at once ends here, and not with the machine.
        let output = program.limited(&["tasks", "import", "out", "--data", "other"]);
        let said = text(&output.stderr);
        let which = format!("attack {number}, {code} {place}: {output:?}");
        assert_eq!(output.status.code(), Some(2), "{which}");
        assert!(said.contains(&format!("error[{code}]")), "{which}");
        assert!(said.contains(place), "{which}");
        assert!(said.len() < 2_000, "{which}");
        assert!(!said.contains('\u{1b}'), "{which}");
        assert!(!program.folder().join("other").exists(), "{which}");
    }
}

#[test]
fn every_limit_of_an_import_can_be_set() {
    let program = Program::new();
    let app = AskingApp::new(&program, "desk");
    app.waiting_task(&program);
    assert_eq!(
        program.run(&["run", &app.folder, "more"]).status.code(),
        Some(4)
    );
    assert!(program.run(&["tasks", "export", "out"]).status.success());
    let import = ["tasks", "import", "out", "--data", "other", "--take-over"];
    for (limit, value, place) in LIMITS {
        let arguments: Vec<_> = import.into_iter().chain([limit, value]).collect();
        let output = program.run(&arguments);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(said.contains("error[archive.too_large]"), "{output:?}");
        assert!(said.contains(place) && said.contains(limit), "{output:?}");
        assert!(!program.folder().join("other").exists());
    }
    assert!(program.run(&import).status.success());
}

#[test]
fn a_request_with_a_key_or_tag_beyond_its_bounds_is_refused() {
    let program = Program::new();
    let app = AskingApp::new(&program, "desk");
    let long = "k".repeat(100_000);
    let longest = "k".repeat(256);
    for (option, value, code) in [
        ("--key", long.as_str(), "request.key"),
        ("--key", "", "request.key"),
        ("--key", "a\nb", "request.key"),
        ("--tag", "a\u{7}b", "request.tags"),
    ] {
        let output = program.run(&["run", &app.folder, "list", option, value]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(said.contains(&format!("error[{code}]")), "{output:?}");
        assert!(said.len() < 1_000, "the key is not repeated: {said}");
        assert!(program.tasks().is_empty());
    }
    let output = program.run(&["run", &app.folder, "list", "--key", &longest]);
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    let said = "m".repeat(100_000);
    let answer = ["tasks", "answer", "last", "approve", "--message", &said];
    let output = program.run(&answer);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(text(&output.stderr).contains("error[answer.too_large]"));
    let cancel = ["tasks", "cancel", "last", "--reason", &said];
    let output = program.run(&cancel);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(text(&output.stderr).contains("error[cancel.reason_long]"));
}
