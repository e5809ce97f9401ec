//! Following a task, what a task is told from outside, and the end of an engine for whoever waits through it.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

#[allow(dead_code, reason = "each test file uses its own part of it")]
mod world;

use std::pin::pin;

use convoke_engine::{EngineError, QuestionAnswer};
use convoke_model::TaskState;
use convoke_store::{
    ArchivedSignal, Batch, Claim, Entry, Imported, LeaseAction, NewEntry, StatusUpdate, Store,
    Viewer,
};
use futures::{Stream, StreamExt};
use serde_json::json;
use uuid::Uuid;
use world::World;

type Read = Result<Entry, EngineError>;

async fn all(events: impl Stream<Item = Read>) -> Vec<Entry> {
    events.map(Result::unwrap).collect().await
}

#[tokio::test]
async fn every_step_is_given_once_and_in_order_and_then_the_stream_ends() {
    let world = World::new();
    let task = world.submit("one pay? two").await;
    // One who was there from the start, and one who comes once all is over.
    let follower = tokio::task::LocalSet::new();
    let early = world.engine.entries(&Viewer::System, task, 0);
    let early = follower.spawn_local(all(early));
    let worker = world.worker();
    let played = follower.run_until(async {
        world
            .answer(task, QuestionAnswer::approve().saying("go on"))
            .await;
        world.until_ended(task).await;
        early.await.unwrap()
    });
    let early = played.await;
    worker.stop().await;
    let late = all(world.engine.entries(&Viewer::System, task, 0)).await;
    assert_eq!(early, late);
    let journal = world
        .store
        .load(&Viewer::System, task, 1)
        .await
        .unwrap()
        .unwrap()
        .entries;
    assert_eq!(early, journal);
    let kinds: Vec<_> = early.iter().map(|entry| entry.kind.as_str()).collect();
    assert_eq!((kinds[0], kinds.last()), ("submitted", Some(&"returned")));
    assert!(kinds.contains(&"answered"), "{kinds:?}");
}

#[tokio::test]
async fn who_comes_back_with_the_last_step_gets_the_rest_and_nothing_twice() {
    let world = World::new();
    let task = world.submit("one two three").await;
    let worker = world.worker();
    world.until_ended(task).await;
    worker.stop().await;
    let whole = all(world.engine.entries(&Viewer::System, task, 0)).await;
    for (index, event) in whole.iter().enumerate() {
        let rest = all(world.engine.entries(&Viewer::System, task, event.seq)).await;
        assert_eq!(rest, whole[index + 1..]);
    }
}

#[tokio::test]
async fn a_task_that_is_not_there_ends_the_stream_with_an_error() {
    let world = World::new();
    let mut events = pin!(world.engine.entries(&Viewer::System, Uuid::nil(), 0));
    let error = events.next().await.unwrap().unwrap_err();
    assert_eq!(error.code(), "task.not_found");
    assert!(events.next().await.is_none());
}

#[tokio::test]
async fn a_signal_of_a_kind_that_nobody_knows_changes_nothing() {
    let old = World::new();
    let task = old.submit("pay? two").await;
    let worker = old.worker();
    old.engine.wait(&Viewer::System, task).await.unwrap();
    worker.stop().await;
    let mut archive = old
        .store
        .take_out(&Viewer::System, task)
        .await
        .unwrap()
        .unwrap();
    let unknown = |kind: &str, payload| ArchivedSignal {
        key: kind.into(),
        kind: kind.into(),
        payload,
        at: archive.record.created_at,
        consumed: false,
    };
    let signals = [
        unknown("cansel", json!({ "reason": "a slip of the pen" })),
        unknown("answer", json!({ "question": "which?", "answer": 7 })),
    ];
    archive.signals.extend(signals);
    // As a store has it once a signal came in.
    archive.record.ready_at = Some(archive.record.created_at);
    let world = World::new();
    let brought_in = world.store.bring_in(archive, None).await.unwrap();
    assert_eq!(brought_in, Imported::Created);
    world.clock.advance(std::time::Duration::from_secs(1));
    let worker = world.worker();
    let taken_in = async {
        loop {
            let loaded = world
                .store
                .load(&Viewer::System, task, u64::MAX)
                .await
                .unwrap()
                .unwrap();
            if loaded.signals.is_empty() && loaded.record.worker.is_none() {
                return loaded.record;
            }
            tokio::task::yield_now().await;
        }
    };
    assert_eq!(taken_in.await.status, TaskState::InputRequired);
    world.answer(task, QuestionAnswer::approve()).await;
    let ended = world.until_ended(task).await;
    assert_eq!(ended.status, TaskState::Completed);
    assert_eq!(world.performed(), ["pay?", "two"]);
    worker.stop().await;
    world.assert_replays(task).await;
}

