//! The log of the real binary as JSON.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod program;

use convoke_testkit::{Reply, ScriptedModel};
use program::{Program, text};
use serde_json::Value;

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

#[tokio::test(flavor = "multi_thread")]
async fn a_line_names_its_time_its_level_its_task_and_its_trace() {
    let replies = vec![Reply::status(503), Reply::text("Hello.")];
    let model = ScriptedModel::start(replies).await.unwrap();
    let program = Program::new();
    let chosen = format!("{}#scripted", model.endpoint());
    let question = "I fly to the moon in spring and know nothing of luggage";
    let app = program.app();
    let output = program
        .command(&["-vv", "run", &app, question, "--model", &chosen])
        .env("TRACEPARENT", format!("00-{TRACE}-b7ad6b7169203331-01"))
        .env("CONVOKE_LOG_FORMAT", "json")
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let log = text(&output.stderr);
    let log: Vec<Value> = log
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect();
    let said = |line: &&Value| {
        line["message"]
            .as_str()
            .is_some_and(|it| it.contains("asked again"))
    };
    let again = log.iter().find(said);
    let again = again.unwrap_or_else(|| panic!("{log:?}"));
    let task = program.tasks().into_keys().next().unwrap();
    assert_eq!(again["task"], task, "{again}");
    assert_eq!(again["trace_id"], TRACE, "{again}");
    assert!(again["level"].is_string(), "{again}");
    assert!(
        again["target"]
            .as_str()
            .is_some_and(|it| it.starts_with("convoke_")),
        "{again}"
    );
    assert!(
        again["at"].as_str().is_some_and(|at| at.ends_with('Z')),
        "{again}"
    );
    assert!(again["fields"].is_object(), "{again}");
}

#[test]
fn an_unknown_form_is_refused() {
    let program = Program::new();
    let output = program.run(&["--log-format", "yaml", "schema"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("json"), "{output:?}");
}
