//! A tool's result of many megabytes: what it costs in the store's file, and that a task goes on with it elsewhere.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use convoke::{
    IncomingRequest, QuestionAnswer, Runtime, RustTool, StoreChoice, TaskState, ToolError,
    local_user,
};
use convoke_testkit::{Reply, ScriptedModel};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

const ROWS: usize = 30_000;

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

/// About 15 MB.
fn rows() -> Value {
    let title = |row| format!("\"row\" {row} {}", "of a long list ".repeat(30));
    let row = |row| json!({ "id": row, "title": title(row) });
    json!({ "total": ROWS, "rows": (0..ROWS).map(row).collect::<Vec<_>>() })
}

fn look() -> RustTool {
    RustTool::new("look", "Gives all rows.", |_, _: Nothing| async move {
        Ok::<_, ToolError>(rows())
    })
    .read_only()
}

async fn runtime(app: &Path) -> Runtime {
    let file = app.join("store/store.db");
    let builder = Runtime::builder().app(app).tool(look());
    let builder = builder.store(StoreChoice::Sqlite(file));
    builder.build().await.unwrap()
}

/// An app in a folder of its own, with a folder for its store.
fn app(files: &[(&str, String)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("store")).unwrap();
    for (file, text) in files {
        let path = folder.path().join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    folder
}

fn clerk(endpoint: &str) -> String {
    let clerk = json!({
        "name": "clerk",
        "role": "Answers.",
        "system_prompt": "You are a clerk.",
        "tools": ["rust.look"],
        "llm_config": { "endpoint": endpoint, "model": "scripted" },
    });
    clerk.to_string()
}

/// What all files of the store take, once nobody has it open.
fn stored_bytes(app: &Path) -> u64 {
    let files = std::fs::read_dir(app.join("store")).unwrap();
    files
        .map(|file| file.unwrap().metadata().unwrap().len())
        .sum()
}

#[expect(clippy::print_stdout, reason = "the test's output carries the figure")]
fn assert_costs_once(what: &str, app: &Path) {
    let (own, stored) = (rows().to_string().len() as u64, stored_bytes(app));
    println!("{what}: a result of {own} bytes makes a store of {stored} bytes");
    assert!(stored * 10 < own * 13, "{stored} bytes for {own}");
}

#[tokio::test]
async fn a_workflow_goes_on_with_a_large_result_after_a_restart_and_stores_it_once() {
    let workflow = "name: main\nentry_point: look\nnodes:\n  look: {type: tool, tool: rust.look}\n  \
        agree: {type: human, prompt: 'Tell it?'}\n  tell: {type: compose, prompt: 'There are {{ \
        look.total }} rows, among them {{ look.rows[29999].id }}.'}\nedges:\n  - {from: look, to: \
        agree}\n  - {from: agree, to: tell}\n";
    let app = app(&[
        ("convoke.yaml", "name: desk\n".into()),
        ("agents/clerk.json", clerk("http://127.0.0.1:9/v1")),
        ("workflows/main.yaml", workflow.into()),
    ]);
    let first = runtime(app.path()).await;
    let waiting = first.ask(IncomingRequest::new(local_user(), "Look.")).await;
    let waiting = waiting.unwrap();
    assert_eq!(waiting.status, TaskState::InputRequired);
    first.shutdown().await.unwrap();
    drop(first);
    let second = runtime(app.path()).await;
    let approve = QuestionAnswer::approve();
    let ended = second.answer(local_user(), waiting.facts.id, None, approve);
    let answer = ended.await.unwrap().answer.unwrap();
    assert_eq!(answer.text, "There are 30000 rows, among them 29999.");
    second.shutdown().await.unwrap();
    drop(second);
    assert_costs_once("workflow", app.path());
}

#[tokio::test]
async fn a_model_reads_a_large_result_whole_and_the_store_has_it_once() {
    let call = Reply::tool_calls([("look", json!({}))]);
    let model = ScriptedModel::start([call, Reply::text("Many.")]).await;
    let model = model.unwrap();
    let app = app(&[
        ("convoke.yaml", "name: desk\n".into()),
        ("agents/clerk.json", clerk(&model.endpoint())),
    ]);
    let runtime = runtime(app.path()).await;
    assert_eq!(runtime.run("Look.").await.unwrap().text, "Many.");
    let requests = model.requests();
    let messages = requests.last().unwrap().body["messages"].as_array();
    let told = messages.unwrap().last().unwrap()["content"].as_str();
    let whole = rows().to_string();
    assert!(told.unwrap() == whole);
    runtime.shutdown().await.unwrap();
    drop(runtime);
    assert_costs_once("agent", app.path());
}
