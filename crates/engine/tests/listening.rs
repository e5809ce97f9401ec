//! Live text reaches whoever handed a task in, also where the task had to wait for a worker.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

#[allow(dead_code, reason = "each test file uses its own part of it")]
mod world;

use std::sync::{Arc, Mutex};

use convoke_engine::{Live, LiveUpdate, NewRequest};
use futures::future::join_all;
use uuid::Uuid;
use world::World;

/// What was heard, task by task.
#[derive(Clone, Default)]
struct HeardTasks(Arc<Mutex<Vec<usize>>>);

impl HeardTasks {
    fn listener(&self, task: usize) -> Live {
        let heard = Arc::clone(&self.0);
        Live::new(move |piece| {
            if let LiveUpdate::Text(_) = piece {
                heard.lock().unwrap().push(task);
            }
        })
    }

    fn sorted(&self) -> Vec<usize> {
        let mut heard = self.0.lock().unwrap().clone();
        heard.sort_unstable();
        heard
    }
}

#[tokio::test]
async fn every_task_of_many_is_heard_though_most_wait_for_a_place() {
    let world = World::new();
    let worker = world.worker_with_room_for(4);
    let heards = HeardTasks::default();
    let tasks = (0..100).map(|task| {
        world.engine.run(NewRequest {
            live: Some(heards.listener(task)),
            ..world.request("one")
        })
    });
    for ended in join_all(tasks).await {
        ended.unwrap();
    }
    assert_eq!(heards.sorted(), (0..100).collect::<Vec<_>>());
    worker.stop().await;
}

#[tokio::test]
async fn tasks_that_wait_their_turn_in_a_conversation_are_heard() {
    let world = World::new();
    let worker = world.worker();
    let heards = HeardTasks::default();
    let mut tasks = Vec::new();
    for task in 0..5 {
        let request = NewRequest {
            live: Some(heards.listener(task)),
            conversation: Some(Uuid::from_u128(3)),
            ..world.request("one")
        };
        tasks.push(world.engine.submit(request).await.unwrap().id());
    }
    for task in tasks {
        world.until_ended(task).await;
    }
    assert_eq!(heards.sorted(), [0, 1, 2, 3, 4]);
    worker.stop().await;
}

#[tokio::test]
async fn a_closed_engine_lets_go_of_whoever_listens_to_a_task_that_waits() {
    let world = World::new();
    let heards = HeardTasks::default();
    let request = NewRequest {
        live: Some(heards.listener(0)),
        ..world.request("one")
    };
    world.engine.submit(request).await.unwrap();
    assert_eq!(Arc::strong_count(&heards.0), 2, "it waits to be taken up");
    world.engine.close("the test is over");
    assert_eq!(Arc::strong_count(&heards.0), 1);
}

#[test]
fn a_listener_is_printed_without_what_it_does() {
    assert_eq!(format!("{:?}", Live::new(|_| {})), "Live");
}
