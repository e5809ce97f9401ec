//! The on-call app with the real binary and its real tool servers: every way that an incident can go, without a
//! model and with one.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod program;

use convoke_testkit::{Reply, ScriptedModel};
use program::{Program, text};
use serde_json::{Value, json};

struct Incident {
    program: Program,
    app: String,
}

impl Incident {
    fn new() -> Self {
        let program = Program::new();
        let app = program.operations_app();
        Self { program, app }
    }

    /// What is said to a request, and with which exit code.
    fn say(&self, request: &str) -> (String, Option<i32>) {
        let output = self.program.run(&["run", &self.app, request]);
        (text(&output.stdout), output.status.code())
    }

    fn answer(&self, arguments: &[&str]) -> String {
        let answer = [&["tasks", "answer", "last"][..], arguments].concat();
        let noted = self.program.run(&answer);
        assert!(noted.status.success(), "{noted:?}");
        text(&self.program.run(&["resume", &self.app]).stdout)
    }

    fn changes(&self) -> Vec<String> {
        let file = self
            .program
            .folder()
            .join(".convoke/operations/operations.db");
        let database = rusqlite::Connection::open(file).unwrap();
        let mut changes = database
            .prepare("SELECT service || ' ' || kind || ' ' || reason FROM changes ORDER BY id")
            .unwrap();
        let changes = changes.query_map([], |row| row.get(0)).unwrap();
        changes.map(Result::unwrap).collect()
    }
}

#[test]
fn what_is_asked_for_is_what_is_done() {
    let incident = Incident::new();
    let (said, code) = incident.say("what changed in checkout?");
    assert_eq!(code, Some(0));
    assert!(said.contains("2.4.1 instead of 2.4.0"), "{said}");
    let (said, code) = incident.say("don't touch checkout");
    assert_eq!(code, Some(0));
    assert!(said.contains("I leave checkout as it is"), "{said}");
    let (said, code) = incident.say("checkout and search are slow");
    assert_eq!(code, Some(0));
    assert!(
        said.contains("checkout is degraded") && said.contains("search is down"),
        "{said}"
    );
    let (question, code) = incident.say("restart the checkout service");
    assert_eq!(code, Some(4));
    assert!(question.contains("Restart it?"), "{question}");
    assert!(incident.changes().is_empty());
    let report = incident.answer(&["approve", "--message", "as agreed"]);
    assert!(
        report.contains("is still degraded after a restart"),
        "{report}"
    );
    assert_eq!(incident.changes(), ["checkout restart as agreed"]);
}

#[test]
fn a_yes_in_the_conversation_approves_what_was_proposed() {
    let incident = Incident::new();
    incident.say("checkout is slow");
    let output = incident
        .program
        .run(&["run", &incident.app, "--continue", "yes"]);
    let report = text(&output.stdout);
    assert!(
        report.contains("is healthy again after a roll back"),
        "{report}"
    );
    assert_eq!(incident.changes().len(), 1);
}

#[test]
fn a_misspelt_version_rolls_nothing_back() {
    let incident = Incident::new();
    incident.say("checkout is slow");
    for (set, code) in [
        ("targte=2.3.7", "answer.field_unknown"),
        ("target=2.3", "answer.field_type"),
        ("target=the last one", "answer.field_type"),
    ] {
        let answer = ["tasks", "answer", "last", "modify", "--set", set];
        let refused = incident.program.run(&answer);
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");
        assert!(text(&refused.stderr).contains(code), "{refused:?}");
        incident.program.run(&["resume", &incident.app]);
        assert!(incident.changes().is_empty(), "{set}");
    }
}

#[test]
fn a_service_that_broke_with_its_deployment_goes_back_once_a_person_agrees() {
    let incident = Incident::new();
    let (question, code) = incident.say("checkout is slow");
    assert_eq!(code, Some(4));
    assert!(question.contains("Roll back to 2.4.0?"), "{question}");
    assert!(incident.changes().is_empty());
    let report = incident.answer(&["approve", "--message", "go ahead"]);
    assert!(
        report.contains("is healthy again after a roll back"),
        "{report}"
    );
    assert_eq!(incident.changes(), ["checkout roll_back go ahead"]);
}

