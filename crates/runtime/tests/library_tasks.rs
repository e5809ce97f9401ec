//! What a program does with its users' tasks over the library alone: look, list, follow, answer, cancel, fork,
//! each for one user. No model is asked: the app is a workflow over functions of the program.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use convoke::{
    EventCursor, ForkPoint, IncomingRequest, MAX_TASKS_PER_PAGE, Map, QuestionAnswer, Runtime,
    RustTool, StoreChoice, TaskEvent, TaskEventKind, TaskQuery, TaskState, ToolContext, ToolError,
    UserId, Uuid, Value, json,
};
use tempfile::TempDir;

const ANN: UserId = UserId(Uuid::from_u128(0xA));
const BEN: UserId = UserId(Uuid::from_u128(0xB));

/// An app that looks up a price, pays it, and says so.
fn app(answer: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), answer);
    folder
}

fn write(folder: &Path, answer: &str) {
    let workflow = json!({
        "name": "main", "entry_point": "look", "state": { "sum": "set" },
        "nodes": {
            "look": { "type": "tool", "tool": "shop.price" },
            "sum": { "type": "condition", "expression": "sum or look" },
            "pay": { "type": "tool", "tool": "shop.pay", "arguments": { "sum": "{{ sum }}" } },
        },
        "edges": [{ "from": "look", "to": "sum" }, { "from": "sum", "to": "pay" }],
        "answer": answer,
    });
    let clerk = json!({ "name": "clerk", "role": "Pays.", "system_prompt": "You pay." });
    for part in ["workflows", "agents"] {
        std::fs::create_dir_all(folder.join(part)).unwrap();
    }
    std::fs::write(folder.join("agents/clerk.json"), clerk.to_string()).unwrap();
    std::fs::write(folder.join("workflows/main.json"), workflow.to_string()).unwrap();
    let config = json!({ "name": "till", "limits": { "lease_seconds": 1 } });
    std::fs::write(folder.join("convoke.json"), config.to_string()).unwrap();
}

/// What the tools of the app did.
#[derive(Default)]
struct Shop {
    looked: AtomicUsize,
    paid: AtomicUsize,
}

impl Shop {
    fn tools(self: &Arc<Self>) -> [RustTool; 2] {
        let (looking, paying) = (Arc::clone(self), Arc::clone(self));
        let price = move |_: ToolContext, _: Map<String, Value>| {
            looking.looked.fetch_add(1, Ordering::SeqCst);
            async { Ok::<_, ToolError>(200) }
        };
        let pay = move |_: ToolContext, arguments: Map<String, Value>| {
            paying.paid.fetch_add(1, Ordering::SeqCst);
            async move { Ok::<_, ToolError>(arguments["sum"].clone()) }
        };
        let nothing = json!({ "type": "object" });
        let dear = |arguments: &Map<String, Value>| arguments["sum"].as_i64() > Some(100);
        [
            RustTool::with_schema("price", "Says what it costs.", nothing.clone(), price)
                .server("shop")
                .read_only(),
            RustTool::with_schema("pay", "Pays.", nothing, pay)
                .server("shop")
                .approval_required_if(dear),
        ]
    }

    fn paid(&self) -> usize {
        self.paid.load(Ordering::SeqCst)
    }
}

async fn runtime(folder: &Path, shop: &Arc<Shop>, store: StoreChoice) -> Runtime {
    let mut builder = Runtime::builder().app(folder).store(store);
    for tool in shop.tools() {
        builder = builder.tool(tool);
    }
    builder.build().await.unwrap()
}

/// A runtime over memory, and the folder that it needs.
async fn till() -> (Runtime, Arc<Shop>, TempDir) {
    let (folder, shop) = (app("Paid {{ pay }}."), Arc::default());
    let runtime = runtime(folder.path(), &shop, StoreChoice::Memory).await;
    (runtime, shop, folder)
}

async fn until_asked(runtime: &Runtime, user: UserId, incoming: IncomingRequest) -> Uuid {
    let task = runtime.submit(incoming).await.unwrap();
    let waiting = runtime.wait(user, task).await.unwrap();
    assert_eq!(waiting.status, TaskState::InputRequired);
    task
}

async fn rest(runtime: &Runtime, task: Uuid, after: EventCursor) -> Vec<TaskEvent> {
    let mut events = runtime.follow(ANN, task, after).await.unwrap();
    let mut all = Vec::new();
    while let Some(event) = events.next_event().await {
        all.push(event.unwrap());
    }
    all
}