#[tokio::test]
async fn canceling_is_refused_where_there_is_nothing_to_cancel() {
    let world = World::new();
    let missing = world
        .engine
        .cancel(&Viewer::System, Uuid::nil(), None)
        .await
        .unwrap_err();
    assert_eq!(missing.code(), "task.not_found");
    let task = world.submit("one").await;
    let worker = world.worker();
    world.until_ended(task).await;
    let late = world
        .engine
        .cancel(&Viewer::System, task, None)
        .await
        .unwrap_err();
    assert_eq!(late.code(), "task.ended");
    let asking = world.submit("pay?").await;
    world.engine.wait(&Viewer::System, asking).await.unwrap();
    world
        .engine
        .cancel(&Viewer::System, asking, None)
        .await
        .unwrap();
    assert_eq!(world.until_ended(asking).await.status, TaskState::Canceled);
    // It is what was wanted.
    world
        .engine
        .cancel(&Viewer::System, asking, None)
        .await
        .unwrap();
    worker.stop().await;
}

#[tokio::test]
async fn canceling_again_fails_if_the_first_time_was_too_late() {
    let world = World::new();
    let task = world.submit("one").await;
    let claim = Claim {
        worker: "slow".into(),
        apps: vec!["words".into()],
        except: Vec::new(),
        lease: std::time::Duration::from_secs(10),
        limit: 1,
    };
    let claimed = world.store.claim(claim).await.unwrap().tasks.remove(0);
    world
        .engine
        .cancel(&Viewer::System, task, None)
        .await
        .unwrap();
    // Its worker ends it without having looked into the inbox again.
    let entry = NewEntry {
        at: claimed.record.created_at,
        kind: "returned".into(),
        event: "{}".into(),
        state: r#"{"status":"completed","program":{"words":[],"open":0}}"#.into(),
    };
    let batch = Batch {
        inline_bytes: convoke_store::INLINE_BYTES,
        entries: vec![entry],
        messages: Vec::new(),
        consumed: Vec::new(),
        standing: Some(StatusUpdate {
            status: TaskState::Completed,
            stage: None,
            hold: LeaseAction::Release { wake_in: None },
            result: None,
            error: None,
            progress: true,
        }),
    };
    world
        .store
        .append(claimed.fence(), batch.into())
        .await
        .unwrap();
    let late = world
        .engine
        .cancel(&Viewer::System, task, None)
        .await
        .unwrap_err();
    assert_eq!(late.code(), "task.ended");
}

#[tokio::test]
async fn nobody_can_say_that_nobody_answered() {
    let world = World::new();
    let task = world.submit("pay?").await;
    let worker = world.worker();
    world.engine.wait(&Viewer::System, task).await.unwrap();
    let refused = world
        .engine
        .answer(&Viewer::System, task, None, QuestionAnswer::Expired)
        .await;
    assert_eq!(refused.unwrap_err().code(), "answer.unusable");
    world.answer(task, QuestionAnswer::approve()).await;
    assert_eq!(world.until_ended(task).await.status, TaskState::Completed);
    worker.stop().await;
}

#[tokio::test]
async fn nobody_waits_through_a_closed_engine() {
    let world = World::new();
    let task = world.submit("one").await;
    // Nobody works on it, so that all of these would wait for ever.
    let wait = world.engine.wait(&Viewer::System, task);
    let run = world.engine.run(world.request("two"));
    let mut events = pin!(world.engine.entries(&Viewer::System, task, 0));
    let follow = async {
        let first = events.next().await.unwrap().unwrap();
        assert_eq!(first.kind, "submitted");
        let error = events.next().await.unwrap().unwrap_err();
        assert!(events.next().await.is_none());
        error
    };
    let close = async {
        let waiting = world.engine.clone();
        tokio::task::yield_now().await;
        waiting.close("the lights go out");
        waiting.close("again");
    };
    let closed = world.engine.closed();
    let (wait, run, follow, (), closed) = tokio::join!(wait, run, follow, close, closed);
    for error in [wait.unwrap_err(), run.unwrap_err(), follow, closed] {
        assert_eq!(error.code(), "engine.closed");
        assert!(error.to_string().contains("the lights go out"), "{error}");
    }
    let refused = world.engine.submit(world.request("three")).await;
    assert_eq!(refused.unwrap_err().code(), "engine.closed");
}

#[tokio::test]
async fn a_task_that_stopped_before_the_engine_closed_is_still_returned() {
    let world = World::new();
    let task = world.submit("one").await;
    let worker = world.worker();
    world.until_ended(task).await;
    worker.stop().await;
    world.engine.close("the lights go out");
    let ended = world.engine.wait(&Viewer::System, task).await.unwrap();
    assert_eq!(ended.status, TaskState::Completed);
    let events = all(world.engine.entries(&Viewer::System, task, 0)).await;
    assert_eq!(events.last().unwrap().kind, "returned");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_parent_does_not_fail_because_the_engine_was_closed_before_its_worker() {
    let world = World::new();
    world.hang_on("one");
    let parent = world.submit("a:one two").await;
    let worker = world.worker();
    world.until_performed("one").await;
    let written = world
        .store
        .newest(&Viewer::System, parent)
        .await
        .unwrap()
        .unwrap()
        .0
        .seq;
    world.engine.close("the lights go out");
    // The child's end is told to a parent whose engine is closed.
    world.release();
    world.until_appended(1).await;
    worker.kill();
    let (record, _) = world
        .store
        .newest(&Viewer::System, parent)
        .await
        .unwrap()
        .unwrap();
    assert!(!record.status.is_final(), "{:?}", record.error);
    assert_eq!(record.seq, written);
}
