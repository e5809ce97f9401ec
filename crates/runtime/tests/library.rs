//! The library as a program uses it: agents with Rust functions as tools, over memory and SQLite.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use convoke::{
    AgentFields, App, IncomingRequest, QuestionAnswer, Runtime, RuntimeBuilder, RuntimeError,
    RustTool, StoreChoice, TaskState, ToolContext, ToolError, UserId, local_user,
};
use convoke_testkit::{Reply, Script, ScriptedModel};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::sync::Notify;
use uuid::Uuid;

#[derive(Deserialize, JsonSchema)]
struct Add {
    a: i64,
    b: i64,
}

fn add() -> RustTool {
    RustTool::new("add", "Adds.", |_, add: Add| async move {
        Ok::<_, ToolError>(add.a + add.b)
    })
    .read_only()
}

fn clerk(model: &ScriptedModel, tools: &[&str]) -> Value {
    json!({
        "name": "clerk",
        "role": "Answers.",
        "system_prompt": "You are a clerk.",
        "tools": tools,
        "llm_config": { "endpoint": model.endpoint(), "model": "scripted" },
        "limits": { "max_retries": 0, "retry_delay_ms": 1 },
    })
}

fn agent(model: &ScriptedModel, tools: &[&str]) -> AgentFields {
    serde_json::from_value(clerk(model, tools)).unwrap()
}

async fn model(script: impl Into<Script>) -> ScriptedModel {
    ScriptedModel::start(script).await.unwrap()
}

fn call(tool: &str, arguments: Value) -> Reply {
    Reply::tool_calls([(tool, arguments)])
}

/// What the model was last told by a tool.
fn told(model: &ScriptedModel) -> String {
    let requests = model.requests();
    let messages = requests.last().unwrap().body["messages"]
        .as_array()
        .unwrap()
        .clone();
    messages.last().unwrap()["content"]
        .as_str()
        .unwrap()
        .to_owned()
}

fn said(text: &str, conversation: Uuid) -> IncomingRequest {
    IncomingRequest::new(local_user(), text).conversation(conversation)
}

/// An app folder with the clerk, whose leases are short.
fn folder(agent: &Value) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("agents")).unwrap();
    let config = json!({ "name": "office", "limits": { "lease_seconds": 1 } });
    std::fs::write(folder.path().join("convoke.json"), config.to_string()).unwrap();
    std::fs::write(folder.path().join("agents/clerk.json"), agent.to_string()).unwrap();
    folder
}

async fn refusal(builder: RuntimeBuilder) -> RuntimeError {
    builder.build().await.unwrap_err()
}

#[tokio::test]
async fn an_agent_calls_a_function_of_the_program() {
    let model = model([call("add", json!({ "a": 2, "b": 40 })), Reply::text("42.")]).await;
    let agent = agent(&model, &["rust.add"]);
    let runtime = Runtime::builder()
        .agent(agent)
        .tool(add())
        .build()
        .await
        .unwrap();
    let answer = runtime.run("What is 2 + 40?").await.unwrap();
    assert_eq!(answer.text, "42.");
    assert_eq!(answer.tool_calls[0].server, "rust");
    assert_eq!(told(&model), "42");
    assert_eq!(runtime.app().config.name, "clerk");
    runtime.shutdown().await.unwrap();
}

#[tokio::test]
async fn invalid_arguments_are_reported_to_the_model() {
    let model = model([call("add", json!({ "a": "two" })), Reply::text("Sorry.")]).await;
    let agent = agent(&model, &["add"]);
    let runtime = Runtime::builder()
        .agent(agent)
        .tool(add())
        .build()
        .await
        .unwrap();
    assert_eq!(runtime.run("Add.").await.unwrap().text, "Sorry.");
    let told = told(&model);
    assert!(
        told.contains("is not of type") && told.contains("required"),
        "{told}"
    );
    runtime.shutdown().await.unwrap();
}