#[tokio::test]
async fn a_program_follows_answers_and_looks_at_a_task() {
    let (runtime, shop, _folder) = till().await;
    let task = runtime
        .submit(IncomingRequest::new(ANN, "Pay."))
        .await
        .unwrap();
    let mut events = runtime.follow(ANN, task, EventCursor::START).await.unwrap();
    let mut seen = Vec::new();
    let question = loop {
        let event = events.next_event().await.unwrap().unwrap();
        seen.push(event.clone());
        if let TaskEventKind::QuestionAsked { question } = event.kind {
            break question;
        }
    };
    assert_eq!(question.prompt, "May I call shop.pay with sum 200?");
    assert_eq!(shop.paid(), 0, "nothing is paid before somebody agrees");
    let stands = runtime.task(ANN, task).await.unwrap();
    assert_eq!(stands.info.state, TaskState::InputRequired);
    assert_eq!(stands.questions, std::slice::from_ref(&question));
    let said = QuestionAnswer::approve().saying("it is worth it");
    let ended = runtime.answer(ANN, task, Some(question.id), said.clone());
    assert_eq!(ended.await.unwrap().answer.unwrap().text, "Paid 200.");
    while let Some(event) = events.next_event().await {
        seen.push(event.unwrap());
    }
    let answered = TaskEventKind::QuestionAnswered {
        question: question.id,
        answer: said,
    };
    assert!(seen.iter().any(|event| event.kind == answered));
    assert_eq!(seen, rest(&runtime, task, EventCursor::START).await);
    let [.., answer, last] = seen.as_slice() else {
        panic!("{seen:?}");
    };
    let TaskEventKind::Answer { answer } = &answer.kind else {
        panic!("{answer:?}");
    };
    assert_eq!(answer.text, "Paid 200.");
    let (state, error) = (TaskState::Completed, None);
    assert_eq!(last.kind, TaskEventKind::Ended { state, error });
    // Whoever comes back misses nothing and gets nothing twice.
    let middle = seen.len() / 2;
    let later = rest(&runtime, task, seen[middle].cursor).await;
    assert_eq!(later, seen[middle + 1..]);
    let stands = runtime.task(ANN, task).await.unwrap();
    assert_eq!(stands.cursor.step(), last.cursor.step());
    assert_eq!(stands.answer.unwrap().text, "Paid 200.");
    let beyond = EventCursor::after(last.cursor.step() + 1);
    let refused = runtime.follow(ANN, task, beyond).await.unwrap_err();
    assert_eq!(refused.code(), "task.no_such_step");
    runtime.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_program_lists_tasks_by_state_conversation_and_tag_page_by_page() {
    let (runtime, _shop, _folder) = till().await;
    let conversation = Uuid::from_u128(9);
    let mut tasks = Vec::new();
    for number in 0..5 {
        let incoming =
            IncomingRequest::new(ANN, "Pay.").tags([format!("n{number}"), "shop".into()]);
        tasks.push(until_asked(&runtime, ANN, incoming).await);
    }
    let within = IncomingRequest::new(ANN, "Pay.").conversation(conversation);
    tasks.push(until_asked(&runtime, ANN, within).await);
    until_asked(
        &runtime,
        BEN,
        IncomingRequest::new(BEN, "Pay.").tags(["shop"]),
    )
    .await;
    let answered = runtime.answer(ANN, tasks[0], None, QuestionAnswer::approve());
    assert_eq!(answered.await.unwrap().status, TaskState::Completed);

    let ids = async |query: TaskQuery| {
        let page = runtime.tasks(ANN, query).await.unwrap();
        let ids: Vec<Uuid> = page.tasks.iter().map(|task| task.id).collect();
        (ids, page.next)
    };
    let newest_first: Vec<Uuid> = tasks.iter().rev().copied().collect();
    assert_eq!(ids(TaskQuery::new()).await, (newest_first.clone(), None));
    let completed = TaskQuery::new().state(TaskState::Completed);
    assert_eq!(ids(completed.clone()).await.0, [tasks[0]]);
    let either = completed.state(TaskState::InputRequired);
    assert_eq!(ids(either).await.0.len(), 6);
    let talked = TaskQuery::new().conversation(conversation);
    assert_eq!(ids(talked).await.0, [tasks[5]]);
    assert_eq!(ids(TaskQuery::new().tag("n3")).await.0, [tasks[3]]);
    assert_eq!(ids(TaskQuery::new().tag("shop")).await.0.len(), 5);

    let (first, next) = ids(TaskQuery::new().limit(4)).await;
    assert_eq!(first, newest_first[..4]);
    // What comes in between moves nothing.
    until_asked(&runtime, ANN, IncomingRequest::new(ANN, "Pay.")).await;
    let cursor = next.unwrap().to_string().parse().unwrap();
    let second = ids(TaskQuery::new().limit(4).after(cursor)).await;
    assert_eq!(second, (newest_first[4..].to_vec(), None));
    for limit in [0, MAX_TASKS_PER_PAGE + 1] {
        let refused = runtime.tasks(ANN, TaskQuery::new().limit(limit)).await;
        assert_eq!(refused.unwrap_err().code(), "tasks.limit");
    }
    runtime.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_program_cancels_a_task() {
    let (runtime, shop, _folder) = till().await;
    let task = until_asked(&runtime, ANN, IncomingRequest::new(ANN, "Pay.")).await;
    let endless = "no ".repeat(100_000);
    let refused = runtime.cancel(ANN, task, Some(&endless)).await;
    assert_eq!(refused.unwrap_err().code(), "cancel.reason_long");
    let reason = Some("changed my mind");
    runtime.cancel(ANN, task, reason).await.unwrap();
    let last = rest(&runtime, task, EventCursor::START)
        .await
        .pop()
        .unwrap();
    let canceled = TaskEventKind::Ended {
        state: TaskState::Canceled,
        error: reason.map(str::to_owned),
    };
    assert_eq!(last.kind, canceled);
    assert_eq!(shop.paid(), 0);
    runtime.cancel(ANN, task, None).await.unwrap();
    let done = until_asked(&runtime, ANN, IncomingRequest::new(ANN, "Pay.")).await;
    let answered = runtime.answer(ANN, done, None, QuestionAnswer::approve());
    assert_eq!(answered.await.unwrap().status, TaskState::Completed);
    let late = runtime.cancel(ANN, done, None).await.unwrap_err();
    assert_eq!(late.code(), "task.ended");
    runtime.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_program_forks_a_task_at_a_step_with_another_state() {
    let (runtime, shop, _folder) = till().await;
    let task = until_asked(&runtime, ANN, IncomingRequest::new(ANN, "Pay.")).await;
    let at = runtime.task(ANN, task).await.unwrap().cursor;
    let point = ForkPoint::at(at).set("sum", 7);
    let fork = runtime.fork(ANN, task, point).await.unwrap();
    // Seven needs nobody's approval.
    let ended = runtime.wait(ANN, fork).await.unwrap();
    assert_eq!(ended.answer.unwrap().text, "Paid 7.");
    let first = rest(&runtime, fork, EventCursor::START).await.remove(0);
    assert_eq!(first.kind, TaskEventKind::Forked { from: task, at });
    assert_eq!(shop.looked.load(Ordering::SeqCst), 1);
    let beyond = ForkPoint::at(EventCursor::after(99));
    let refused = runtime.fork(ANN, task, beyond).await.unwrap_err();
    assert_eq!(refused.code(), "task.no_such_step");
    runtime.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_fork_continues_with_its_tasks_edition() {
    let (folder, shop) = (app("Paid {{ pay }}."), Arc::default());
    let store = || StoreChoice::Sqlite(folder.path().join("store.db"));
    let first = runtime(folder.path(), &shop, store()).await;
    let task = until_asked(&first, ANN, IncomingRequest::new(ANN, "Pay.")).await;
    first.shutdown().await.unwrap();
    drop(first);
    write(folder.path(), "Gone: {{ pay }}.");
    let second = runtime(folder.path(), &shop, store()).await;
    let at = second.task(ANN, task).await.unwrap().cursor;
    let fork = second.fork(ANN, task, ForkPoint::at(at).set("sum", 7));
    let ended = second.wait(ANN, fork.await.unwrap()).await.unwrap();
    assert_eq!(ended.answer.unwrap().text, "Paid 7.");
    let new = second
        .submit(IncomingRequest::new(ANN, "Pay."))
        .await
        .unwrap();
    second.wait(ANN, new).await.unwrap();
    let ended = second
        .answer(ANN, new, None, QuestionAnswer::approve())
        .await;
    assert_eq!(ended.unwrap().answer.unwrap().text, "Gone: 200.");
    second.shutdown().await.unwrap();
}

#[tokio::test]
async fn the_task_of_somebody_else_or_of_another_app_is_not_there() {
    let (till, _, folder) = till().await;
    let config = json!({ "name": "other" });
    let other = app("Paid {{ pay }}.");
    std::fs::write(other.path().join("convoke.json"), config.to_string()).unwrap();
    let shared = StoreChoice::Opened(Arc::clone(till.store()));
    let other = runtime(other.path(), &Arc::default(), shared).await;
    let task = until_asked(&till, ANN, IncomingRequest::new(ANN, "Pay.")).await;
    let missing = Uuid::from_u128(1);
    for (runtime, user, task) in [
        (&till, BEN, task),
        (&other, ANN, task),
        (&till, ANN, missing),
    ] {
        let approve = QuestionAnswer::approve();
        let errors = [
            runtime.task(user, task).await.unwrap_err(),
            runtime.wait(user, task).await.unwrap_err(),
            runtime.cancel(user, task, None).await.unwrap_err(),
            runtime.answer(user, task, None, approve).await.unwrap_err(),
            runtime
                .follow(user, task, EventCursor::START)
                .await
                .unwrap_err(),
            runtime
                .fork(user, task, ForkPoint::at(EventCursor::after(1)))
                .await
                .unwrap_err(),
        ];
        for error in errors {
            assert_eq!(error.code(), "task.not_found");
            assert_eq!(error.to_string(), format!("there is no task {task}"));
        }
    }
    for (runtime, user) in [(&till, BEN), (&other, ANN)] {
        let listed = runtime.tasks(user, TaskQuery::new()).await.unwrap();
        assert!(listed.tasks.is_empty());
    }
    let stands = till.task(ANN, task).await.unwrap();
    assert_eq!(stands.info.state, TaskState::InputRequired);
    other.shutdown().await.unwrap();
    till.shutdown().await.unwrap();
    drop(folder);
}