#[test]
fn a_person_may_decide_otherwise() {
    let incident = Incident::new();
    incident.say("checkout is slow");
    let report = incident.answer(&["reject", "--message", "a sale is on"]);
    assert!(report.contains("left as it is: a sale is on"), "{report}");
    assert!(incident.changes().is_empty());
    incident.say("checkout is still slow");
    let report = incident.answer(&["modify", "--set", "target=2.3.7"]);
    assert!(report.contains("to 2.3.7"), "{report}");
    assert_eq!(incident.changes().len(), 1);
}

#[test]
fn what_is_not_deployed_lately_is_started_anew_and_looked_at_again() {
    let incident = Incident::new();
    let (question, _) = incident.say("search does not answer");
    assert!(question.contains("Restart it?"), "{question}");
    assert!(
        incident
            .answer(&["approve"])
            .contains("search was down and is healthy again")
    );
    incident.say("what about inventory?");
    let report = incident.answer(&["approve"]);
    assert!(report.contains("inventory is still degraded"), "{report}");
    assert!(report.contains("call whoever is on duty"), "{report}");
}

#[test]
fn nobody_is_asked_where_nothing_is_wrong_or_nothing_is_known() {
    let incident = Incident::new();
    let (said, code) = incident.say("are payments fine?");
    assert_eq!(code, Some(0));
    assert!(
        said.contains("payments is healthy; there is nothing to do."),
        "{said}"
    );
    let (said, code) = incident.say("something is broken");
    assert_eq!(code, Some(0));
    assert!(said.contains("Which service is it about?"), "{said}");
}

#[test]
fn what_a_server_does_not_give_is_missing_and_the_rest_goes_on() {
    let incident = Incident::new();
    let config = incident
        .program
        .folder()
        .join("operations/config/mcp_servers.yaml");
    let written = std::fs::read_to_string(&config).unwrap();
    let broken = written
        .replace("command: node", "command: no-such-program-anywhere")
        .replace("connect_seconds: 60", "connect_seconds: 2");
    std::fs::write(&config, broken).unwrap();
    incident.say("checkout is slow");
    let report = incident.answer(&["approve"]);
    assert!(report.contains("is healthy again"), "{report}");
    assert!(
        report.contains("could not be written to a file"),
        "{report}"
    );
}

