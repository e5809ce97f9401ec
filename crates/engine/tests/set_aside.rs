//! Tasks that nobody can work on: each is set aside with its cause, and all others go on.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

#[allow(dead_code, reason = "each test file uses its own part of it")]
mod world;

use std::sync::Arc;
use std::time::Duration;

use convoke_engine::Options;
use convoke_model::{Clock, TaskState};
use convoke_store::{Batch, NewEntry, Store};
use world::{WordEditions, World};

#[tokio::test]
async fn a_task_whose_app_cannot_be_opened_is_set_aside_and_the_others_go_on() {
    for (definition, cause) in [
        ("broken", "set aside: it is broken"),
        ("panics", "set aside: opening it panicked"),
    ] {
        let world = World::new();
        let broken = world.edition(definition).submit(world.request("two")).await;
        let broken = broken.unwrap().id();
        let shelf = Arc::new(WordEditions::default());
        let worker = world.worker_of(&world.engine, Some(shelf));
        let ended = world.until_ended(broken).await;
        assert_eq!(ended.status, TaskState::Failed);
        assert_eq!(ended.error.as_deref(), Some(cause));
        let other = world.submit("three").await;
        assert_eq!(world.until_ended(other).await.status, TaskState::Completed);
        worker.stop().await;
        assert_eq!(world.performed(), ["three"]);
        world.assert_replays(broken).await;
    }
}

#[tokio::test]
async fn claims_are_counted_before_the_app_of_a_task_is_opened() {
    let world = World::new();
    // Its app takes every worker that opens it with it, as an overflow of the stack does.
    let deadly = world.edition("broken").submit(world.request("one")).await;
    let deadly = deadly.unwrap().id();
    let max_claims = Options::for_worker("any").max_claims;
    for _ in 0..max_claims {
        world.claim_and_forget().await;
        world.clock.advance(Duration::from_mins(1));
    }
    let shelf = Arc::new(WordEditions::default());
    let worker = world.worker_of(&world.engine, Some(shelf.clone()));
    let ended = world.until_ended(deadly).await;
    assert_eq!(ended.status, TaskState::Failed);
    assert!(ended.error.unwrap().contains("poisoned"));
    assert!(shelf.opened.lock().unwrap().is_empty(), "nobody opened it");
    worker.stop().await;
    world.assert_replays(deadly).await;
}

#[tokio::test]
async fn a_task_whose_state_cannot_be_read_is_set_aside_and_the_others_go_on() {
    let world = World::new();
    let unreadable = world.submit("one").await;
    let claimed = world.claim_and_forget().await.remove(0);
    // What another version may have written: JSON, and no state of this program.
    let batch = Batch {
        entries: vec![NewEntry {
            at: world.clock.now(),
            kind: "signalled".into(),
            event: r#"{"type":"signalled","kind":"x","payload":null}"#.into(),
            state: r#"{"status":"working","open":"no list"}"#.into(),
        }],
        messages: Vec::new(),
        consumed: Vec::new(),
        standing: None,
        inline_bytes: convoke_store::INLINE_BYTES,
    };
    world
        .store
        .append(claimed.fence(), batch.into())
        .await
        .unwrap();
    world.clock.advance(Duration::from_mins(1));
    let other = world.submit("two").await;
    let worker = world.worker();
    assert_eq!(world.until_ended(other).await.status, TaskState::Completed);
    let ended = world.until_ended(unreadable).await;
    assert_eq!(ended.status, TaskState::Failed);
    assert!(ended.error.unwrap().starts_with("set aside: "));
    worker.stop().await;
    assert_eq!(world.performed(), ["two"]);
}
