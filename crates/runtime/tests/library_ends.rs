//! Nobody waits for ever for a runtime that is gone: each way to wait is held while the runtime is shut down or
//! dropped, and ends.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::sync::Arc;

use convoke::{
    AgentFields, EventCursor, IncomingRequest, Live, LiveUpdate, Map, QuestionAnswer, Runtime,
    RuntimeError, RustTool, StoreChoice, TaskEvents, ToolError, Uuid, Value, json, local_user,
};
use convoke_store::Viewer;
use convoke_testkit::{Reply, ScriptedModel};
use tokio::sync::{Notify, mpsc};

/// A runtime whose agent calls a tool that never returns, one task at a time.
async fn stuck() -> (Arc<Runtime>, Arc<Notify>, ScriptedModel) {
    let model = ScriptedModel::start(Reply::tool_calls([("hang", json!({}))])).await;
    let model = model.unwrap();
    let agent: AgentFields = serde_json::from_value(json!({
        "name": "clerk",
        "role": "Waits.",
        "system_prompt": "You are a clerk.",
        "tools": ["rust.hang"],
        "llm_config": { "endpoint": model.endpoint(), "model": "scripted" },
    }))
    .unwrap();
    let hanging = Arc::new(Notify::new());
    let begun = Arc::clone(&hanging);
    let hang = RustTool::new("hang", "Hangs.", move |_, _: Map<String, Value>| {
        begun.notify_one();
        std::future::pending::<Result<(), ToolError>>()
    });
    let runtime = Runtime::builder()
        .agent(agent)
        .tool(hang.read_only())
        .store(StoreChoice::Memory)
        .concurrent_tasks(1)
        .build()
        .await
        .unwrap();
    (Arc::new(runtime), hanging, model)
}

fn said() -> IncomingRequest {
    IncomingRequest::new(local_user(), "Wait.")
}

/// A listener, and what it hears.
fn live() -> (Live, mpsc::UnboundedReceiver<String>) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let live = Live::new(move |heard| {
        if let LiveUpdate::Text(text) = heard {
            let _ = sender.send(text.to_owned());
        }
    });
    (live, receiver)
}

async fn follow(runtime: &Runtime, task: Uuid) -> TaskEvents {
    let events = runtime.follow(local_user(), task, EventCursor::START);
    events.await.unwrap()
}

/// The error that a stream ends with.
async fn end_of(mut events: TaskEvents) -> RuntimeError {
    loop {
        if let Err(error) = events.next().await.unwrap() {
            assert!(
                events.next().await.is_none(),
                "nothing comes after an error"
            );
            return error;
        }
    }
}

fn assert_stopped(error: &RuntimeError, reason: &str) {
    assert_eq!(error.code(), "runtime.worker_stopped", "{error}");
    assert!(error.to_string().contains(reason), "{error}");
}

#[tokio::test]
async fn whoever_waits_while_the_runtime_is_shut_down_is_told() {
    let (runtime, hanging, _model) = stuck().await;
    let (worked_on, mut heard) = live();
    let task = runtime.submit(said().live(worked_on)).await.unwrap();
    hanging.notified().await;
    // There is no room for this one, so that nobody takes it up.
    let (queued, mut unheard) = live();
    let waiting = runtime.submit(said().live(queued)).await.unwrap();
    let (asking, mut asked) = live();
    let user = local_user();
    let events = [
        follow(&runtime, task).await,
        follow(&runtime, waiting).await,
    ];
    let engine = runtime.engine().clone();
    let never = std::future::pending::<Result<(), RuntimeError>>();
    let shutdown = async {
        tokio::task::yield_now().await;
        runtime.shutdown().await
    };
    let (shutdown, again, stopped, wait, other, ask, run, while_working, over_engine) = tokio::join!(
        shutdown,
        async {
            tokio::task::yield_now().await;
            runtime.shutdown().await
        },
        runtime.until_stopped(),
        runtime.wait(user, task),
        runtime.wait(user, waiting),
        runtime.ask(said().live(asking)),
        runtime.run("Wait."),
        runtime.while_working(never),
        engine.wait(&Viewer::System, waiting),
    );
    shutdown.unwrap();
    again.unwrap();
    stopped.unwrap();
    let errors = [
        wait.unwrap_err(),
        other.unwrap_err(),
        ask.unwrap_err(),
        run.unwrap_err(),
        while_working.unwrap_err(),
        over_engine.unwrap_err().into(),
    ];
    for error in errors {
        assert_stopped(&error, "the runtime was shut down");
    }
    for events in events {
        assert_stopped(&end_of(events).await, "the runtime was shut down");
    }
    // Whoever only listens hears that nothing comes any more, though the runtime itself is still there.
    while heard.recv().await.is_some() {}
    while unheard.recv().await.is_some() {}
    while asked.recv().await.is_some() {}
    // What is kept can be looked at; nothing new is taken in.
    assert!(
        !runtime
            .task(user, task)
            .await
            .unwrap()
            .info
            .state
            .is_final()
    );
    assert_stopped(&runtime.submit(said()).await.unwrap_err(), "shut down");
    assert_stopped(&runtime.ask(said()).await.unwrap_err(), "shut down");
    let wait = runtime.wait(user, task).await.unwrap_err();
    assert_stopped(&wait, "the runtime was shut down");
    let answer = runtime
        .answer(user, task, None, QuestionAnswer::approve())
        .await;
    assert_eq!(answer.unwrap_err().code(), "question.none");
}

#[tokio::test]
async fn pending_waits_end_when_the_runtime_is_dropped() {
    let (runtime, hanging, _model) = stuck().await;
    let (worked_on, mut heard) = live();
    let task = runtime.submit(said().live(worked_on)).await.unwrap();
    hanging.notified().await;
    let (queued, mut unheard) = live();
    let waiting = runtime.submit(said().live(queued)).await.unwrap();
    let events = [
        follow(&runtime, task).await,
        follow(&runtime, waiting).await,
    ];
    let engine = runtime.engine().clone();
    let closed = engine.clone();
    let dropping = async {
        tokio::task::yield_now().await;
        drop(runtime);
    };
    let (wait, closed, ()) = tokio::join!(
        engine.wait(&Viewer::System, task),
        closed.closed(),
        dropping
    );
    for error in [wait.unwrap_err(), closed] {
        assert_stopped(&error.into(), "the runtime was dropped");
    }
    for events in events {
        assert_stopped(&end_of(events).await, "the runtime was dropped");
    }
    while heard.recv().await.is_some() {}
    while unheard.recv().await.is_some() {}
}

#[tokio::test]
async fn a_runtime_dropped_before_its_worker_ran_ends_pending_waits() {
    let (runtime, _hanging, _model) = stuck().await;
    let engine = runtime.engine().clone();
    let task = runtime.submit(said()).await.unwrap();
    drop(runtime);
    assert_eq!(
        engine.wait(&Viewer::System, task).await.unwrap_err().code(),
        "engine.closed"
    );
}
