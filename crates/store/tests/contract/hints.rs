//! Who is told that something has changed.

use std::sync::Arc;
use std::time::Duration;

use convoke_model::TaskState;
use convoke_store::{Hint, LeaseAction, NewTask, Scope};
use futures::FutureExt;
use uuid::Uuid;

use crate::world::{World, standing};

/// Whether there was a hint since the last time.
fn was_told(hint: &mut Hint) -> bool {
    hint.changed().now_or_never().is_some()
}

pub(crate) async fn a_task_that_is_put_down_is_work(world: &World) {
    world.submit(world.task(1)).await;
    let held = world.claim_one("w").await;
    let mut work = world.store.watch(Scope::Work);
    let mut down = world.batch(TaskState::Working);
    standing(&mut down).hold = LeaseAction::Release {
        wake_in: Some(Duration::ZERO),
    };
    world
        .store
        .append(held.fence(), Arc::new(down))
        .await
        .unwrap();
    assert!(was_told(&mut work));
}

pub(crate) async fn the_end_of_a_task_is_work_for_the_next_of_its_conversation(world: &World) {
    let alone = world.submit(world.task(1)).await;
    world
        .submit(NewTask {
            conversation: Some(Uuid::from_u128(500)),
            ..world.task(2)
        })
        .await;
    let held = world.claim("w", 2).await;
    let mut work = world.store.watch(Scope::Work);
    for held in held {
        let end = world.batch(TaskState::Completed);
        world
            .store
            .append(held.fence(), Arc::new(end))
            .await
            .unwrap();
        let is_alone = held.record.id == alone;
        assert_eq!(was_told(&mut work), !is_alone, "{}", held.record.id);
    }
}

pub(crate) async fn whoever_watches_is_told_though_another_has_gone(world: &World) {
    let [mut staying, going] = [(); 2].map(|()| world.store.watch(Scope::Work));
    drop(going);
    assert!(!was_told(&mut staying));
    world.submit(world.task(1)).await;
    assert!(was_told(&mut staying));
}