#[tokio::test]
async fn an_agent_has_the_built_in_tools_that_it_lists() {
    let sum = json!({ "expression": "(3 + 4) * 2.5" });
    let model = model([call("calculate", sum), Reply::text("17.5.")]).await;
    let agent = agent(&model, &["builtin.calculate"]);
    let runtime = Runtime::builder().agent(agent).build().await.unwrap();
    assert_eq!(runtime.run("Calculate.").await.unwrap().text, "17.5.");
    assert_eq!(told(&model), r#"{"result":17.5}"#);
    runtime.shutdown().await.unwrap();
}

#[tokio::test]
async fn many_requests_run_at_once() {
    const TOGETHER: usize = 16;
    let barrier = Arc::new(tokio::sync::Barrier::new(TOGETHER));
    let script = Script::by(|asked| {
        let messages = asked.body["messages"].as_array().unwrap();
        match messages.last().unwrap()["role"].as_str() {
            Some("tool") => Reply::text("Met."),
            _ => call("meet", json!({})),
        }
    });
    let model = model(script).await;
    let meet = RustTool::new("meet", "Waits for all.", move |_, _: Map<String, Value>| {
        let barrier = Arc::clone(&barrier);
        async move {
            barrier.wait().await;
            Ok::<_, ToolError>("all here")
        }
    });
    let runtime = Runtime::builder()
        .agent(agent(&model, &["rust.meet"]))
        .tool(meet)
        .concurrent_tasks(u32::try_from(TOGETHER).unwrap())
        .build()
        .await
        .unwrap();
    let runs = (0..TOGETHER).map(|_| runtime.run("Meet."));
    for answer in futures::future::join_all(runs).await {
        assert_eq!(answer.unwrap().text, "Met.");
    }
    runtime.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_runtime_over_the_same_file_goes_on_with_a_conversation() {
    let data = tempfile::tempdir().unwrap();
    let model = model([Reply::text("Hello, Ada."), Reply::text("Ada.")]).await;
    let conversation = Uuid::from_u128(8);
    for (text, expected) in [("I am Ada.", "Hello, Ada."), ("Who am I?", "Ada.")] {
        let builder = Runtime::builder()
            .agent(agent(&model, &[]))
            .data(data.path());
        let runtime = builder.build().await.unwrap();
        let ended = runtime.ask(said(text, conversation)).await.unwrap();
        assert_eq!(ended.answer.unwrap().text, expected);
        runtime.shutdown().await.unwrap();
    }
    assert!(data.path().join("store.db").exists());
    let shown = model.requests()[1].body["messages"].to_string();
    assert!(
        shown.contains("I am Ada.") && shown.contains("Hello, Ada."),
        "{shown}"
    );
}

#[tokio::test]
async fn a_store_in_memory_forgets() {
    let model = model([Reply::text("Hello, Ada."), Reply::text("I do not know.")]).await;
    for text in ["I am Ada.", "Who am I?"] {
        let builder = Runtime::builder()
            .agent(agent(&model, &[]))
            .store(StoreChoice::Memory);
        let runtime = builder.build().await.unwrap();
        runtime.ask(said(text, Uuid::from_u128(8))).await.unwrap();
        runtime.shutdown().await.unwrap();
    }
    assert!(
        !model.requests()[1].body["messages"]
            .to_string()
            .contains("Ada")
    );
}

#[tokio::test]
async fn what_a_dropped_runtime_left_is_finished_by_the_next_over_the_same_file() {
    let model = model([call("look", json!({})), Reply::text("Seen.")]).await;
    let folder = folder(&clerk(&model, &["rust.look"]));
    let file = folder.path().join("store.db");
    let looks = Arc::new(AtomicUsize::new(0));
    let looking = Arc::new(Notify::new());
    let build = async |stuck: bool| {
        let (looks, looking) = (Arc::clone(&looks), Arc::clone(&looking));
        let look = RustTool::new("look", "Looks.", move |_, _: Map<String, Value>| {
            looks.fetch_add(1, Ordering::SeqCst);
            let looking = Arc::clone(&looking);
            async move {
                if stuck {
                    looking.notify_one();
                    std::future::pending::<()>().await;
                }
                Ok::<_, ToolError>("there")
            }
        });
        Runtime::builder()
            .app(folder.path())
            .tool(look.read_only())
            .store(StoreChoice::Sqlite(file.clone()))
            .build()
            .await
            .unwrap()
    };
    let first = build(true).await;
    let task = first
        .submit(said("Look.", Uuid::from_u128(8)))
        .await
        .unwrap();
    looking.notified().await;
    drop(first);
    let second = build(false).await;
    let ended = second.wait(local_user(), task).await.unwrap();
    assert_eq!(ended.status, TaskState::Completed);
    assert_eq!(ended.answer.unwrap().text, "Seen.");
    // The call was cut off and made again; the thought before it was paid for once.
    assert_eq!(looks.load(Ordering::SeqCst), 2);
    assert_eq!(model.requests().len(), 2);
    second.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_tool_that_may_act_twice_is_not_repeated_after_a_panic() {
    let model = model([call("pay", json!({})), Reply::text("Paid.")]).await;
    let pay = RustTool::new("pay", "Pays.", |_, _: Map<String, Value>| async {
        assert!(std::hint::black_box(false), "the till is stuck");
        Ok::<_, ToolError>(())
    });
    let builder = Runtime::builder()
        .agent(agent(&model, &["rust.pay"]))
        .tool(pay);
    let runtime = builder.build().await.unwrap();
    let error = runtime.run("Pay.").await.unwrap_err();
    assert_eq!(error.code(), "task.waiting", "{error}");
    assert_eq!(model.requests().len(), 1);
    runtime.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_request_under_the_same_key_is_the_same_task() {
    let model = model(Reply::text("Done.")).await;
    let runtime = Runtime::builder()
        .agent(agent(&model, &[]))
        .build()
        .await
        .unwrap();
    let keyed = || said("Do it.", Uuid::from_u128(8)).key("k");
    let first = runtime.submit(keyed()).await.unwrap();
    assert_eq!(runtime.submit(keyed()).await.unwrap(), first);
    runtime.wait(local_user(), first).await.unwrap();
    assert_eq!(model.requests().len(), 1);
    runtime.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_task_that_fails_is_an_error_that_names_it() {
    let model = model(Reply::refusal(400, "no such model")).await;
    let runtime = Runtime::builder()
        .agent(agent(&model, &[]))
        .build()
        .await
        .unwrap();
    let error = runtime.run("Hello.").await.unwrap_err();
    assert_eq!(error.code(), "task.not_completed", "{error}");
    assert!(
        matches!(
            error,
            RuntimeError::NoAnswer {
                state: TaskState::Failed,
                ..
            }
        ),
        "{error}"
    );
    let error = runtime.run("  ").await.unwrap_err();
    assert!(matches!(error, RuntimeError::Invalid(_)), "{error}");
    assert_eq!(error.code(), "request.message_empty");
    let error = runtime
        .wait(local_user(), Uuid::from_u128(1))
        .await
        .unwrap_err();
    assert_eq!(error.code(), "task.not_found");
    runtime.shutdown().await.unwrap();
}

#[tokio::test]
async fn what_cannot_be_run_is_refused_before_anything_runs() {
    let model = model(Reply::text("Hello.")).await;
    let with = |tools: &[&str]| Runtime::builder().agent(agent(&model, tools));
    assert_eq!(
        refusal(Runtime::builder()).await.code(),
        "runtime.nothing_to_run"
    );
    assert_eq!(
        refusal(with(&[]).app("somewhere")).await.code(),
        "runtime.app_and_agents"
    );
    for tools in [["rust.subtract"], ["desk.pay"], ["pay"]] {
        let error = refusal(with(&tools).tool(add())).await;
        assert_eq!(error.code(), "runtime.unknown_tool", "{tools:?}");
        assert!(error.to_string().contains("rust.add"), "{error}");
    }
    assert_eq!(
        refusal(with(&["builtin.shout"])).await.code(),
        "app.builtin_unknown"
    );
    assert_eq!(
        refusal(with(&[]).tool(add()).tool(add())).await.code(),
        "tool.twice"
    );
    assert_eq!(
        refusal(with(&[]).agent(agent(&model, &[]))).await.code(),
        "app.duplicate_name"
    );
    let nowhere = refusal(Runtime::builder().app("/nowhere/at/all")).await;
    assert!(matches!(&nowhere, RuntimeError::App(_)), "{nowhere}");
    assert!(nowhere.to_string().contains("app."), "{nowhere}");
    let file = tempfile::NamedTempFile::new().unwrap();
    let below = StoreChoice::Sqlite(file.path().join("below/store.db"));
    assert_eq!(refusal(with(&[]).store(below)).await.code(), "store.folder");
}

#[tokio::test]
async fn a_tool_cannot_take_the_place_of_a_server() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../apps/todo");
    let data = tempfile::tempdir().unwrap();
    let taking = || add().server("todo");
    let by_folder = Runtime::builder()
        .app(&root)
        .data(data.path())
        .tool(taking());
    let error = refusal(by_folder).await;
    assert!(error.to_string().contains("app.server_reserved"), "{error}");
    let app = App::load_to_run(&root, &|_| Some("/data".into()))
        .unwrap()
        .app;
    let loaded = Runtime::builder().loaded_app(Arc::new(app)).tool(taking());
    assert_eq!(refusal(loaded).await.code(), "app.server_reserved");
}

#[test]
fn a_store_is_named_by_its_address_and_its_password_by_nobody() {
    let base = Path::new("/base");
    let choice = |url| StoreChoice::of_url(url, base);
    assert!(matches!(choice("memory"), Ok(StoreChoice::Memory)));
    for (url, path) in [("a/b.db", "/base/a/b.db"), ("sqlite:///c.db", "/c.db")] {
        assert!(matches!(choice(url), Ok(StoreChoice::Sqlite(found)) if found == Path::new(path)));
    }
    let error = choice("mongo://me:hunter2@host/db").unwrap_err();
    assert_eq!(error.code(), "store.unsupported");
    assert!(error.to_string().contains("mongo://host/db"), "{error}");
    assert!(!error.to_string().contains("hunter2"), "{error}");
}

#[test]
fn outside_tokio_building_is_refused() {
    let mut build = std::pin::pin!(Runtime::builder().build());
    let polled = build.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    let Poll::Ready(Err(error)) = polled else {
        panic!("building did not end");
    };
    assert_eq!(error.code(), "runtime.no_executor");
}

#[tokio::test]
async fn a_rust_tool_gets_its_caller() {
    let spoofed = json!({ "user": Uuid::from_u128(1) });
    let model = model([call("whoami", spoofed), Reply::text("You are you.")]).await;
    let agent = agent(&model, &["rust.whoami"]);
    let whoami = RustTool::with_schema(
        "whoami",
        "Who asks.",
        json!({ "type": "object" }),
        |context: ToolContext, _: Value| async move { Ok(context.caller.user.to_string()) },
    );
    let runtime = Runtime::builder().agent(agent).tool(whoami).build();
    let runtime = runtime.await.unwrap();
    let (user, conversation) = (Uuid::from_u128(0xB0B), Uuid::from_u128(2));
    let incoming = IncomingRequest::new(UserId::from(user), "Who am I?").conversation(conversation);
    runtime.ask(incoming).await.unwrap();
    assert_eq!(told(&model), user.to_string());
    runtime.shutdown().await.unwrap();
}

/// A tool that pays, with leave only, and how often it did.
fn pay() -> (RustTool, Arc<AtomicUsize>) {
    let paid = Arc::new(AtomicUsize::new(0));
    let paying = Arc::clone(&paid);
    let pay = RustTool::new("pay", "Pays.", move |_, sum: Map<String, Value>| {
        paying.fetch_add(1, Ordering::SeqCst);
        async move { Ok::<_, ToolError>(sum) }
    });
    (pay.approval_required(), paid)
}

#[tokio::test]
async fn an_agent_calls_a_function_that_needs_approval_once_somebody_agrees() {
    let model = model([
        call("pay", json!({ "sum": 7 })),
        Reply::text("Paid."),
        call("pay", json!({ "sum": 8 })),
        Reply::text("Not paid."),
    ])
    .await;
    // However the agent lists it.
    for (listed, answer, text) in [
        ("rust.pay", QuestionAnswer::approve(), "Paid."),
        (
            "pay",
            QuestionAnswer::reject().saying("too dear"),
            "Not paid.",
        ),
    ] {
        let (pay, paid) = pay();
        let builder = Runtime::builder().agent(agent(&model, &[listed])).tool(pay);
        let runtime = builder.build().await.unwrap();
        let waiting = runtime
            .ask(IncomingRequest::new(local_user(), "Pay."))
            .await;
        let waiting = waiting.unwrap();
        assert_eq!(waiting.status, TaskState::InputRequired);
        let prompt = &waiting.questions[0].prompt;
        assert!(
            prompt.starts_with(&format!("May I call {listed} with")),
            "{prompt}"
        );
        assert_eq!(paid.load(Ordering::SeqCst), 0);
        let approves = answer == QuestionAnswer::approve();
        let ended = runtime
            .answer(local_user(), waiting.facts.id, None, answer)
            .await
            .unwrap();
        assert_eq!(ended.answer.unwrap().text, text);
        assert_eq!(paid.load(Ordering::SeqCst), usize::from(approves));
        runtime.shutdown().await.unwrap();
    }
}

#[tokio::test]
async fn a_skill_calls_a_function_that_needs_approval_once_somebody_agrees() {
    let model = model(Reply::text("The model was asked.")).await;
    let mut clerk = clerk(&model, &["rust.pay"]);
    clerk["skills"] = json!([{
        "name": "pay", "description": "pays somebody", "sentences": ["pay {who}"],
        "slots": { "who": {} },
        "action": {
            "tool": "rust.pay", "arguments": { "who": "{{ who }}" }, "reply": "{{ who }} is paid.",
        },
    }]);
    let folder = folder(&clerk);
    let (pay, paid) = pay();
    let builder = Runtime::builder().app(folder.path()).tool(pay);
    let runtime = builder.build().await.unwrap();
    let waiting = runtime.ask(said("pay the piper", Uuid::from_u128(8))).await;
    let waiting = waiting.unwrap();
    assert_eq!(waiting.status, TaskState::InputRequired);
    assert_eq!(paid.load(Ordering::SeqCst), 0);
    let approve = QuestionAnswer::approve();
    let ended = runtime.answer(local_user(), waiting.facts.id, None, approve);
    assert_eq!(
        ended.await.unwrap().answer.unwrap().text,
        "the piper is paid."
    );
    assert_eq!(paid.load(Ordering::SeqCst), 1);
    assert!(model.requests().is_empty());
    runtime.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_change_that_does_not_fit_a_function_is_refused_and_changes_nothing() {
    let model = model([call("pay", json!({ "sum": 7 })), Reply::text("Paid.")]).await;
    let schema = json!({
        "type": "object", "properties": { "sum": { "type": "integer", "maximum": 10 } }, "required": ["sum"],
    });
    let paid = Arc::new(AtomicUsize::new(0));
    let paying = Arc::clone(&paid);
    let pay = RustTool::with_schema(
        "pay",
        "Pays.",
        schema,
        move |_, given: Map<String, Value>| {
            let sum = given["sum"].as_u64().unwrap();
            paying.fetch_add(usize::try_from(sum).unwrap(), Ordering::SeqCst);
            async move { Ok::<_, ToolError>(given) }
        },
    );
    let builder = Runtime::builder().agent(agent(&model, &["rust.pay"]));
    let runtime = builder.tool(pay.approval_required()).build().await.unwrap();
    let asked = runtime
        .ask(IncomingRequest::new(local_user(), "Pay."))
        .await;
    let task = asked.unwrap().facts.id;
    for (value, code) in [
        (json!({ "smu": 3 }), "answer.argument_unknown"),
        (json!({ "sum": 3, "to": "me" }), "answer.argument_unknown"),
        (json!({ "sum": "much" }), "answer.argument_type"),
        (json!({ "sum": 11 }), "answer.argument_type"),
        (json!({}), "answer.argument_type"),
        (
            json!({ "state_updates": { "smu": 3 } }),
            "answer.argument_unknown",
        ),
        (json!("much"), "answer.unusable"),
    ] {
        let answer = QuestionAnswer::modify(value.clone());
        let refused = runtime.answer(local_user(), task, None, answer).await;
        assert_eq!(refused.unwrap_err().code(), code, "{value}");
        let state = runtime.task(local_user(), task).await.unwrap().info.state;
        assert_eq!(state, TaskState::InputRequired, "{value}");
    }
    assert_eq!(paid.load(Ordering::SeqCst), 0);
    let answer = QuestionAnswer::modify(json!({ "state_updates": { "sum": 3 } }));
    let ended = runtime
        .answer(local_user(), task, None, answer)
        .await
        .unwrap();
    assert_eq!(ended.status, TaskState::Completed);
    assert_eq!(paid.load(Ordering::SeqCst), 3);
    runtime.shutdown().await.unwrap();
}