#[test]
fn the_app_fits_its_tool_servers_and_a_broken_copy_does_not() {
    let incident = Incident::new();
    let fits = incident.program.run(&["check", "--connect", &incident.app]);
    assert!(fits.status.success(), "{fits:?}");
    assert!(text(&fits.stdout).contains("at worst 100 tool calls, 8 model calls, 1 question"));
    let workflow = incident
        .program
        .folder()
        .join("operations/workflows/incident.yaml");
    let written = std::fs::read_to_string(&workflow).unwrap();
    let broken = written
        .replace("minutes: 10080", "minuts: 10080")
        .replace("ops.host_health", "ops.host_helth");
    std::fs::write(&workflow, broken).unwrap();
    let refused = incident.program.run(&["check", "--connect", &incident.app]);
    assert_eq!(refused.status.code(), Some(1));
    let told = text(&refused.stderr);
    for code in ["connect.argument_unknown", "connect.tool_unknown"] {
        assert!(told.contains(code), "{told}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn with_a_model_the_summary_is_written_looked_at_and_mended() {
    let replies = vec![
        Reply::tool_calls([("ops__list_changes", json!({ "service": "payments" }))]),
        Reply::text("Payments was fine."),
        Reply::text(r#"{"ok": false, "feedback": "say since when"}"#),
        Reply::text("Payments was fine all day."),
        Reply::text(r#"{"ok": true}"#),
    ];
    let model = ScriptedModel::start(replies).await.unwrap();
    let incident = Incident::new();
    let chosen = format!("{}#scripted", model.endpoint());
    let app = &incident.app;
    let output = incident
        .program
        .run(&["run", app, "are payments fine?", "--model", &chosen]);
    let said = text(&output.stdout);
    assert!(said.contains("Payments was fine all day."), "{output:?}");
    assert_eq!(model.requests().len(), 5);
    let tools = model.requests()[0].body["tools"].to_string();
    assert!(
        !tools.contains("restart_service") && !tools.contains("roll_back"),
        "{tools}"
    );

    let traced = incident
        .program
        .run(&["tasks", "list", "--json", "--limit", "2"]);
    let parent = text(&traced.stdout)
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .find(|task| task["parent"].is_null())
        .unwrap();
    let id = parent["id"].as_str().unwrap();
    let traced = text(&incident.program.run(&["tasks", "trace", id]).stdout);
    for step in [
        "reporter thinks",
        "ops.list_changes",
        "reporter reflects",
        "5 model calls",
    ] {
        assert!(traced.contains(step), "{traced}");
    }
}

#[test]
fn questions_are_answered_in_the_chat() {
    let incident = Incident::new();
    let mut chat = incident.program.spawn(&["chat", &incident.app]);
    let lines = "checkout is slow\n/set\n/set nothing\n/set target=2.3.7\n/approve\nsearch is down\n/reject not now\n";
    std::io::Write::write_all(&mut chat.stdin.take().unwrap(), lines.as_bytes()).unwrap();
    let said = text(&chat.wait_with_output().unwrap().stdout);
    assert!(
        said.contains("after a roll back (from 2.4.1 to 2.3.7)"),
        "{said}"
    );
    assert!(
        said.contains("search was down and was left as it is: not now"),
        "{said}"
    );
    assert_eq!(incident.changes().len(), 1);
}

#[test]
fn a_question_that_is_put_off_is_asked_again() {
    let incident = Incident::new();
    incident.say("checkout is slow");
    for wrong in [
        &["snooze"][..],
        &["snooze", "--for", "soon"],
        &["snooze", "--for", "48h"],
        &["approve", "--for", "1h"],
    ] {
        let answer = [&["tasks", "answer", "last"][..], wrong].concat();
        let refused = incident.program.run(&answer);
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    }
    let waiting = incident.answer(&["snooze", "--for", "2s"]);
    assert!(waiting.contains("Roll back to 2.4.0?"), "{waiting}");
    let shown = incident.program.run(&["tasks", "show", "last"]);
    assert!(text(&shown.stdout).contains("asked again at"), "{shown:?}");
    loop {
        incident.program.run(&["resume", &incident.app]);
        let history = incident.program.run(&["tasks", "history", "last"]);
        if text(&history.stdout).contains("reminded") {
            break;
        }
    }
    let report = incident.answer(&["approve"]);
    assert!(report.contains("is healthy again"), "{report}");
    assert_eq!(incident.changes().len(), 1);
}

#[test]
fn a_task_can_be_handed_in_for_later() {
    let incident = Incident::new();
    let run = |time: &str| {
        let arguments = [
            "--json",
            "run",
            &incident.app,
            "checkout is slow",
            "--not-before",
            time,
        ];
        incident.program.run(&arguments)
    };
    assert_eq!(run("whenever").status.code(), Some(2));
    let accepted = run("1s");
    assert_eq!(accepted.status.code(), Some(4), "{accepted:?}");
    let accepted: Value = serde_json::from_slice(&accepted.stdout).unwrap();
    assert_eq!(accepted["state"], "submitted");
    assert!(accepted["waits_until"].is_string());
    loop {
        let resumed = incident.program.run(&["resume", &incident.app]);
        if text(&resumed.stdout).contains("Roll back to 2.4.0?") {
            break;
        }
    }
}
