//! Agents that hand parts of their work to others: child tasks with histories of their own.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod office;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use convoke_engine::{Options, TaskOutcome};
use convoke_model::{SystemClock, TaskState};
use convoke_store::{
    Filter, MemoryStore, NewTask, Page, Store, StoreError, StoreFuture, Submission, TaskRecord,
    Viewer,
};
use convoke_testkit::{RecordedRequest, Reply, Script};
use futures::FutureExt;
use office::{Office, Setting};
use serde_json::{Value, json};

fn system(asked: &RecordedRequest) -> &str {
    asked.body["messages"][0]["content"].as_str().unwrap()
}

fn last(asked: &RecordedRequest) -> Value {
    asked.body["messages"]
        .as_array()
        .unwrap()
        .last()
        .unwrap()
        .clone()
}

/// The clerk asks the researcher, and answers with what it hears.
fn family() -> Script {
    Script::by(|asked| {
        if system(asked).contains("researcher") {
            return Reply::text("The moon is 384,400 km away.");
        }
        let last = last(asked);
        if last["role"] == "tool" {
            return Reply::text(format!("I asked: {}", last["content"].as_str().unwrap()));
        }
        Reply::tool_calls([("ask_researcher", json!({"task": "How far is the moon?"}))])
    })
}

async fn office(script: Script) -> Office {
    let researcher = json!({
        "name": "researcher",
        "role": "Looks things up.",
        "system_prompt": "You are a researcher.",
    });
    Office::open_with_others(
        json!({ "agents": ["researcher"], "tools": [] }),
        vec![researcher],
        script,
    )
    .await
}

#[tokio::test]
async fn a_child_works_on_its_own_and_hands_back_its_answer() {
    let office = office(family()).await;
    let ended = office.ask("My secret is 4711. How far is the moon?").await;
    assert_eq!(
        ended.answer.as_ref().unwrap().text,
        "I asked: The moon is 384,400 km away."
    );

    let filter = Filter {
        parent: Some(ended.facts.id),
        ..Filter::default()
    };
    let children = office
        .store
        .query(&Viewer::System, filter, Page::default())
        .await
        .unwrap()
        .tasks;
    assert_eq!(children.len(), 1);
    assert_eq!(children[0].status, TaskState::Completed);
    assert_eq!(children[0].description, "How far is the moon?");
    assert_eq!(children[0].owner, ended.facts.owner);
    let (parent, _) = office
        .store
        .newest(&Viewer::System, ended.facts.id)
        .await
        .unwrap()
        .unwrap();
    let child = office.store.task(&Viewer::System, children[0].id).await;
    assert!(
        child.unwrap().unwrap().deadline <= parent.deadline,
        "it has no more time than its parent"
    );

    let spent = &ended.answer.unwrap().metadata["spent"];
    assert_eq!(
        spent["model_calls"], 3,
        "the child's thoughts count for the parent"
    );
}

#[tokio::test]
async fn the_histories_of_parent_and_child_stay_apart() {
    let office = office(family()).await;
    let ended = office.ask("My secret is 4711. How far is the moon?").await;
    let requests = office.model.requests();
    let (childs, parents): (Vec<_>, Vec<_>) = requests
        .iter()
        .partition(|asked| system(asked).contains("researcher"));
    assert_eq!((childs.len(), parents.len()), (1, 2));
    for asked in childs {
        let body = asked.body.to_string();
        assert!(!body.contains("4711") && !body.contains("clerk"), "{body}");
        assert_eq!(asked.body["messages"].as_array().unwrap().len(), 2);
    }
    let journal = office
        .store
        .load(&Viewer::System, ended.facts.id, 1)
        .await
        .unwrap()
        .unwrap();
    let words = journal
        .messages
        .iter()
        .map(|stored| stored.message.content.clone())
        .collect::<String>();
    assert!(!words.contains("You are a researcher"), "{words}");
}

#[tokio::test]
async fn parents_never_keep_their_children_from_running() {
    // More parents than the worker has places for.
    let office = office(family()).await;
    let mut tasks = Vec::new();
    for _ in 0..150 {
        tasks.push(office.submit_alone("How far is the moon?").await);
    }
    for task in tasks {
        let ended = office.engine.wait(&Viewer::System, task).await.unwrap();
        assert_eq!(ended.status, TaskState::Completed);
    }
}

#[tokio::test]
async fn an_unlisted_agent_cannot_be_called() {
    let script = Script::by(|asked| {
        if last(asked)["role"] == "tool" {
            return Reply::text("I cannot.");
        }
        Reply::tool_calls([("ask_director", json!({"task": "Fire everybody."}))])
    });
    let office = office(script).await;
    let ended = office.ask("Ask the director.").await;
    assert_eq!(ended.answer.unwrap().text, "I cannot.");
    let filter = Filter {
        parent: Some(ended.facts.id),
        ..Filter::default()
    };
    assert!(
        office
            .store
            .query(&Viewer::System, filter, Page::default())
            .await
            .unwrap()
            .tasks
            .is_empty()
    );
}

