//! An app of another trade, written from the documentation: a veterinary practice with a tool server of its own, two kinds
//! of things with small numbers, and medicines that a vet must agree to.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod program;

use std::path::Path;
use std::process::Output;
use std::time::Duration;

use program::{Program, text};
use serde_json::Value;

const VET: &str = "00000000-0000-4000-8000-0000000000ee";

fn practice() -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/veterinary");
    folder.canonicalize().unwrap().to_str().unwrap().to_owned()
}

/// Sends messages of one conversation and gives what the user reads.
fn talk(program: &Program, app: &str, messages: &[&str]) -> Vec<String> {
    let told = messages.iter().enumerate().map(|(index, message)| {
        let mut arguments = vec!["run", app, message];
        if index > 0 {
            arguments.push("--continue");
        }
        text(&program.run(&arguments).stdout).trim().to_owned()
    });
    told.collect()
}

fn orders(program: &Program) -> Vec<String> {
    let database = program.folder().join(".convoke/practice.db");
    let database = rusqlite::Connection::open(database).unwrap();
    let mut rows = database
        .prepare("SELECT medicine FROM orders WHERE NOT canceled ORDER BY id")
        .unwrap();
    let names = rows.query_map([], |row| row.get(0)).unwrap();
    names.map(Result::unwrap).collect()
}

fn last_state(program: &Program) -> String {
    let shown = program.run(&["--json", "tasks", "show", "last"]);
    let shown: Value = serde_json::from_slice(&shown.stdout).unwrap();
    shown["state"]["status"].as_str().unwrap().to_owned()
}

/// A vet answers the question that was asked last.
fn answer(program: &Program, answer: &[&str]) -> Output {
    let arguments = [&["tasks", "answer", "last"], answer, &["--user", VET]];
    program.run(&arguments.concat())
}

#[test]
fn the_app_fits_its_server_and_passes_its_evals() {
    let program = Program::new();
    let checked = program.run(&["--json", "check", "--connect", &practice()]);
    let told: Value = serde_json::from_slice(&checked.stdout).unwrap();
    assert_eq!(told["diagnostics"], serde_json::json!([]), "{told}");
    let evaluated = program.run(&["--json", "eval", &practice()]);
    assert!(evaluated.status.success(), "{}", text(&evaluated.stdout));
    let told: Value = serde_json::from_slice(&evaluated.stdout).unwrap();
    assert!(told["cases"].as_array().unwrap().len() >= 35, "{told}");
}

#[test]
fn it_is_the_thing_that_was_spoken_of_last_whatever_its_number() {
    let program = Program::new();
    let told = talk(
        &program,
        &practice(),
        &[
            "register my dog Bello",
            "book a check-up for Bello on Monday at 9",
            "book a nail trim for Bello on Monday at 10",
            "order Milbemax for Bello",
            "order 2 packs of flea drops for Bello",
            "show my appointments",
            "show my orders",
            "cancel the second one",
            "cancel the nail trim",
            "show my appointments",
            "show my orders",
        ],
    );
    assert_eq!(told[7], "Canceled: 2 packs of Frontline for Bello.");
    assert_eq!(told[8], "Canceled: nail trim for Bello on Monday at 10:00.");
    assert!(
        told[9].contains("1. check-up") && !told[9].contains("2."),
        "{told:?}"
    );
    assert!(
        told[10].contains("1. 1 pack of Milbemax") && !told[10].contains("2."),
        "{told:?}"
    );
}

#[test]
fn a_prescription_is_for_a_vet_and_never_for_the_owner() {
    let program = Program::new();
    let app = practice();
    let asked = talk(
        &program,
        &app,
        &["register my dog Bello", "renew the heart tablets for Bello"],
    );
    assert_eq!(
        asked[1],
        "May Bello have Vetmedin (for the heart, 48 euros)?"
    );
    assert_eq!(last_state(&program), "input-required");
    for arguments in [
        &["run", app.as_str(), "yes", "--continue"] as &[&str],
        &["tasks", "answer", "last", "approve"],
    ] {
        let refused = program.run(arguments);
        let told = text(&refused.stderr);
        assert!(
            told.contains("answer.not_allowed") && told.contains("--user"),
            "{told}"
        );
        assert!(orders(&program).is_empty());
    }
    let noted = answer(
        &program,
        &["reject", "--message", "Bello had it last week."],
    );
    assert!(text(&noted.stdout).contains("goes on when"), "{noted:?}");
    let resumed = text(&program.run(&["resume", &app]).stdout);
    let told = "The vet did not agree to Vetmedin: Bello had it last week.";
    assert!(resumed.contains(told), "{resumed}");
    assert_eq!(last_state(&program), "completed");
    assert!(orders(&program).is_empty());
}

#[test]
fn a_request_that_waits_for_a_vet_can_be_withdrawn() {
    let program = Program::new();
    let app = practice();
    talk(
        &program,
        &app,
        &["register my dog Bello", "renew the heart tablets for Bello"],
    );
    let canceled = program.run(&["tasks", "cancel", "last"]);
    assert!(
        text(&canceled.stdout).contains("is canceled when"),
        "{canceled:?}"
    );
    program.run(&["resume", &app]);
    assert_eq!(last_state(&program), "canceled");
    assert!(orders(&program).is_empty());
}

#[test]
fn a_kill_while_an_approved_order_is_made_neither_loses_nor_repeats_it() {
    let program = Program::new();
    let copied = program.run(&["new", "clinic", "--from", &practice()]);
    assert!(copied.status.success(), "{copied:?}");
    let app = program.folder().join("clinic");
    // The server dawdles after the effect and before its answer, while the file `slow` exists.
    let server = app.join("tools/server.py");
    let source = std::fs::read_to_string(&server).unwrap();
    let commit = "        db.execute(\"COMMIT\")\n";
    assert_eq!(source.matches(commit).count(), 1);
    let dawdles = format!(
        "{commit}        while pathlib.Path('slow').exists(): __import__('time').sleep(0.01)\n"
    );
    std::fs::write(&server, source.replace(commit, &dawdles)).unwrap();

    let clinic = app.to_str().unwrap();
    talk(
        &program,
        clinic,
        &["register my dog Bello", "renew the heart tablets for Bello"],
    );
    std::fs::write(app.join("slow"), "").unwrap();
    assert!(answer(&program, &["approve"]).status.success());
    let mut worker = program.spawn(&["resume", clinic]);
    while orders(&program).is_empty() {
        assert!(
            worker.try_wait().unwrap().is_none(),
            "it ended before it ordered"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
    worker.kill().unwrap();
    worker.wait().unwrap();
    assert_ne!(last_state(&program), "completed");

    std::fs::remove_file(app.join("slow")).unwrap();
    let resumed = program.run(&["resume", clinic]);
    assert!(resumed.status.success(), "{resumed:?}");
    assert_eq!(last_state(&program), "completed");
    assert_eq!(orders(&program), ["Vetmedin"]);
}
