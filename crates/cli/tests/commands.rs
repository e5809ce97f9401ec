//! The commands as a stranger uses them: the real binary, the real app, a folder of their own.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod program;

use std::io::Write;
use std::process::{Output, Stdio};

use program::{Program, text};
use serde_json::Value;

const BEN: &str = "00000000-0000-4000-8000-00000000000b";

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

fn refused(output: &Output, code: &str) {
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(
        text(&output.stderr).contains(&format!("error[{code}]")),
        "{output:?}"
    );
    assert!(output.stdout.is_empty(), "{output:?}");
}

fn talk(program: &Program, arguments: &[&str], lines: &[&str]) -> Output {
    let mut child = program
        .command(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    for line in lines {
        writeln!(input, "{line}").unwrap();
    }
    drop(input);
    child.wait_with_output().unwrap()
}

#[test]
fn the_first_command_of_the_readme_answers() {
    let program = Program::new();
    let output = program.run(&["run", &program.app(), "remind me to buy milk"]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(
        text(&output.stdout),
        "I've added \"buy milk\" to your tasks.\n"
    );
    assert_eq!(
        text(&output.stderr),
        "",
        "nothing but the answer, where nobody watches"
    );
    assert_eq!(program.todo_titles(), ["buy milk"]);
}

#[test]
fn an_answer_as_json_says_what_was_done() {
    let program = Program::new();
    let said = json(&program.run(&["--json", "run", &program.app(), "remind me to buy milk"]));
    assert_eq!(said["state"], "completed");
    assert_eq!(said["answer"]["metadata"]["intent"], "create_task");
    assert_eq!(said["answer"]["tool_calls"][0]["tool"], "add_task");
    assert_eq!(
        said["answer"]["tool_calls"][0]["arguments"]["title"],
        "buy milk"
    );
    assert!(
        said["answer"]["tool_calls"][0]["arguments"]
            .get("user_id")
            .is_none(),
        "what the engine puts in is not the decision's"
    );
}

#[test]
fn bad_requests_are_refused_and_change_nothing() {
    let program = Program::new();
    let app = program.app();
    let long = "x".repeat(2_001);
    refused(&program.run(&["run", &app, &long]), "request.message_long");
    refused(&program.run(&["run", &app, "   "]), "request.message_empty");
    refused(
        &program.run(&["run", &app, "hello", "--user", "42"]),
        "user.id_malformed",
    );
    refused(
        &program.run(&["run", &app, "hello", "--conversation", "42"]),
        "id.malformed",
    );
    refused(
        &program.run(&["run", &app, "hello", "--continue"]),
        "conversation.none",
    );
    assert!(program.tasks().is_empty());
    let longest = format!("remind me to {}", "x".repeat(400));
    assert!(program.run(&["run", &app, &longest]).status.success());
}

#[test]
fn a_wrong_flag_is_reported_with_the_right_one() {
    let program = Program::new();
    let output = program.run(&["run", &program.app(), "hello", "--usr", "x"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("--user"), "{output:?}");
    let output = program.run(&["run", &program.app(), "hello", "--channel", "pigeon"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output.stderr).contains("sms"),
        "the right ones are listed: {output:?}"
    );
}

#[test]
fn one_user_never_sees_another_ones_tasks() {
    let program = Program::new();
    let app = program.app();
    program.run(&["run", &app, "remind me to buy milk"]);
    let theirs = program.run(&["run", &app, "what's on my list?", "--user", BEN]);
    assert!(theirs.status.success());
    assert!(!text(&theirs.stdout).contains("milk"), "{theirs:?}");
    let taken = program.run(&["run", &app, "delete buy milk", "--user", BEN]);
    assert!(
        !text(&taken.stdout).contains("deleted \"buy milk\""),
        "{taken:?}"
    );
    assert_eq!(program.todo_titles(), ["buy milk"]);

    let mine = json(&program.run(&["--json", "run", &app, "what's on my list?"]));
    let conversation = mine["conversation"].as_str().unwrap();
    let intruding = [
        "run",
        &app,
        "delete it",
        "--user",
        BEN,
        "--conversation",
        conversation,
    ];
    refused(&program.run(&intruding), "store.conversation_not_found");
}

#[test]
fn the_same_key_is_the_same_task() {
    let program = Program::new();
    let request = [
        "--json",
        "run",
        &program.app(),
        "remind me to buy milk",
        "--key",
        "k1",
    ];
    let (first, second) = (json(&program.run(&request)), json(&program.run(&request)));
    assert_eq!(first["task"], second["task"]);
    assert_eq!(first["answer"], second["answer"]);
    assert_eq!(program.todo_titles(), ["buy milk"]);
}

#[test]
fn the_same_key_with_another_request_is_refused_and_changes_nothing() {
    let program = Program::new();
    let app = program.app();
    program.run(&["run", &app, "remind me to buy milk", "--key", "k1"]);
    let other = program.run(&["run", &app, "remind me to buy bread", "--key", "k1"]);
    assert_eq!(other.status.code(), Some(2), "{other:?}");
    assert!(
        text(&other.stderr).starts_with("error[store.key_reused]"),
        "{other:?}"
    );
    assert_eq!(program.todo_titles(), ["buy milk"]);
}

#[test]
fn a_conversation_continues() {
    let program = Program::new();
    let lines = [
        "add buy milk to my list",
        "add call the dentist to my list",
        "what's on my list?",
        "mark the second one as done",
        "delete it",
        "what's on my list?",
    ];
    let output = talk(&program, &["--json", "chat", &program.app()], &lines);
    assert!(output.status.success(), "{output:?}");
    let replies: Vec<Value> = text(&output.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let reply = |index: usize| {
        replies[index]["answer"]["text"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert!(reply(2).contains("1. buy milk") && reply(2).contains("2. call the dentist"));
    assert!(reply(3).contains("\"call the dentist\""), "{}", reply(3));
    assert!(reply(4).contains("\"call the dentist\""), "{}", reply(4));
    assert!(
        !reply(5).contains("dentist") && reply(5).contains("buy milk"),
        "{}",
        reply(5)
    );
    let continued = program.run(&["run", &program.app(), "delete the first one", "-c"]);
    assert!(
        text(&continued.stdout).contains("\"buy milk\""),
        "{continued:?}"
    );
    assert!(program.todo_titles().is_empty());
}

#[test]
fn several_matches_are_asked_about_and_the_answer_is_understood() {
    let program = Program::new();
    let lines = [
        "add buy milk",
        "add buy oat milk",
        "delete milk",
        "the second one",
    ];
    let output = talk(&program, &["chat", &program.app()], &lines);
    let said = text(&output.stdout);
    assert!(
        said.contains("1. buy milk") && said.contains("2. buy oat milk"),
        "{said}"
    );
    assert_eq!(program.todo_titles(), ["buy milk"], "{said}");
}

#[test]
fn a_long_history_is_cut_and_the_cut_is_recorded() {
    let program = Program::new();
    let lines = vec!["what's on my list?"; 27];
    let output = talk(&program, &["--json", "chat", &program.app()], &lines);
    let last = text(&output.stdout).lines().last().unwrap().to_owned();
    let last: Value = serde_json::from_str(&last).unwrap();
    assert_eq!(
        last["answer"]["metadata"]["history_cut"], 2,
        "26 turns are 52 messages"
    );
}

#[test]
fn many_messages_come_from_standard_input() {
    let program = Program::new();
    let lines = ["remind me to buy milk", "", "remind me to buy bread"];
    let output = talk(&program, &["run", &program.app(), "-"], &lines);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(
        text(&output.stdout),
        "I've added \"buy milk\" to your tasks.\nI've added \"buy bread\" to your tasks.\n"
    );
}

#[test]
fn tasks_are_listed_shown_and_traced() {
    let program = Program::new();
    let app = program.app();
    refused(&program.run(&["tasks", "list"]), "store.not_found");
    let said = json(&program.run(&["--json", "run", &app, "remind me to buy milk"]));
    let id = said["task"].as_str().unwrap();
    let listed = text(&program.run(&["tasks", "list"]).stdout);
    assert!(
        listed.contains(id) && listed.contains("completed"),
        "{listed}"
    );
    for name in [id, &id[..13], "last"] {
        let shown = text(&program.run(&["tasks", "show", name]).stdout);
        assert!(
            shown.contains(id) && shown.contains("remind me to buy milk"),
            "{shown}"
        );
    }
    let traced = text(&program.run(&["tasks", "trace", id]).stdout);
    assert!(
        traced.contains("decide") && traced.contains("add_task"),
        "{traced}"
    );
    let journal = json(&program.run(&["--json", "tasks", "trace", id]));
    assert_eq!(journal["task_id"], id);
    assert_eq!(journal["steps"][0]["step_name"], "submitted");
    let call = &journal["steps"][2]["tool_calls"][0];
    assert_eq!(
        (&call["server"], &call["tool"]),
        (&"todo".into(), &"add_task".into())
    );
    assert_eq!(call["arguments"]["title"], "buy milk");
    refused(
        &program.run(&["tasks", "show", "ffffffff"]),
        "task.not_found",
    );
    refused(
        &program.run(&["tasks", "answer", id, "approve"]),
        "question.none",
    );
    refused(&program.run(&["tasks", "cancel", id]), "task.ended");
    let none = text(&program.run(&["tasks", "list", "--state", "failed"]).stdout);
    assert_eq!(none, "No tasks.\n");
}

#[test]
fn check_finds_the_app_clean_and_a_broken_copy_not() {
    let program = Program::new();
    let clean = program.run(&["check", &program.app()]);
    assert!(clean.status.success(), "{clean:?}");
    assert!(text(&clean.stdout).contains("todo is fine"), "{clean:?}");

    assert!(
        program
            .run(&["new", "broken", "--from", &program.app()])
            .status
            .success()
    );
    let agent = program.folder().join("broken/agents/todo.yaml");
    let written = std::fs::read_to_string(&agent).unwrap();
    let broken = written.replacen("role:", "rolle:", 1).replacen(
        "tool: todo.add_task",
        "tool: todo.ad_task",
        1,
    );
    assert_ne!(written, broken);
    std::fs::write(&agent, broken).unwrap();
    let servers = program.folder().join("broken/config/mcp_servers.yaml");
    let written = std::fs::read_to_string(&servers).unwrap();
    std::fs::write(&servers, written.replacen("stdio:", "stdoi:", 1)).unwrap();

    let output = program.run(&["check", "broken"]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(said.contains("agents/todo.yaml:"), "{said}");
    assert!(said.contains("did you mean `role`"), "{said}");
    assert!(said.contains("ad_task"), "{said}");
    assert!(
        said.contains("config/mcp_servers.yaml:") && said.contains("stdio"),
        "{said}"
    );
    let found = json(&program.run(&["--json", "check", "broken"]));
    assert!(found["errors"].as_u64().unwrap() >= 3, "{found}");
    assert!(found["diagnostics"][0]["line"].is_u64(), "{found}");
    let run = program.run(&["run", "broken", "hello"]);
    assert_eq!(run.status.code(), Some(1), "nothing is run: {run:?}");
}

#[test]
fn a_new_app_runs_as_it_is() {
    let program = Program::new();
    let made = program.run(&["new", "my-app"]);
    assert!(made.status.success(), "{made:?}");
    let output = program.run(&["run", "my-app", "remind me to buy milk"]);
    assert!(text(&output.stdout).contains("buy milk"), "{output:?}");
    assert_eq!(program.todo_titles(), ["buy milk"]);
    assert!(program.run(&["eval", "my-app"]).status.success());
    refused(&program.run(&["new", "my-app"]), "scaffold.not_empty");
}

#[test]
fn schemas_are_listed_and_printed() {
    let program = Program::new();
    let names = text(&program.run(&["schema"]).stdout);
    for name in ["Task", "Agent", "Workflow", "Checkpoint", "AppConfig"] {
        assert!(names.lines().any(|line| line == name), "{name} is missing");
    }
    let schema = json(&program.run(&["--json", "schema", "Task"]));
    assert!(schema["properties"].is_object());
    let unknown = program.run(&["schema", "Tsk"]);
    refused(&unknown, "schema.unknown");
    assert!(
        text(&unknown.stderr).contains("did you mean `Task`"),
        "{unknown:?}"
    );
}

#[test]
fn a_tool_server_that_cannot_be_started_fails_the_task_with_words_for_both() {
    let program = Program::new();
    assert!(
        program
            .run(&["new", "lost", "--from", &program.app()])
            .status
            .success()
    );
    let servers = program.folder().join("lost/config/mcp_servers.yaml");
    let written = std::fs::read_to_string(&servers).unwrap();
    let broken = written.replacen("command: convoke", "command: no-such-program", 1);
    assert_ne!(written, broken);
    std::fs::write(&servers, broken).unwrap();
    let output = program.run(&["run", "lost", "remind me to buy milk"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(
        !text(&output.stdout).contains("added"),
        "nothing is claimed: {output:?}"
    );
    assert!(
        text(&output.stderr).contains("no-such-program"),
        "the operator is told: {output:?}"
    );
}

#[test]
fn an_interrupt_stops_softly_and_the_task_goes_on_later() {
    let program = Program::new();
    let mut child = program.spawn(&["--json", "run", &program.app(), "-"]);
    let mut input = child.stdin.take().unwrap();
    writeln!(input, "remind me to buy milk").unwrap();
    program.until_submitted();
    let interrupt = std::process::Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status()
        .unwrap();
    assert!(interrupt.success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(program.run(&["resume", &program.app()]).status.success());
    assert_eq!(program.todo_titles(), ["buy milk"]);
    let nothing = program.run(&["resume", &program.app()]);
    assert_eq!(text(&nothing.stdout), "Nothing is unfinished.\n");
}

#[test]
fn pruning_keeps_tasks_that_are_not_expired() {
    let program = Program::new();
    program.run(&["run", &program.app(), "remind me to buy milk"]);
    let app = program.app();
    let prune = ["--json", "tasks", "prune", "--app", &app];
    for arguments in [&[&prune[..], &["--dry-run"]].concat()[..], &prune] {
        let output = program.run(arguments);
        assert!(output.status.success(), "{output:?}");
        let report: Value = serde_json::from_str(&text(&output.stdout)).unwrap();
        assert_eq!(report["tasks"].as_array().unwrap().len(), 0);
    }
    assert_eq!(program.tasks().len(), 1);
    let output = program.run(&["tasks", "prune", "--app", "/nowhere"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
}

#[test]
fn check_reports_the_worst_case_of_a_workflow() {
    let program = Program::new();
    let app = program.folder().join("ops");
    for (file, text) in [
        ("convoke.yaml", "name: ops\n"),
        (
            "agents/clerk.yaml",
            "name: clerk\nrole: Answers.\nsystem_prompt: Answer.\n",
        ),
        (
            "workflows/main.yaml",
            "name: main\nentry_point: look\nnodes:\n  look: {type: tool, tool: builtin.calculate, \
             arguments: {expression: '{{ request }}'}, timeout_seconds: 5, retries: 1}\n\
             answer: It is {{ look.result }}.\n",
        ),
    ] {
        let path = app.join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let app = app.to_str().unwrap();
    let output = program.run(&["check", app]);
    let line = "workflow main: at worst 2 tool calls, 11 s\n";
    assert!(text(&output.stdout).starts_with(line), "{output:?}");
    let output = program.run(&["run", app, "6 * 7"]);
    assert_eq!(text(&output.stdout), "It is 42.\n", "{output:?}");
}

#[test]
fn every_point_of_a_task_can_be_looked_at_and_replayed() {
    let program = Program::new();
    let app = program.app();
    program.run(&["run", &app, "remind me to buy milk"]);
    let history = program.run(&["--json", "tasks", "history", "last"]);
    let points: Vec<Value> = text(&history.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert!(points.len() > 2, "{history:?}");
    assert_eq!(points[0]["kind"], "submitted");
    assert_eq!(points.last().unwrap()["status"], "completed");

    let shown = program.run(&["--json", "tasks", "show", "last", "--at", "1"]);
    let shown: Value = serde_json::from_str(&text(&shown.stdout)).unwrap();
    assert_eq!(shown["entry"]["state"]["status"], "submitted");
    assert_eq!(shown["messages"].as_array().unwrap().len(), 1);
    let beyond = program.run(&["tasks", "show", "last", "--at", "99"]);
    assert_eq!(beyond.status.code(), Some(2), "{beyond:?}");

    let replayed = program.run(&["tasks", "replay", "last", "--app", &app]);
    assert!(replayed.status.success(), "{replayed:?}");
    let said = format!("{} steps, the same as in the journal\n", points.len());
    assert_eq!(text(&replayed.stdout), said);

    let database = program.folder().join(".convoke/store.db");
    let database = rusqlite::Connection::open(database).unwrap();
    let bent = "UPDATE entries SET state = json_set(state, '$.status', 'failed') WHERE seq = 2";
    database.execute(bent, []).unwrap();
    let replayed = program.run(&["tasks", "replay", "last", "--app", &app]);
    assert_eq!(replayed.status.code(), Some(1), "{replayed:?}");
    let said = text(&replayed.stdout);
    assert!(
        said.starts_with("step 2 of") && said.contains("at /status:"),
        "{said}"
    );
}

#[test]
fn a_task_becomes_an_eval_case_that_the_app_passes() {
    let program = Program::new();
    assert!(
        program
            .run(&["new", "mine", "--from", &program.app()])
            .status
            .success()
    );
    let evals = program.folder().join("mine/evals");
    for file in std::fs::read_dir(&evals).unwrap() {
        std::fs::remove_file(file.unwrap().path()).unwrap();
    }
    program.run(&["run", "mine", "remind me to buy milk"]);
    program.run(&["run", "mine", "--continue", "show my tasks"]);
    program.run(&["run", "mine", "--continue", "mark it as done"]);
    let recorded = text(&program.run(&["tasks", "record", "last"]).stdout);
    assert!(
        recorded.contains("before: [\"remind me to buy milk\",\"show my tasks\"]"),
        "{recorded}"
    );
    std::fs::write(evals.join("recorded.yaml"), format!("cases:\n{recorded}")).unwrap();
    let report = program.folder().join("junit.xml");
    let passed = program.run(&["eval", "mine", "--confusion", "--junit", "junit.xml"]);
    assert!(passed.status.success(), "{passed:?}\n{recorded}");
    assert!(
        text(&passed.stdout).contains("complete_task  complete_task"),
        "{passed:?}"
    );
    let written = std::fs::read_to_string(&report).unwrap();
    assert!(written.contains("tests=\"1\" failures=\"0\""), "{written}");
    std::fs::write(
        evals.join("wrong.yaml"),
        "cases:\n  - {say: hello, expect: {intent: list_tasks}}\n",
    )
    .unwrap();
    let failed = program.run(&["eval", "mine", "--junit", "junit.xml"]);
    assert_eq!(failed.status.code(), Some(1), "{failed:?}");
    let written = std::fs::read_to_string(&report).unwrap();
    assert!(
        written.contains("failures=\"1\"") && written.contains("<failure"),
        "{written}"
    );
}
