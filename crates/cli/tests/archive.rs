//! Tasks on their way from one store to another: the real binary writes a folder and reads it.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod program;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use program::{Program, text};
use serde_json::{Value, json};

fn json_of(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

fn refused(output: &Output, code: &str, path: &str) {
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let said = text(&output.stderr);
    assert!(said.contains(&format!("error[{code}]")), "{output:?}");
    assert!(said.contains(path), "the place is told: {output:?}");
    assert!(output.stdout.is_empty(), "{output:?}");
}

fn done(output: &Output) {
    assert!(output.status.success(), "{output:?}");
}

/// How many tasks an import told that it brought in, found here already and left out.
fn counted(output: &Output) -> [u64; 3] {
    let told = json_of(output);
    ["imported", "existing", "skipped"].map(|what| told[what].as_u64().unwrap())
}

/// Every file under a folder, with what stands in it.
fn contents(folder: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut left = vec![folder.to_owned()];
    while let Some(next) = left.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                left.push(path);
            } else {
                let name = path.strip_prefix(folder).unwrap().to_owned();
                found.insert(name, fs::read_to_string(&path).unwrap());
            }
        }
    }
    found
}

fn read(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

fn change(path: &Path, change: impl FnOnce(&mut Value)) {
    let mut value = read(path);
    change(&mut value);
    fs::write(path, value.to_string()).unwrap();
}

/// The ids of a store's tasks, newest first.
fn listed(program: &Program, data: &str) -> Vec<String> {
    let output = program.run(&["--json", "tasks", "list", "--data", data]);
    done(&output);
    let tasks = text(&output.stdout);
    let tasks = tasks
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    tasks
        .map(|task: Value| task["id"].as_str().unwrap().to_owned())
        .collect()
}

/// An app whose workflow works something out in a task of its own, asks a person and says what came of it.
fn asking_app(program: &Program) -> String {
    let app = program.folder().join("desk");
    for (file, text) in [
        ("convoke.yaml", "name: desk\n"),
        (
            "agents/clerk.yaml",
            "name: clerk\nrole: Answers.\nsystem_prompt: Answer.\n",
        ),
        (
            "workflows/main.yaml",
            "name: main\nentry_point: work_out\nnodes:\n  work_out: {type: workflow, workflow: sum, \
             arguments: {what: '{{ request }}'}}\n  agree: {type: human, prompt: 'Tell it?'}\n  \
             tell: {type: compose, prompt: 'It is {{ work_out.look.result }}.'}\nedges:\n  \
             - {from: work_out, to: agree}\n  - {from: agree, to: tell}\n",
        ),
        (
            "workflows/sum.yaml",
            "name: sum\nentry_point: look\nnodes:\n  look: {type: tool, tool: builtin.calculate, \
             arguments: {expression: '{{ what }}'}}\n",
        ),
    ] {
        let path = app.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    app.to_str().unwrap().to_owned()
}

/// Asks what waits for a person, and gives the task's id.
fn waiting_task(program: &Program, app: &str) -> String {
    let output = program.run(&["--json", "run", app, "6 * 7"]);
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    json_of(&output)["task"].as_str().unwrap().to_owned()
}

/// A store with one task, exported.
fn small_export(program: &Program) -> (PathBuf, String) {
    done(&program.run(&["run", &program.app(), "remind me to buy milk"]));
    done(&program.run(&["tasks", "export", "out"]));
    let id = listed(program, ".convoke").pop().unwrap();
    (program.folder().join("out"), id)
}

#[test]
fn an_imported_export_is_exported_again_byte_for_byte() {
    let program = Program::new();
    let app = program.app();
    done(&program.run(&["run", &app, "remind me to buy milk", "--key", "k1"]));
    done(&program.run(&["run", &app, "what's on my list?", "--continue"]));
    done(&program.run(&["run", &app, "delete the first one", "--continue"]));
    let desk = asking_app(&program);
    let failed = program.run(&["run", &desk, "no sum at all"]);
    assert_eq!(failed.status.code(), Some(1), "{failed:?}");
    let called_off = waiting_task(&program, &desk);
    done(&program.run(&[
        "tasks",
        "cancel",
        &called_off,
        "--reason",
        "changed my mind",
    ]));
    program.run(&["resume", &desk]);
    let answered = waiting_task(&program, &desk);
    done(&program.run(&["tasks", "answer", &answered, "approve"]));
    done(&program.run(&["resume", &desk]));
    let asked = waiting_task(&program, &desk);
    let states: Vec<_> = program.tasks().into_values().collect();
    for state in ["completed", "failed", "canceled", "input-required"] {
        assert!(states.iter().any(|task| task["status"] == state), "{state}");
    }

    let exported = program.run(&["tasks", "export", "out"]);
    let number = states.len();
    let said = format!("Exported {number} tasks to out.\n");
    assert_eq!(text(&exported.stdout), said, "{exported:?}");
    let imported = program.run(&["tasks", "import", "out", "--data", "other", "--take-over"]);
    let said = format!("Imported {number} tasks.\n");
    assert_eq!(text(&imported.stdout), said, "{imported:?}");
    done(&program.run(&["tasks", "export", "again", "--data", "other"]));
    let (out, again) = (program.folder().join("out"), program.folder().join("again"));
    let (first, second) = (contents(&out), contents(&again));
    assert!(first.len() > 5 * number, "{:?}", first.keys());
    assert_eq!(
        first.keys().collect::<Vec<_>>(),
        second.keys().collect::<Vec<_>>()
    );
    assert_eq!(first, second);
    assert!(first.values().all(|text| text.ends_with('\n')));
    assert_eq!(listed(&program, ".convoke"), listed(&program, "other"));

    let task = read(&out.join("tasks").join(&called_off).join("task.json"));
    assert_eq!(task["status"]["state"], "canceled");
    assert_eq!(task["signals"][0]["consumed"], true);
    let trace = read(&out.join("tasks").join(&answered).join("trace.json"));
    assert_eq!(
        trace["sub_agent_sessions"].as_object().unwrap().len(),
        1,
        "{trace}"
    );
    let waiting = contents(&out.join("tasks").join(&asked));
    let mut points = waiting
        .iter()
        .filter(|(name, _)| name.to_str().unwrap().starts_with("checkpoint_"));
    let point: Value = serde_json::from_str(points.next_back().unwrap().1).unwrap();
    assert_eq!(point["awaiting_human"], true);
    assert_eq!(point["position"], "agree");
    assert_eq!(point["task_id"], asked.as_str());
    assert_eq!(point["state"]["next_action"], "agree");
    assert_eq!(point["state"]["metadata"]["work_out"]["look"]["result"], 42);
}

#[test]
fn an_imported_task_is_looked_at_like_any_other() {
    let program = Program::new();
    let app = program.app();
    let keyed = [
        "--json",
        "run",
        &app,
        "remind me to buy milk",
        "--key",
        "k1",
    ];
    let first = json_of(&program.run(&keyed));
    done(&program.run(&["run", &app, "what's on my list?", "--continue"]));
    done(&program.run(&["tasks", "export", "out"]));
    done(&program.run(&["tasks", "import", "out", "--data", "other"]));
    for command in ["show", "trace", "history"] {
        for id in ["last", first["task"].as_str().unwrap()] {
            let here = program.run(&["--json", "tasks", command, id]);
            let there = program.run(&["--json", "tasks", command, id, "--data", "other"]);
            done(&there);
            assert_eq!(text(&here.stdout), text(&there.stdout), "{command} {id}");
        }
    }
    let replayed = program.run(&["tasks", "replay", "last", "--data", "other"]);
    done(&replayed);
    assert!(
        text(&replayed.stdout).contains("the same as in the journal"),
        "{replayed:?}"
    );
    let shown = program.run(&["tasks", "show", "last", "--data", "other"]);
    assert!(text(&shown.stdout).contains("buy milk"), "{shown:?}");

    let again: Vec<_> = keyed.iter().copied().chain(["--data", "other"]).collect();
    let again = json_of(&program.run(&again));
    assert_eq!(again["task"], first["task"], "the key is known there too");
    let continued = [
        "--json",
        "run",
        &app,
        "hello",
        "--continue",
        "--data",
        "other",
    ];
    let continued = json_of(&program.run(&continued));
    assert_eq!(continued["conversation"], first["conversation"]);
}

#[test]
fn importing_twice_changes_nothing() {
    let program = Program::new();
    let (out, _) = small_export(&program);
    let import = ["--json", "tasks", "import", "out", "--data", "other"];
    assert_eq!(counted(&program.run(&import)), [1, 0, 0]);
    assert_eq!(counted(&program.run(&import)), [0, 1, 0]);
    let home = program.run(&["tasks", "import", "out"]);
    assert_eq!(
        text(&home.stdout),
        "Imported 0 tasks; 1 was here already.\n"
    );
    let memory = program.run(&["tasks", "import", "out", "--store", "memory"]);
    refused(&memory, "store.memory", "name a file");
    let before = contents(&out);
    let export = ["--json", "tasks", "export", "out", "--data", "other"];
    let again = json_of(&program.run(&export));
    let told = json!({ "exported": 1, "skipped": 0, "replaced": 1, "definitions": 1 });
    assert_eq!(again, told);
    assert_eq!(
        contents(&out),
        before,
        "the same tasks take the place of themselves"
    );
}

#[test]
fn a_waiting_task_is_imported_only_with_the_flag_and_then_continues() {
    let program = Program::new();
    let app = asking_app(&program);
    let id = waiting_task(&program, &app);
    done(&program.run(&["tasks", "export", "out", "--task", &id]));
    let exported = fs::read_dir(program.folder().join("out/tasks"))
        .unwrap()
        .count();
    assert_eq!(exported, 2, "what the task started comes with it");

    let kept_out = program.run(&["tasks", "import", "out", "--data", "other"]);
    done(&kept_out);
    assert_eq!(text(&kept_out.stdout), "Imported 1 task; 1 was left out.\n");
    let why = text(&kept_out.stderr);
    assert!(
        why.contains("done twice") && why.contains("--take-over"),
        "{why}"
    );
    assert!(!listed(&program, "other").contains(&id));

    let import = [
        "--json",
        "tasks",
        "import",
        "out",
        "--data",
        "other",
        "--take-over",
    ];
    let taken = program.run(&import);
    assert_eq!(counted(&taken), [1, 1, 0]);
    let hash = json_of(&taken)["untrusted"][0]["definition"].clone();
    let hash = hash.as_str().unwrap();
    let import = ["--json", "tasks", "import", "out", "--data", "other"];
    assert_eq!(counted(&program.run(&import)), [0, 2, 0]);
    done(&program.run(&["tasks", "trust", &hash[..12], "--yes", "--data", "other"]));

    // The app has changed in the meantime; the task goes on with what it was begun with.
    let tell = program.folder().join("desk/workflows/main.yaml");
    let changed = fs::read_to_string(&tell).unwrap().replace("It is", "Maybe");
    fs::write(&tell, changed).unwrap();
    done(&program.run(&["tasks", "answer", &id, "approve", "--data", "other"]));
    let resumed = program.run(&["resume", &app, "--data", "other"]);
    done(&resumed);
    let shown = json_of(&program.run(&["--json", "tasks", "show", &id, "--data", "other"]));
    assert_eq!(shown["task"]["status"], "completed", "{resumed:?}");
    assert_eq!(shown["task"]["result"], "It is 42.");
    let here = json_of(&program.run(&["--json", "tasks", "show", &id]));
    assert_eq!(
        here["task"]["status"], "input-required",
        "the other store is as it was"
    );
}

#[test]
fn running_tasks_are_not_exported() {
    let program = Program::new();
    let desk = asking_app(&program);
    let part = waiting_task(&program, &desk);
    done(&program.run(&["run", &program.app(), "remind me to buy milk"]));
    done(&program.run(&["run", &program.app(), "remind me to buy bread"]));
    let tasks = program.tasks();
    let milk = tasks
        .values()
        .find(|task| task["description"] == "remind me to buy milk");
    let milk = milk.unwrap()["id"].as_str().unwrap();
    let database = rusqlite::Connection::open(program.folder().join(".convoke/store.db")).unwrap();
    let bend =
        "UPDATE tasks SET status = 'working', worker = 'gone', completed_at = NULL WHERE id = ?1";
    database.execute(bend, [milk]).unwrap();
    let bend = "UPDATE tasks SET parent = ?1 WHERE id = ?2";
    database.execute(bend, [milk, &part]).unwrap();

    let exported = program.run(&["--json", "tasks", "export", "out"]);
    let told = json_of(&exported);
    assert_eq!(
        (&told["exported"], &told["skipped"]),
        (&json!(2), &json!(2)),
        "{exported:?}"
    );
    let notes = text(&exported.stderr);
    assert!(
        notes.contains(&format!("task {milk} is working")),
        "{notes}"
    );
    let why = format!("task {part} is a part of task {milk}");
    assert!(notes.contains(&why), "{notes}");
    assert!(!program.folder().join("out/tasks").join(milk).exists());
}

#[test]
fn an_export_spoils_no_folder_and_names_tasks_that_there_are() {
    let program = Program::new();
    refused(
        &program.run(&["tasks", "export", "out"]),
        "store.not_found",
        "store.db",
    );
    done(&program.run(&["run", &program.app(), "remind me to buy milk"]));
    fs::create_dir(program.folder().join("mine")).unwrap();
    fs::write(program.folder().join("mine/thesis.txt"), "years of work").unwrap();
    refused(
        &program.run(&["tasks", "export", "mine"]),
        "archive.not_empty",
        "thesis.txt",
    );
    refused(
        &program.run(&["tasks", "export", "mine/thesis.txt"]),
        "archive.unwritable",
        "thesis",
    );
    let nobody = "01a1ed35-323e-734e-ad74-caaabf910a65";
    let unknown = ["tasks", "export", "out", "--task", nobody];
    refused(&program.run(&unknown), "task.not_found", nobody);
    assert!(!program.folder().join("out").exists());
}

/// How an export is broken, the code that tells of it, and what the message names.
type Break = (&'static str, &'static str, fn(&Path, &str));

fn set(out: &Path, id: &str, file: &str, pointer: &str, value: Value) {
    change(&out.join("tasks").join(id).join(file), |whole| {
        *whole.pointer_mut(pointer).unwrap() = value;
    });
}

fn remove(out: &Path, id: &str, file: &str) {
    fs::remove_file(out.join("tasks").join(id).join(file)).unwrap();
}

const BREAKS: [Break; 16] = [
    ("archive.unreadable", "task.json", |out, id| {
        fs::write(out.join("tasks").join(id).join("task.json"), "{ \"id\": ").unwrap();
    }),
    ("archive.unreadable", "checkpoint_001.json", |out, id| {
        fs::write(
            out.join("tasks").join(id).join("checkpoint_001.json"),
            "none",
        )
        .unwrap();
    }),
    ("archive.invalid", "task.json", |out, id| {
        set(out, id, "task.json", "/status", "lost".into());
    }),
    ("archive.invalid", "task.json", |out, id| {
        set(out, id, "task.json", "/id", "17".into());
    }),
    ("archive.invalid", "task.json", |out, id| {
        set(out, id, "task.json", "/completed_at", Value::Null);
    }),
    ("archive.invalid", "task.json", |out, id| {
        set(
            out,
            id,
            "task.json",
            "/definition",
            "../../elsewhere".into(),
        );
    }),
    ("archive.invalid", "task.json", |out, id| {
        set(out, id, "task.json", "/definition", "/etc".into());
    }),
    ("archive.invalid", "checkpoint_000.json", |out, id| {
        set(
            out,
            id,
            "checkpoint_000.json",
            "/messages/0/message/content",
            "".into(),
        );
    }),
    ("archive.invalid", "not-an-id", |out, id| {
        fs::rename(out.join("tasks").join(id), out.join("tasks/not-an-id")).unwrap();
    }),
    ("archive.invalid", "leak.yaml", |out, _| {
        let definition = fs::read_dir(out.join("definitions"))
            .unwrap()
            .next()
            .unwrap();
        let link = definition.unwrap().path().join("leak.yaml");
        std::os::unix::fs::symlink("/etc/hostname", link).unwrap();
    }),
    ("archive.incomplete", "task.json", |out, id| {
        remove(out, id, "task.json");
    }),
    ("archive.incomplete", "sequence 2", |out, id| {
        remove(out, id, "checkpoint_001.json");
    }),
    ("archive.incomplete", "3 steps", |out, id| {
        remove(out, id, "checkpoint_002.json");
    }),
    ("archive.incomplete", "sequence 3", |out, id| {
        set(out, id, "checkpoint_002.json", "/sequence", 2.into());
    }),
    ("archive.incomplete", "definitions", |out, _| {
        fs::remove_dir_all(out.join("definitions")).unwrap();
    }),
    ("archive.not_found", "out", |out, _| {
        fs::remove_dir_all(out.join("tasks")).unwrap();
    }),
];

#[test]
fn a_broken_export_is_refused_and_changes_nothing() {
    let program = Program::new();
    // One whole task beside the broken one: not even that may come in.
    done(&program.run(&["run", &program.app(), "remind me to buy bread"]));
    let (out, _) = small_export(&program);
    let id = listed(&program, ".convoke").remove(0);
    let whole = contents(&out);
    for (code, place, spoil) in BREAKS {
        fs::remove_dir_all(&out).unwrap();
        for (name, text) in &whole {
            let path = out.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        spoil(&out, &id);
        let output = program.run(&["tasks", "import", "out", "--data", "other"]);
        refused(&output, code, place);
        assert!(!program.folder().join("other").exists(), "{code} {place}");
    }
    let nowhere = program.run(&["tasks", "import", "nowhere", "--data", "other"]);
    refused(&nowhere, "archive.not_found", "nowhere");
}

#[test]
fn an_interrupted_export_is_reported_and_repaired_by_the_next() {
    let program = Program::new();
    let (out, id) = small_export(&program);
    let whole = contents(&out);
    let tasks = out.join("tasks");
    fs::create_dir(tasks.join(".half.partial")).unwrap();
    let import = ["tasks", "import", "out", "--data", "other"];
    let passed_over = program.run(&import);
    assert_eq!(
        text(&passed_over.stdout),
        "Imported 1 task.\n",
        "{passed_over:?}"
    );
    fs::rename(tasks.join(&id), tasks.join(format!(".{id}.replaced"))).unwrap();
    refused(&program.run(&import), "archive.incomplete", &id);
    done(&program.run(&["tasks", "export", "out"]));
    assert_eq!(contents(&out), whole);
    assert!(!tasks.join(".half.partial").exists());
}

#[test]
fn a_conversation_of_another_user_is_not_imported() {
    let program = Program::new();
    let (out, id) = small_export(&program);
    let file = out.join("tasks").join(&id).join("task.json");
    let conversation = read(&file)["conversation"]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let run = [
        "run",
        &program.app(),
        "hello",
        "--conversation",
        &conversation,
        "--data",
        "other",
    ];
    let ben = ["--user", "00000000-0000-4000-8000-00000000000b"];
    let run: Vec<_> = run.into_iter().chain(ben).collect();
    done(&program.run(&run));
    let output = program.run(&["tasks", "import", "out", "--data", "other"]);
    refused(&output, "archive.foreign_conversation", &id);
    assert_eq!(listed(&program, "other").len(), 1);
}
