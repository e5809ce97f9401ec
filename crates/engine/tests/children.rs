//! Tasks of tasks: how many are worked on at once, and what becomes of them when their parent ends.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

#[allow(dead_code, reason = "each test file uses its own part of it")]
mod world;

use std::time::Duration;

use convoke_engine::QuestionAnswer;
use convoke_model::TaskState;
use convoke_store::{Filter, Page, Store, TaskSummary, Viewer};
use uuid::Uuid;
use world::World;

async fn children_of(world: &World, parent: Uuid) -> Vec<TaskSummary> {
    let filter = Filter {
        parent: Some(parent),
        ..Filter::default()
    };
    world
        .store
        .query(&Viewer::System, filter, Page::default())
        .await
        .unwrap()
        .tasks
}

async fn cancel(world: &World, task: Uuid) {
    world
        .engine
        .cancel(&Viewer::System, task, None)
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_worked_on_at_once_are_bounded_with_their_children_and_none_waits_for_ever() {
    for room in [1, 3] {
        let world = World::new();
        let worker = world.worker_with_room_for(room);
        // Each has something of its own to do, before its children and beside them and after them.
        let text = "slow a:slow+two&b:slow+two&c:one+slow&slow d:slow&e:slow slow";
        let mut tasks = Vec::new();
        for _ in 0..8 {
            tasks.push(world.submit(text).await);
        }
        for task in tasks {
            let ended = world.until_ended(task).await;
            assert_eq!(ended.status, TaskState::Completed);
        }
        assert_eq!(world.performed().len(), 8 * (3 + 6 + 2));
        let most = world.hands.at_work.most();
        assert!(most <= room, "{most} were worked on at once");
        worker.stop().await;
    }
}

#[tokio::test]
async fn a_parent_that_has_no_place_to_go_on_can_still_be_called_off() {
    let world = World::new();
    let worker = world.worker_with_room_for(1);
    world.hang_on("hang");
    let parent = world.submit("a:one after").await;
    // Its child has ended, or ends, while this takes the one place there is.
    let other = world.submit("hang").await;
    world.until_performed("hang").await;
    cancel(&world, parent).await;
    let ended = world.until_ended(parent).await;
    assert!(matches!(
        ended.status,
        TaskState::Canceled | TaskState::Completed
    ));
    world.release();
    assert_eq!(world.until_ended(other).await.status, TaskState::Completed);
    worker.stop().await;
}

#[tokio::test]
async fn children_of_a_parent_that_is_called_off_after_a_crash_are_called_off_too() {
    let world = World::new();
    world.hang_on("hang");
    let parent = world.submit("a:hang&b:ask?").await;
    let bystander = world.submit("hang").await;
    let worker = world.worker();
    world.until_performed("hang").await;
    while children_of(&world, parent).await.len() < 2 {
        tokio::task::yield_now().await;
    }
    worker.kill();
    cancel(&world, parent).await;
    world.clock.advance(Duration::from_mins(1));
    let worker = world.worker();
    assert_eq!(world.until_ended(parent).await.status, TaskState::Canceled);
    for child in children_of(&world, parent).await {
        let ended = world.until_ended(child.id).await;
        assert_eq!(ended.status, TaskState::Canceled);
    }
    world.release();
    let ended = world.until_ended(bystander).await;
    assert_eq!(ended.status, TaskState::Completed, "it is nobody's child");
    worker.stop().await;
}

#[tokio::test]
async fn a_parent_s_time_stands_still_while_its_children_wait_for_people() {
    let world = World::with_task_time(Duration::from_secs(3));
    let worker = world.worker();
    let parent = world.submit("a:pay?&b:send? after").await;
    let asked = async || {
        let children = children_of(&world, parent).await;
        let waits = |child: &&TaskSummary| child.status == TaskState::InputRequired;
        children
            .iter()
            .filter(waits)
            .map(|child| child.id)
            .collect::<Vec<_>>()
    };
    while asked().await.len() < 2 {
        tokio::task::yield_now().await;
    }
    for left in (0..2).rev() {
        // Longer than the task's time in all, and in steps that are short against it.
        for _ in 0..50 {
            world.clock.advance(Duration::from_millis(100));
            for _ in 0..20 {
                tokio::task::yield_now().await;
            }
        }
        let children = asked().await;
        assert_eq!(children.len(), left + 1);
        world.answer(children[0], QuestionAnswer::approve()).await;
        while asked().await.len() > left {
            tokio::task::yield_now().await;
        }
    }
    let ended = world.until_ended(parent).await;
    assert_eq!(ended.status, TaskState::Completed, "{ended:?}");
    assert!(world.performed().contains(&"after".to_owned()));
    worker.stop().await;
}
