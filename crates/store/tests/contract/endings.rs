//! What a store does with tasks that cannot go on: children of ended tasks, and tasks that cannot be read.

use std::sync::Arc;
use std::time::Duration;

use convoke_model::TaskState;
use convoke_store::{Filter, LeaseAction, NewMessage, Page, Store, StoreError, Viewer};
use uuid::Uuid;

use crate::world::{World, standing};

async fn signals(store: &dyn Store, task: Uuid) -> Vec<(String, String)> {
    let loaded = store.load(&Viewer::System, task, 1).await.unwrap().unwrap();
    let told = loaded.signals.into_iter().map(|signal| {
        let reason = signal.payload["reason"].as_str().unwrap().to_owned();
        (signal.kind, reason)
    });
    told.collect()
}

fn called_off() -> Vec<(String, String)> {
    let reason = "the task that asked for it has ended";
    vec![("cancel".into(), reason.into())]
}

pub(crate) async fn a_task_that_ends_calls_off_its_children(world: &World) {
    let store = &*world.store;
    let parent = world.submit(world.task(1)).await;
    let child = |id| {
        let mut child = world.task(id);
        child.parent = Some(Uuid::from_u128(1));
        child
    };
    let held = world.claim_one("w1").await;
    for id in [2, 3] {
        world.submit(child(id)).await;
    }
    let nephew = {
        let mut nephew = world.task(4);
        nephew.parent = Some(Uuid::from_u128(99));
        world.submit(nephew).await
    };
    // One of them has ended before, and one waits for a person.
    let ended = world.claim_one("w2").await;
    let done = world.batch(TaskState::Completed);
    store.append(ended.fence(), done.into()).await.unwrap();
    let waiting = world.claim_one("w2").await;
    assert_eq!(waiting.record.id, Uuid::from_u128(3));
    let pause = world.pause(None);
    store.append(waiting.fence(), pause.into()).await.unwrap();

    let end = world.batch(TaskState::Canceled);
    store.append(held.fence(), end.into()).await.unwrap();
    assert_eq!(signals(store, Uuid::from_u128(3)).await, called_off());
    assert!(signals(store, Uuid::from_u128(2)).await.is_empty());
    assert!(signals(store, nephew).await.is_empty());
    assert!(signals(store, parent).await.is_empty());
    let woken = world.claim("w3", 10).await;
    let woken: Vec<_> = woken.iter().map(|claimed| claimed.record.id).collect();
    assert!(woken.contains(&Uuid::from_u128(3)), "it is told at once");
}

pub(crate) async fn a_child_of_an_ended_task_is_called_off_from_the_start(world: &World) {
    world.submit(world.task(1)).await;
    let held = world.claim_one("w1").await;
    let end = world.batch(TaskState::Failed);
    world.store.append(held.fence(), end.into()).await.unwrap();
    let mut late = world.task(2);
    late.parent = Some(Uuid::from_u128(1));
    let late = world.submit(late).await;
    assert_eq!(signals(&*world.store, late).await, called_off());
}

pub(crate) async fn a_task_that_cannot_be_read_is_set_aside_and_the_others_go_on(world: &World) {
    let store = &*world.store;
    world.submit(world.task(1)).await;
    let mut unreadable = world.task(2);
    unreadable.messages.push(NewMessage {
        blobs: Vec::new(),
        message: "{".into(),
        in_conversation: false,
    });
    world.submit(unreadable).await;
    let mut misfit = world.task(3);
    misfit.entry.event = "no JSON".into();
    world.submit(misfit).await;
    world.submit(world.task(4)).await;

    let claimed = world.claim("w1", 10).await;
    let claimed: Vec<_> = claimed.iter().map(|claimed| claimed.record.id).collect();
    assert_eq!(claimed, [Uuid::from_u128(1), Uuid::from_u128(4)]);
    let all = store
        .query(&Viewer::System, Filter::default(), Page::default())
        .await;
    for summary in all.unwrap().tasks {
        let record = store
            .task(&Viewer::System, summary.id)
            .await
            .unwrap()
            .unwrap();
        let is_aside = [2, 3].map(Uuid::from_u128).contains(&record.id);
        assert_eq!(record.status == TaskState::Failed, is_aside);
        assert_eq!(record.completed_at.is_some(), is_aside);
        assert_eq!(record.ready_at.is_none(), is_aside);
        let told = record
            .error
            .is_some_and(|cause| cause.contains("cannot be read"));
        assert_eq!(told, is_aside, "the cause is told");
    }
    let read = store.load(&Viewer::System, Uuid::from_u128(2), 1).await;
    assert!(
        matches!(read, Err(StoreError::Corrupt(_))),
        "nothing is left out silently"
    );
    world.clock.advance(crate::world::LEASE * 2);
    let again = world.claim("w2", 10).await;
    assert_eq!(again.len(), 2, "what was set aside is not claimed again");
}

pub(crate) async fn an_ended_task_is_never_ready_again(world: &World) {
    let task = world.submit(world.task(1)).await;
    let held = world.claim_one("w").await;
    let mut end = world.batch(TaskState::Completed);
    standing(&mut end).hold = LeaseAction::Release {
        wake_in: Some(Duration::ZERO),
    };
    world
        .store
        .append(held.fence(), Arc::new(end))
        .await
        .unwrap();
    let record = world.store.task(&Viewer::System, task).await;
    let record = record.unwrap().unwrap();
    assert_eq!((record.worker, record.ready_at), (None, None));
    assert!(world.claim("w", 1).await.is_empty());
}
