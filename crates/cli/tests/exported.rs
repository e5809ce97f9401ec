//! What the files of an export are: the model's tasks, checkpoints and traces, as `convoke schema` describes them.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod program;

use std::fs;
use std::path::Path;

use convoke_testkit::{Reply, ScriptedModel};
use jiff::Timestamp;
use program::{Program, text};
use serde_json::{Value, json};

/// A workflow that asks a person before it tells a sum, or fails if there is none.
const FILES: [(&str, &str); 3] = [
    ("convoke.yaml", "name: desk\n"),
    (
        "agents/clerk.yaml",
        "name: clerk\nrole: Answers.\nsystem_prompt: Answer.\n",
    ),
    (
        "workflows/main.yaml",
        "name: main\nentry_point: look\nnodes:\n  look: {type: tool, tool: builtin.calculate, arguments: \
         {expression: '{{ request }}'}}\n  agree: {type: human, prompt: 'Tell it?'}\n  tell: {type: compose, \
         prompt: 'It is {{ look.result }}.'}\nedges:\n  - {from: look, to: agree}\n  - {from: agree, to: tell}\n",
    ),
];

/// The published schema of a type.
fn schema(program: &Program, name: &str) -> jsonschema::Validator {
    let output = program.run(&["--json", "schema", name]);
    let schema: Value = serde_json::from_slice(&output.stdout).unwrap();
    jsonschema::validator_for(&schema).unwrap()
}

/// Asks, answers if there is an answer, and exports. Gives the task's files by their names.
fn exported(program: &Program, message: &str, answer: &[&str]) -> Vec<(String, Value)> {
    let app = program.app_of(&FILES);
    let run = program.run(&["--json", "run", &app, message]);
    let run: Value = serde_json::from_slice(&run.stdout).unwrap();
    let id = run["task"].as_str().unwrap();
    if !answer.is_empty() {
        let answer = [&["tasks", "answer", id], answer].concat();
        let answered = program.run(&answer);
        assert!(answered.status.success(), "{answered:?}");
        let resumed = program.run(&["resume", &app]);
        assert!(resumed.status.code().is_some(), "{resumed:?}");
    }
    let export = program.run(&["tasks", "export", "out", "--task", id]);
    assert!(export.status.success(), "{export:?}");
    let folder = program.folder().join("out/tasks").join(id);
    let mut files: Vec<_> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| read(&entry.unwrap().path()))
        .collect();
    files.sort_by(|(one, _), (other, _)| one.cmp(other));
    files
}

fn read(path: &Path) -> (String, Value) {
    let name = path.file_name().unwrap().to_str().unwrap().to_owned();
    let value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    (name, value)
}

fn checkpoints(files: &[(String, Value)]) -> Vec<&Value> {
    let files = files.iter();
    let files = files.filter(|(name, _)| name.starts_with("checkpoint_"));
    files.map(|(_, file)| file).collect()
}

fn task(files: &[(String, Value)]) -> &Value {
    &files
        .iter()
        .find(|(name, _)| name == "task.json")
        .unwrap()
        .1
}

#[test]
fn every_file_of_an_export_fits_the_schema_of_its_type() {
    let program = Program::new();
    let schemas = ["Task", "Checkpoint", "Trace"].map(|name| schema(&program, name));
    for (message, answer) in [
        ("6 * 7", &["approve", "--message", "go on"][..]),
        ("6 * 7", &["reject", "--message", "not today"]),
        ("6 * 7", &["modify", "--set", "look={\"result\": 43}"]),
        ("6 * 7", &["snooze", "--for", "2h"]),
        ("6 * 7", &[]),
        ("no sum at all", &[]),
    ] {
        for (name, file) in exported(&program, message, answer) {
            let schema = match name.split(['_', '.']).next().unwrap() {
                "task" => &schemas[0],
                "checkpoint" => &schemas[1],
                _ => &schemas[2],
            };
            let errors: Vec<_> = schema.iter_errors(&file).collect();
            assert!(
                errors.is_empty(),
                "{message} {answer:?}: {name}: {errors:?}"
            );
        }
    }
}

#[test]
fn a_checkpoint_carries_the_messages_up_to_it_and_what_a_person_answered_there() {
    let program = Program::new();
    let files = exported(&program, "6 * 7", &["approve", "--message", "go on"]);
    let task = task(&files);
    assert_eq!(task["status"]["state"], "completed");
    assert_eq!(task["status"]["message"]["content"], "It is 42.");
    assert_eq!(task["result"], "It is 42.");
    assert_eq!(task["answer"]["text"], "It is 42.");
    let history = task["history"].as_array().unwrap();
    let checkpoints = checkpoints(&files);
    let last = checkpoints.last().unwrap();
    assert_eq!(last["state"]["messages"], task["history"]);
    for checkpoint in &checkpoints {
        let messages = checkpoint["state"]["messages"].as_array().unwrap();
        assert_eq!(messages[..], history[..messages.len()], "{checkpoint}");
    }
    let asked: Vec<_> = checkpoints
        .iter()
        .filter(|checkpoint| !checkpoint["feedback"].is_null())
        .collect();
    let [asked] = asked[..] else {
        panic!("one checkpoint is answered: {checkpoints:#?}");
    };
    assert_eq!(asked["feedback"]["action"], "approve");
    assert_eq!(asked["feedback"]["message"], "go on");
    assert_eq!(asked["feedback"]["by"]["user"], task["owner"]);
    assert_eq!(asked["awaiting_human"], false);
    // As times, because fractions of a second have as many digits as they need.
    let time = |key: &str| asked[key].as_str().unwrap().parse::<Timestamp>().unwrap();
    assert!(time("resumed_at") >= time("created_at"), "{asked}");
    let next = &checkpoints[checkpoints.iter().position(|one| one == asked).unwrap() + 1];
    assert_eq!(asked["resumed_at"], next["created_at"]);
}