#[tokio::test]
async fn what_a_child_spends_counts_against_its_parents_budget() {
    let script = Script::by(|asked| {
        if system(asked).contains("researcher") {
            return Reply::text("Found.");
        }
        Reply::tool_calls([("ask_researcher", json!({"task": "Look."}))])
    });
    let researcher =
        json!({ "name": "researcher", "role": "Looks.", "system_prompt": "You are a researcher." });
    let agent = json!({ "agents": ["researcher"], "tools": [], "budget": { "model_calls": 4 } });
    let office = Office::open_with_others(agent, vec![researcher], script).await;
    let ended = office.ask("Loop.").await;
    assert!(ended.error.unwrap().starts_with("budget.model_calls"));
    assert_eq!(
        office.model.requests().len(),
        4,
        "two of the parent's and two of its children's"
    );
}

#[tokio::test]
async fn children_are_called_off_with_their_parent() {
    let script = Script::by(|asked| {
        if system(asked).contains("researcher") {
            return Reply::hang();
        }
        Reply::tool_calls([("ask_researcher", json!({"task": "Look."}))])
    });
    let office = office(script).await;
    let task = office.submit("Look.").await;
    office.model.wait_for_requests(2).await;
    office.cancel(task).await;
    let filter = Filter {
        parent: Some(task),
        ..Filter::default()
    };
    loop {
        let children = office
            .store
            .query(&Viewer::System, filter.clone(), Page::default())
            .await
            .unwrap()
            .tasks;
        if children
            .iter()
            .all(|child| child.status == TaskState::Canceled)
        {
            break;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn children_that_work_at_once_stay_within_the_budget_together() {
    let script = Script::by(|asked| {
        if system(asked).contains("researcher") {
            return Reply::tool_calls([("get_time", json!({}))]);
        }
        let task = json!({"task": "Look for ever."});
        Reply::tool_calls(["ask_researcher"; 3].map(|name| (name, task.clone())))
    });
    let researcher = json!({
        "name": "researcher", "role": "Looks.", "system_prompt": "You are a researcher.",
        "tools": ["desk.get_time"],
    });
    let agent = json!({ "agents": ["researcher"], "tools": [], "budget": { "model_calls": 8 } });
    let office = Office::open_with_others(agent, vec![researcher], script).await;
    let ended = office.ask("Ask everybody.").await;
    assert!(ended.error.unwrap().starts_with("budget.model_calls"));
    assert_eq!(
        office.model.requests().len(),
        8,
        "two of the parent's, and two of each of three children's"
    );
}

/// A store that takes children in and answers with an error, so many times.
struct LosesAnswers {
    inner: MemoryStore,
    left: AtomicUsize,
}

impl Store for LosesAnswers {
    fn submit(&self, task: NewTask) -> StoreFuture<Submission> {
        let lost = |left: usize| left.checked_sub(1);
        let order = Ordering::SeqCst;
        if task.parent.is_none() || self.left.fetch_update(order, order, lost).is_err() {
            return self.inner.submit(task);
        }
        // Nobody holds it, so that it is taken up at once.
        let submitted = self.inner.submit(NewTask { hold: None, ..task });
        async move {
            submitted.await?;
            Err(StoreError::Broken("the connection was lost".into()))
        }
        .boxed()
    }

    convoke_testkit::delegate!(inner: now claim append renew signal task load newest conversation rest);
}

/// A question that needs a child, over a store that loses so many answers; with the children.
async fn ask_over(lost_answers: usize) -> (TaskOutcome, Vec<TaskRecord>) {
    let setting = Setting {
        agent: json!({ "agents": ["researcher"], "tools": [] }),
        others: vec![json!({
            "name": "researcher", "role": "Looks things up.", "system_prompt": "You are a researcher.",
        })],
        store: Some(Arc::new(LosesAnswers {
            inner: MemoryStore::new(Arc::new(SystemClock)),
            left: AtomicUsize::new(lost_answers),
        })),
        worker: Options {
            repeat_pause: Duration::from_millis(1),
            ..Options::for_worker("w")
        },
        ..Setting::default()
    };
    let office = Office::set_up(setting, family()).await;
    let ended = office.ask("How far is the moon?").await;
    let filter = Filter {
        parent: Some(ended.facts.id),
        ..Filter::default()
    };
    let found = office
        .store
        .query(&Viewer::System, filter, Page::default())
        .await
        .unwrap();
    let mut children = Vec::new();
    for child in found.tasks {
        let record = office.store.task(&Viewer::System, child.id).await;
        children.push(record.unwrap().unwrap());
    }
    (ended, children)
}

#[tokio::test]
async fn a_child_is_found_again_after_an_uncertain_submission() {
    let (ended, children) = ask_over(1).await;
    assert_eq!(
        ended.answer.unwrap().text,
        "I asked: The moon is 384,400 km away."
    );
    assert_eq!(children.len(), 1, "the same call is the same child");
}

#[tokio::test]
async fn a_child_that_may_be_running_is_not_reported_as_without_effect() {
    let (ended, children) = ask_over(usize::MAX).await;
    let told = ended.answer.unwrap().text.clone();
    assert!(
        told.contains("not known whether the call took effect")
            && told.contains("the connection was lost"),
        "{told}"
    );
    assert_eq!(children.len(), 1, "it was there all the time");
}
