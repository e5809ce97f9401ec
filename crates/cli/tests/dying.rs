//! The on-call app, killed with SIGKILL at every place where its journal can stand on disk, one after the
//! other: before each commit and after it, in the run that begins the task, in the answer of the person, and
//! in the run that finishes it. Whatever the place, the task comes to the same end, with every effect once.
//!
//! The real binary, its real tool servers and real files; what kills it is `dying/die.c`, which is loaded into
//! the process and counts the commits of the store.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod program;

use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use program::{Program, text};
use serde_json::Value;

const SIGKILL: i32 = 9;

/// No run of this app commits more often. A run that is never reached by the killing has ended before.
const MOST_COMMITS: usize = 60;

/// The library that kills, compiled once.
fn die_library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/dying/die.c");
        let library =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("die-{}.so", std::process::id()));
        let compiled = Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-o"])
            .args([library.as_path(), source.as_path()])
            .arg("-ldl")
            .status()
            .unwrap();
        assert!(compiled.success());
        library
    })
}

/// One incident from the request to the report.
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

    /// Sends the request. Sent again under its key, it is the same request.
    fn request(&self, die: Option<&str>) -> Output {
        let arguments = ["run", &self.app, "checkout is slow", "--key", "incident"];
        self.run(&arguments, die)
    }

    fn answer(&self, die: Option<&str>) -> Output {
        self.run(&["tasks", "answer", "last", "approve"], die)
    }

    fn resume(&self, die: Option<&str>) -> Output {
        self.run(&["resume", &self.app], die)
    }

    fn run(&self, arguments: &[&str], die: Option<&str>) -> Output {
        let mut command = self.program.command(arguments);
        if let Some(die) = die {
            command
                .env("LD_PRELOAD", die_library())
                .env("CONVOKE_DIE", die);
        }
        command.output().unwrap()
    }

    /// Brings the task to the person's question, from wherever it stands.
    fn until_asked(&self) {
        self.request(None);
        self.resume(None);
        assert_eq!(self.status(), "input-required");
    }

    /// Answers, and brings the task to its end.
    fn until_ended(&self) {
        if self.status() == "input-required" {
            self.answer(None);
        }
        self.resume(None);
    }

    fn status(&self) -> String {
        let tasks = self.program.tasks();
        assert_eq!(
            tasks.len(),
            1,
            "there is one request, and so one task: {tasks:?}"
        );
        let task = tasks.into_values().next().unwrap();
        task["status"].as_str().unwrap().to_owned()
    }

    /// How far the journal on disk has come.
    fn position(&self) -> u64 {
        let file = self.program.folder().join(".convoke/store.db");
        let store = rusqlite::Connection::open(file).unwrap();
        let count = store.query_row("SELECT count(*) FROM entries", [], |row| row.get(0));
        count.unwrap_or(0)
    }

    /// All that may be seen of the end: the answer, the changes that were made, the report.
    fn end(&self) -> (Value, Vec<String>, Vec<String>) {
        assert_eq!(self.status(), "completed");
        let replayed = self.run(&["tasks", "replay", "last"], None);
        assert!(replayed.status.success(), "{}", text(&replayed.stdout));
        let task = self.program.tasks().into_values().next().unwrap();
        let folder = self.program.folder().join(".convoke/operations");
        let database = rusqlite::Connection::open(folder.join("operations.db")).unwrap();
        let mut changes = database
            .prepare("SELECT service || ' ' || kind || ' ' || detail FROM changes")
            .unwrap();
        let changes = changes.query_map([], |row| row.get(0)).unwrap();
        let reports = std::fs::read_dir(folder.join("reports")).unwrap();
        let reports = reports.map(|file| {
            let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
            let (report, log) = text.split_once("## Log").unwrap();
            assert!(log.contains("WARN"), "{log}");
            report.to_owned()
        });
        (
            task["result"].clone(),
            changes.map(Result::unwrap).collect(),
            reports.collect(),
        )
    }
}

fn was_killed(output: &Output) -> bool {
    output.status.signal() == Some(SIGKILL)
}

/// Kills one step of an incident at every commit, before and after it, each time in a new incident that was
/// brought to the step, and compares the end that it comes to with that of one that nobody killed.
fn killed_everywhere(
    bring_to_step: fn(&Incident),
    step: fn(&Incident, Option<&str>) -> Output,
    go_on: fn(&Incident),
) -> BTreeSet<u64> {
    let untouched = Incident::new();
    untouched.until_asked();
    untouched.until_ended();
    let end = untouched.end();
    assert_eq!(end.1, ["checkout roll_back from 2.4.1 to 2.4.0"]);
    let mut positions = BTreeSet::new();
    for when in ["before", "after"] {
        for commit in 1..=MOST_COMMITS {
            let incident = Incident::new();
            bring_to_step(&incident);
            let die = format!("{when}:{commit}");
            let output = step(&incident, Some(&die));
            if !was_killed(&output) {
                assert!(commit > 1, "{die} killed nothing");
                break;
            }
            positions.insert(incident.position());
            go_on(&incident);
            assert_eq!(incident.end(), end, "killed {die}");
        }
    }
    positions
}

#[test]
fn a_request_killed_at_every_commit_is_finished_with_every_effect_once() {
    let go_on = |incident: &Incident| {
        incident.until_asked();
        incident.until_ended();
    };
    let positions = killed_everywhere(|_| {}, Incident::request, go_on);
    assert!(positions.len() >= 5, "{positions:?}");
}

#[test]
fn an_answer_killed_at_every_commit_counts_once() {
    killed_everywhere(Incident::until_asked, Incident::answer, |incident| {
        // Whether the answer that was killed had been taken is for the store to know.
        incident.answer(None);
        incident.until_ended();
    });
}

#[test]
fn a_resumed_task_killed_at_every_commit_is_finished_with_every_effect_once() {
    let bring_to_step = |incident: &Incident| {
        incident.until_asked();
        assert!(incident.answer(None).status.success());
    };
    let positions = killed_everywhere(bring_to_step, Incident::resume, Incident::until_ended);
    assert!(positions.len() >= 4, "{positions:?}");
}
