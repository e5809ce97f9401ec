//! A worker that is given another edition of its app while it runs.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

#[allow(dead_code, reason = "each test file uses its own part of it")]
mod world;

use std::sync::Arc;
use std::time::Duration;

use convoke_engine::{Engine, Options, Reloader, Worker};
use convoke_model::TaskState;
use convoke_store::{Definition, Store, Viewer};
use uuid::Uuid;
use world::{RunningWorker, WordEditions, WordExecutor, Words, World, worker_options};

/// A worker over the world's hands, and what reloads it. Editions are closed as soon as they are idle.
fn worker(world: &World) -> (RunningWorker, Reloader<Words, WordExecutor>) {
    worker_with(world, options(), Arc::default())
}

fn worker_with(
    world: &World,
    options: Options,
    shelf: Arc<WordEditions>,
) -> (RunningWorker, Reloader<Words, WordExecutor>) {
    let hands = Arc::clone(&world.hands);
    let worker = Worker::new(world.engine.clone(), hands, options);
    let reloader = worker.reloader();
    (RunningWorker::start(worker.with_editions(shelf)), reloader)
}

fn options() -> Options {
    Options {
        lease: Duration::from_millis(300),
        edition_idle: Duration::ZERO,
        ..worker_options()
    }
}

fn next(engine: &Engine<Words>, definition: &str) -> Engine<Words> {
    let definition = Definition {
        hash: definition.into(),
        ..Definition::default()
    };
    let time = Duration::from_secs(30);
    engine.of_edition(Arc::new(Words), Arc::new(definition), time)
}

async fn definition_of(world: &World, task: Uuid) -> String {
    let record = world.store.task(&Viewer::System, task).await.unwrap();
    record.unwrap().definition
}

#[tokio::test]
async fn new_tasks_start_with_the_next_edition_and_started_ones_keep_theirs() {
    let world = World::new();
    let (worker, reloader) = worker(&world);
    world.hang_on("one");
    let old = world.submit("one").await;
    world.until_performed("one").await;
    let (engine, hands) = (next(&world.engine, "d2"), Arc::new(WordExecutor::default()));
    reloader.reload(engine.clone(), Arc::clone(&hands), options());
    let new = engine.run(world.request("two")).await.unwrap();
    assert_eq!(new.status, TaskState::Completed);
    world.release();
    assert_eq!(world.until_ended(old).await.status, TaskState::Completed);
    assert_eq!(world.performed(), ["one"]);
    assert_eq!(hands.performed(), ["two"]);
    assert_eq!(definition_of(&world, old).await, "d1");
    assert_eq!(definition_of(&world, new.facts.id).await, "d2");
    worker.stop().await;
}

#[tokio::test]
async fn an_edition_goes_once_its_last_task_has_ended() {
    let mut world = World::new();
    let (worker, reloader) = worker(&world);
    let first = Arc::downgrade(&world.hands);
    world.hang_on("one");
    let old = world.submit("one").await;
    world.until_performed("one").await;
    let (engine, hands) = (next(&world.engine, "d2"), Arc::new(WordExecutor::default()));
    reloader.reload(engine.clone(), Arc::clone(&hands), options());
    engine.run(world.request("two")).await.unwrap();
    world.release();
    world.until_ended(old).await;
    // From now on only the worker may hold the first edition.
    world.hands = hands;
    while first.strong_count() > 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    engine.run(world.request("three")).await.unwrap();
    assert_eq!(world.performed(), ["two", "three"]);
    worker.stop().await;
}

#[tokio::test]
async fn a_task_of_an_edition_that_was_closed_opens_it_again() {
    let world = World::new();
    let shelf = Arc::new(WordEditions::default());
    let (worker, reloader) = worker_with(&world, options(), Arc::clone(&shelf));
    let before = world.engine.clone();
    let engine = next(&world.engine, "d2");
    reloader.reload(engine.clone(), Arc::default(), options());
    engine.run(world.request("one")).await.unwrap();
    while Arc::strong_count(&world.hands) > 1 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let ended = before.run(world.request("two")).await.unwrap();
    assert_eq!(ended.status, TaskState::Completed);
    assert_eq!(definition_of(&world, ended.facts.id).await, "d1");
    assert_eq!(*shelf.opened.lock().unwrap(), ["d1"]);
    assert_eq!(
        shelf.hands.performed(),
        ["two"],
        "with the edition that it began with"
    );
    worker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_edition_stays_open_while_a_task_uses_it_however_soon_idle_ones_are_closed() {
    let world = World::new();
    let shelf = Arc::new(WordEditions::default());
    let (worker, _reloader) = worker_with(&world, options(), Arc::clone(&shelf));
    let earlier = world.edition("earlier");
    shelf.hands.hang_on("hang");
    let first = earlier.submit(world.request("hang")).await.unwrap().id();
    shelf.hands.until_performed("hang").await;
    // The worker has looked for idle editions many times by then.
    tokio::time::sleep(options().lease * 10).await;
    let second = earlier.submit(world.request("two")).await.unwrap().id();
    world.until_ended(second).await;
    assert_eq!(*shelf.opened.lock().unwrap(), ["earlier"]);
    shelf.hands.release();
    assert_eq!(world.until_ended(first).await.status, TaskState::Completed);
    worker.stop().await;
}

#[tokio::test]
async fn a_reload_changes_neither_the_worker_s_name_nor_its_leases() {
    let world = World::new();
    let named = Options {
        worker: "named".into(),
        lease: Duration::from_mins(1),
        ..options()
    };
    let (worker, reloader) = worker_with(&world, named, Arc::default());
    let hands = Arc::new(WordExecutor::default());
    let changed = Options {
        worker: "other".into(),
        lease: Duration::from_hours(9),
        ..options()
    };
    let engine = next(&world.engine, "d2");
    reloader.reload(engine.clone(), Arc::clone(&hands), changed);
    engine.run(world.request("one")).await.unwrap();
    // A task of another process is claimed from the store.
    hands.hang_on("hang");
    let elsewhere = world.edition("d2").submit(world.request("hang")).await;
    let task = elsewhere.unwrap().id();
    hands.until_performed("hang").await;
    let record = world.store.task(&Viewer::System, task).await.unwrap();
    let record = record.unwrap();
    assert_eq!(record.worker.as_deref(), Some("named"));
    let lease = record.ready_at.unwrap().duration_since(record.created_at);
    assert_eq!(lease.as_secs(), 60);
    hands.release();
    world.until_ended(task).await;
    worker.stop().await;
}