#[test]
fn a_checkpoint_that_still_waits_has_no_feedback() {
    let program = Program::new();
    for answer in [&[][..], &["snooze", "--for", "2h"]] {
        let files = exported(&program, "6 * 7", answer);
        assert_eq!(task(&files)["status"]["state"], "input-required");
        assert_eq!(task(&files)["status"]["message"]["content"], "Tell it?");
        let last = *checkpoints(&files).last().unwrap();
        assert_eq!(last["awaiting_human"], true);
        assert_eq!(last["feedback"], Value::Null);
        assert_eq!(last["state"]["pending_operations"][0]["label"], "agree");
    }
}

#[test]
fn a_failed_task_has_an_error_and_tells_its_user_so_instead_of_a_result() {
    let program = Program::new();
    let files = exported(&program, "no sum at all", &[]);
    let task = task(&files);
    assert_eq!(task["status"]["state"], "failed");
    assert!(task["error"].as_str().unwrap().contains("tool.failed"));
    assert_eq!(task.get("result"), None);
    let told = task["status"]["message"]["content"].as_str().unwrap();
    assert!(told.contains("Sorry"), "{told}");
    let import = program.run(&["tasks", "import", "out", "--data", "other"]);
    assert!(import.status.success(), "{import:?}");
    let shown = program.run(&["--json", "tasks", "show", "last", "--data", "other"]);
    let shown: Value = serde_json::from_str(&text(&shown.stdout)).unwrap();
    assert_eq!(
        shown["task"]["result"],
        json!(told),
        "nothing is lost on the way"
    );
}

/// The agent of a program's only task, as `tasks show` and an export tell it.
fn assigned_agent(program: &Program) -> Value {
    let show = program.run(&["--json", "tasks", "show", "last"]);
    let show: Value = serde_json::from_slice(&show.stdout).unwrap();
    let id = show["task"]["id"].as_str().unwrap();
    let export = program.run(&["tasks", "export", "out", "--task", id]);
    assert!(export.status.success(), "{export:?}");
    let file = program
        .folder()
        .join("out/tasks")
        .join(id)
        .join("task.json");
    let (_, task) = read(&file);
    assert_eq!(task["assigned_agent"], show["task"]["assigned_agent"]);
    task["assigned_agent"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_works_on_a_task_is_its_assigned_agent() {
    // A skill: its agent.
    let program = Program::new();
    program.run(&["run", &program.app(), "remind me to buy milk"]);
    assert_eq!(assigned_agent(&program), "todo");
    // An agent with a model.
    let model = ScriptedModel::start(Reply::text("Hello.")).await.unwrap();
    let config = json!({ "endpoint": model.endpoint(), "model": "m" });
    let program = Program::new();
    let app = program.agent_app(&json!({ "llm_config": config }));
    program.run(&["run", &app, "hello"]);
    assert_eq!(assigned_agent(&program), "clerk");
    // A workflow without an agent, while it waits, after it ended, and after it failed.
    let program = Program::new();
    let app = program.app_of(&FILES);
    program.run(&["run", &app, "6 * 7"]);
    assert_eq!(assigned_agent(&program), "main");
    program.run(&["tasks", "answer", "last", "approve"]);
    program.run(&["resume", &app]);
    assert_eq!(assigned_agent(&program), "main");
    let program = Program::new();
    program.run(&["run", &program.app_of(&FILES), "nothing"]);
    assert_eq!(assigned_agent(&program), "main");
    // A workflow with an agent: the one that answered last.
    let program = Program::new();
    let app = program.agent_app(&json!({ "llm_config": config }));
    let workflow = json!({
        "name": "main", "entry_point": "write",
        "nodes": { "write": { "type": "agent", "agent": "clerk" }, "agree": { "type": "human", "prompt": "Send it?" } },
        "edges": [{ "from": "write", "to": "agree" }], "answer": "{{ write.text }}",
    });
    let folder = Path::new(&app).join("workflows");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("main.json"), workflow.to_string()).unwrap();
    program.run(&["run", &app, "hello"]);
    let waiting = program.run(&["--json", "tasks", "list", "--state", "input-required"]);
    let waiting: Value = serde_json::from_slice(&waiting.stdout).unwrap();
    let id = waiting["id"].as_str().unwrap();
    let agent_of = || {
        let show = program.run(&["--json", "tasks", "show", id]);
        let show: Value = serde_json::from_slice(&show.stdout).unwrap();
        show["task"]["assigned_agent"].clone()
    };
    assert_eq!(agent_of(), "clerk");
    program.run(&["tasks", "answer", id, "approve"]);
    program.run(&["resume", &app]);
    assert_eq!(agent_of(), "clerk");
}
