//! The promise that matters most, tested on the real binary: kill it with SIGKILL at any moment, start
//! it again, and every acknowledged task is finished with every effect present exactly once.
//!
//! Short by default; `CONVOKE_LONG_TESTS=1` does ten times as many rounds.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod program;

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::process::Child;
use std::time::Duration;

use program::Program;
use serde_json::Value;

const TASKS: usize = 50;

fn rounds(short: u64) -> u64 {
    let long = std::env::vars().any(|(name, value)| name == "CONVOKE_LONG_TESTS" && value == "1");
    if long { short * 10 } else { short }
}

/// A small deterministic source of moments, so that a failing round can be run again.
fn random(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    move |below| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    }
}

/// Submits all tasks over standard input and kills the process after `lines` lines of output and then
/// some microseconds more. Gives the tasks that were acknowledged, by id with their titles.
fn submit_and_kill(program: &Program, lines: u64, micros: u64) -> HashMap<String, String> {
    let mut child = program.spawn(&["--json", "run", &program.app(), "-"]);
    let mut input = child.stdin.take().unwrap();
    let feeder = std::thread::spawn(move || {
        for task in 0..TASKS {
            if writeln!(input, "remind me to do thing number {task}").is_err() {
                break;
            }
        }
    });
    let mut acknowledged = HashMap::new();
    let mut order = 0..TASKS;
    let mut seen = 0;
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while seen < lines && output.read_line(&mut line).unwrap() > 0 {
        note_acknowledged(&line, &mut order, &mut acknowledged);
        seen += 1;
        line.clear();
    }
    std::thread::sleep(Duration::from_micros(micros));
    kill(&mut child);
    // What the process managed to say before it died counts as acknowledged too.
    while output.read_line(&mut line).unwrap_or(0) > 0 {
        if line.ends_with('\n') {
            note_acknowledged(&line, &mut order, &mut acknowledged);
        }
        line.clear();
    }
    feeder.join().unwrap();
    acknowledged
}

fn note_acknowledged(
    line: &str,
    order: &mut std::ops::Range<usize>,
    acknowledged: &mut HashMap<String, String>,
) {
    let said: Value = serde_json::from_str(line).unwrap();
    if said["state"] == "submitted" {
        let title = format!("do thing number {}", order.next().unwrap());
        acknowledged.insert(said["task"].as_str().unwrap().to_owned(), title);
    }
}

fn kill(child: &mut Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

fn assert_all_finished_once(
    program: &Program,
    acknowledged: &HashMap<String, String>,
    round: &str,
) {
    let tasks = program.tasks();
    for (id, title) in acknowledged {
        let task = tasks
            .get(id)
            .unwrap_or_else(|| panic!("{round}: task {id} is lost"));
        assert_eq!(task["status"], "completed", "{round}: {task}");
        assert_eq!(
            task["result"],
            format!("I've added \"{title}\" to your tasks."),
            "{round}"
        );
    }
    let titles = program.todo_titles();
    for title in acknowledged.values() {
        let count = titles.iter().filter(|other| *other == title).count();
        assert_eq!(count, 1, "{round}: {title:?} is there {count} times");
    }
    // A task that was never acknowledged may have been carried out, but not twice.
    let mut unique = titles.clone();
    unique.sort();
    unique.dedup();
    assert_eq!(
        unique.len(),
        titles.len(),
        "{round}: an effect was repeated"
    );
    let unfinished = tasks
        .values()
        .filter(|task| task["status"] != "completed")
        .count();
    assert_eq!(unfinished, 0, "{round}: tasks are left unfinished");
}

#[test]
fn a_killed_run_resumes_with_nothing_lost_and_nothing_repeated() {
    let mut acknowledged_in_all = 0;
    for round in 0..rounds(6) {
        let mut random = random(round + 1);
        let program = Program::new();
        // The output is one line for each acknowledgement and one for each answer.
        let lines = 1 + random(2 * TASKS as u64 - 1);
        let acknowledged = submit_and_kill(&program, lines, random(3_000));
        acknowledged_in_all += acknowledged.len();
        let resumed = program.run(&["resume", &program.app()]);
        assert!(resumed.status.success(), "round {round}: {resumed:?}");
        assert_all_finished_once(
            &program,
            &acknowledged,
            &format!("round {round} at line {lines}"),
        );
    }
    assert!(
        acknowledged_in_all > 0,
        "the kills came before anything was acknowledged"
    );
}

#[test]
fn a_resume_that_is_killed_again_and_again_still_finishes() {
    for round in 0..rounds(3) {
        let mut random = random(1_000 + round);
        let program = Program::new();
        let acknowledged = submit_and_kill(&program, TASKS as u64 / 2, random(2_000));
        for _ in 0..4 {
            let mut child = program.spawn(&["--json", "resume", &program.app()]);
            std::thread::sleep(Duration::from_micros(5_000 + random(60_000)));
            kill(&mut child);
        }
        let resumed = program.run(&["resume", &program.app()]);
        assert!(resumed.status.success(), "round {round}: {resumed:?}");
        assert_all_finished_once(&program, &acknowledged, &format!("round {round}"));
    }
}

#[test]
fn the_next_run_also_finishes_what_a_killed_one_left() {
    let program = Program::new();
    let mut child = program.spawn(&["--json", "run", &program.app(), "remind me to buy milk"]);
    program.until_submitted();
    kill(&mut child);
    let again = program.run(&["run", &program.app(), "remind me to buy bread"]);
    assert!(again.status.success(), "{again:?}");
    assert_eq!(
        program::text(&again.stdout),
        "I've added \"buy bread\" to your tasks.\n"
    );
    let resumed = program.run(&["resume", &program.app()]);
    assert!(resumed.status.success());
    let mut titles = program.todo_titles();
    titles.sort();
    assert_eq!(titles, ["buy bread", "buy milk"]);
}
