//! A store that another process holds for longer than anything waits for it: the worker outlives it, and nothing is done
//! twice.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod program;

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::sync::Arc;

use convoke_testkit::{Reply, ScriptedModel};
use program::{Program, text};
use serde_json::json;
use tokio::sync::Semaphore;

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_outlives_a_process_that_is_stopped_inside_a_commit() {
    let gate = Arc::new(Semaphore::new(0));
    let script = Reply::text("It is noon.").gated(&gate);
    let model = ScriptedModel::start(script).await.unwrap();
    let program = Program::new();
    let app = program.agent_app(&json!({
        "llm_config": { "endpoint": model.endpoint(), "model": "m" },
    }));
    let mut asking = program.command(&["-v", "run", &app, "What time is it?"]);
    let mut asking = (asking.stdout(Stdio::piped()).stderr(Stdio::piped()))
        .spawn()
        .unwrap();
    model.wait_for_requests(1).await;
    // What a process that was stopped within its transaction does to all others.
    let holder = program.open_store();
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();
    gate.add_permits(1);
    let mut log = BufReader::new(asking.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("could not be written and is tried again") {
        line.clear();
        assert_ne!(log.read_line(&mut line).unwrap(), 0, "it has ended");
    }
    holder.execute_batch("ROLLBACK").unwrap();
    drop(holder);
    // The rest of the log must not fill the pipe.
    std::thread::spawn(move || log.lines().map_while(Result::ok).count());
    let ended = asking.wait_with_output().unwrap();
    assert!(ended.status.success(), "{ended:?}");
    assert_eq!(text(&ended.stdout), "It is noon.\n");
    assert_eq!(model.requests().len(), 1);
}
