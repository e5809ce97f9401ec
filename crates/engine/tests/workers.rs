//! What a worker holds, for how long, and what it leaves to others.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

#[allow(dead_code, reason = "each test file uses its own part of it")]
mod world;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use convoke_engine::{
    Call, CallContext, Effect, Executor, Failure, NewRequest, Options, Outcome, Worker,
};
use convoke_model::{Clock, TaskState};
use convoke_store::{Store, TaskRecord, Viewer};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;
use world::{RunningWorker, WordEditions, Words, World};

/// Far longer than a test takes that goes well.
const TOO_LONG: Duration = Duration::from_mins(1);

async fn record(world: &World, task: Uuid) -> TaskRecord {
    world
        .store
        .task(&Viewer::System, task)
        .await
        .unwrap()
        .unwrap()
}

#[tokio::test]
async fn what_succeeds_counts_though_the_time_is_over_meanwhile() {
    let world = World::new();
    let worker = world.worker();
    world.hang_on("one");
    let task = world.submit("one").await;
    world.until_performed("one").await;
    world.clock.advance(Duration::from_mins(1));
    world.release();
    assert_eq!(world.until_ended(task).await.status, TaskState::Completed);
    worker.stop().await;
}

#[tokio::test]
async fn a_task_with_more_to_do_ends_once_the_clock_is_found_past_its_time() {
    let world = World::new();
    let worker = world.worker();
    world.hang_on("one");
    let task = world.submit("one two").await;
    world.until_performed("one").await;
    world.clock.advance(Duration::from_mins(1));
    world.release();
    let ended = world.until_ended(task).await;
    assert_eq!(ended.status, TaskState::Failed);
    assert_eq!(ended.error.as_deref(), Some("too late"));
    assert_eq!(world.performed(), ["one"]);
    worker.stop().await;
}

#[tokio::test]
async fn a_task_that_makes_progress_may_be_claimed_as_often_as_it_needs() {
    let words = ["a", "b", "c", "d", "e", "f", "g", "h"];
    assert!(words.len() > Options::for_worker("any").max_claims as usize + 1);
    let world = World::with_task_time(Duration::from_hours(1));
    let task = world.submit(&words.join(" ")).await;
    for word in words {
        world.hang_on(word);
        let worker = world.worker();
        world.until_performed(word).await;
        worker.kill();
        world.clock.advance(Duration::from_mins(1));
    }
    world.release();
    let worker = world.worker();
    let ended = world.until_ended(task).await;
    assert_eq!(ended.status, TaskState::Completed, "{:?}", ended.error);
    worker.stop().await;
}

#[tokio::test]
async fn a_task_is_worked_on_at_the_last_claim_that_it_may_have() {
    let world = World::new();
    let task = world.submit("one").await;
    for _ in 1..Options::for_worker("any").max_claims {
        world.claim_and_forget().await;
        world.clock.advance(Duration::from_mins(1));
    }
    let worker = world.worker();
    assert_eq!(world.until_ended(task).await.status, TaskState::Completed);
    worker.stop().await;
}

#[tokio::test]
async fn a_worker_stopped_before_it_runs_claims_nothing() {
    let world = World::new();
    let task = world.submit("one").await;
    let options = Options::for_worker("stopped");
    let worker = Worker::new(world.engine.clone(), Arc::clone(&world.hands), options);
    let stop = CancellationToken::new();
    stop.cancel();
    worker.run(stop).await.unwrap();
    let record = record(&world, task).await;
    assert_eq!(record.epoch, 0, "nobody has claimed it");
    assert_eq!(record.seq, 1, "nothing was written about it");
}

#[tokio::test]
async fn a_waiting_task_is_taken_as_soon_as_there_is_room_for_it() {
    let world = World::new();
    let mut tasks = Vec::new();
    for word in ["one", "two", "three"] {
        tasks.push(world.submit(word).await);
    }
    // Of its own accord it does not look again before the test is long over.
    let options = Options {
        concurrent_tasks: 1,
        poll: Duration::from_hours(1),
        ..Options::for_worker("alone")
    };
    let worker = Worker::new(world.engine.clone(), Arc::clone(&world.hands), options);
    let stop = CancellationToken::new();
    let waiting = async {
        for task in tasks {
            let ended = tokio::time::timeout(TOO_LONG, world.until_ended(task)).await;
            assert_eq!(ended.unwrap().status, TaskState::Completed);
        }
        stop.cancel();
    };
    let (ran, ()) = tokio::join!(worker.run(stop.clone()), waiting);
    ran.unwrap();
}

#[tokio::test]
async fn a_task_that_comes_once_the_worker_was_killed_is_held_by_nobody() {
    let world = World::new();
    let worker = world.worker();
    let first = world.submit("one").await;
    world.until_ended(first).await;
    worker.kill();
    // All that is left of the worker goes meanwhile.
    for _ in 0..1_000 {
        tokio::task::yield_now().await;
    }
    let task = world.submit("one").await;
    assert_eq!(record(&world, task).await.worker, None);
}

/// Panics at the first `burst`, and hangs for ever at `hang`.
#[derive(Default)]
struct Bursting {
    burst: AtomicBool,
    hanging: watch::Sender<bool>,
}

impl Executor<Words> for Bursting {
    async fn effect(&self, _: &CallContext, _: &Call<Value>) -> Result<Effect, Failure> {
        Ok(Effect::Repeatable)
    }

    async fn perform(&self, _: &CallContext, call: &Call<Value>) -> Outcome<Value> {
        if call.label == "hang" {
            self.hanging.send_replace(true);
            return std::future::pending().await;
        }
        assert!(self.burst.swap(true, Ordering::SeqCst), "the first time");
        Outcome::Done(json!("done"))
    }
}

#[tokio::test]
async fn the_lease_of_a_task_whose_driver_panicked_is_renewed_no_more() {
    let world = World::with_task_time(Duration::from_hours(1));
    let (burst, hang) = (world.submit("burst").await, world.submit("hang").await);
    let lease = Duration::from_millis(30);
    let options = Options {
        lease,
        poll: Duration::from_hours(1),
        grace: Duration::ZERO,
        ..Options::for_worker("bursting")
    };
    let bursting = Arc::new(Bursting::default());
    let worker = Worker::new(world.engine.clone(), Arc::clone(&bursting), options);
    let stop = CancellationToken::new();
    let mut running = JoinSet::new();
    running.spawn(worker.run(stop.clone()));
    let mut hanging = bursting.hanging.subscribe();
    hanging.wait_for(|hanging| *hanging).await.unwrap();
    while !bursting.burst.load(Ordering::SeqCst) {
        tokio::task::yield_now().await;
    }
    let mut renewed = Vec::new();
    for _ in 0..4 {
        world.clock.advance(Duration::from_millis(1));
        let lease_end = world.clock.now().checked_add(lease).unwrap();
        until_renewed(&world, hang, lease_end).await;
        renewed.push(record(&world, burst).await.ready_at);
    }
    // The first round may still have met it.
    assert_eq!(renewed[1], renewed[3], "{renewed:?}");
    assert_eq!(
        record(&world, burst).await.worker.as_deref(),
        Some("bursting")
    );
    stop.cancel();
    running.join_next().await.unwrap().unwrap().unwrap();
    world.clock.advance(Duration::from_mins(1));
    let second = world.worker();
    assert_eq!(world.until_ended(burst).await.status, TaskState::Completed);
    second.stop().await;
}

async fn until_renewed(world: &World, task: Uuid, lease_end: Timestamp) {
    let renewed = async {
        while record(world, task).await.ready_at != Some(lease_end) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(TOO_LONG, renewed).await.unwrap();
}

#[tokio::test]
async fn one_key_is_not_two_requests() {
    let world = World::new();
    let request = |text| NewRequest {
        key: Some("same".into()),
        ..world.request(text)
    };
    let first = world.engine.submit(request("one")).await.unwrap();
    let again = world.engine.submit(request("one")).await.unwrap();
    assert_eq!(again.id(), first.id());
    let other = world.engine.submit(request("two")).await.unwrap_err();
    assert_eq!(other.code(), "store.key_reused", "{other}");
    let other_input = NewRequest {
        input: json!({ "more": 1 }),
        ..request("one")
    };
    let other_input = world.engine.submit(other_input).await.unwrap_err();
    assert_eq!(other_input.code(), "store.key_reused", "{other_input}");
}

#[tokio::test]
async fn an_engine_says_which_app_it_works_for() {
    let world = World::new();
    assert_eq!(world.engine.app(), "words");
    assert_eq!(world.engine.definition(), "d1");
    assert_eq!(world.edition("d2").definition(), "d2");
}

#[tokio::test]
async fn a_task_is_refused_while_as_many_wait_as_may() {
    let world = World::new();
    world.submit("one").await;
    world.submit("two").await;
    world.engine.bound_backlog(2);
    let refused = world.engine.submit(world.request("three")).await;
    assert_eq!(refused.unwrap_err().code(), "engine.busy");
}

#[tokio::test]
async fn a_started_task_does_not_count_as_waiting() {
    let world = World::new();
    world.submit("one").await;
    world.claim_and_forget().await;
    world.engine.bound_backlog(1);
    assert!(world.engine.submit(world.request("two")).await.is_ok());
}

/// Runs tasks of an earlier edition, one after the other, until it was opened twice or so many have ended. Gives how
/// often it was opened.
async fn openings(edition_idle: Duration, tasks: usize) -> usize {
    let world = World::new();
    let earlier = world.edition("earlier");
    let options = Options {
        lease: Duration::from_millis(30),
        edition_idle,
        ..Options::for_worker("worker")
    };
    let shelf = Arc::new(WordEditions::default());
    let worker = Worker::new(world.engine.clone(), Arc::clone(&world.hands), options);
    let worker = RunningWorker::start(worker.with_editions(shelf.clone()));
    let opened = || shelf.opened.lock().unwrap().len();
    for _ in 0..tasks {
        let task = earlier.submit(world.request("slow")).await.unwrap().id();
        world.until_ended(task).await;
        if opened() > 1 {
            break;
        }
    }
    worker.stop().await;
    opened()
}

#[tokio::test]
async fn an_edition_that_no_task_uses_is_closed_after_its_time_and_opened_again_when_needed() {
    let opened = tokio::time::timeout(TOO_LONG, openings(Duration::ZERO, usize::MAX)).await;
    assert_eq!(opened.unwrap(), 2);
    assert_eq!(openings(Duration::from_hours(1), 20).await, 1);
}

#[tokio::test(start_paused = true)]
async fn a_task_that_waits_for_a_near_timer_keeps_its_permit() {
    let world = World::new();
    let worker = world.worker_with_room_for(1);
    let first = world.submit("rest@1").await;
    let second = world.submit("one").await;
    // All that the worker could do about the second task it has done by then.
    for _ in 0..1_000 {
        tokio::task::yield_now().await;
    }
    world.clock.advance(Duration::from_secs(1));
    world.until_ended(first).await;
    world.until_ended(second).await;
    assert_eq!(world.performed(), ["rest@1", "one"]);
    worker.stop().await;
}

async fn kinds(world: &World, task: Uuid) -> Vec<String> {
    let journal = world.store.load(&Viewer::System, task, 1).await.unwrap();
    let entries = journal.unwrap().entries.into_iter();
    entries.map(|entry| entry.kind).collect()
}

#[tokio::test(start_paused = true)]
async fn a_task_is_held_for_a_timer_that_is_no_further_than_the_limit() {
    let world = World::new();
    let limit = Options::for_worker("any").hold_timers;
    assert_eq!(limit, Duration::from_secs(2));
    let worker = world.worker();
    let near = world.submit("rest@2").await;
    let far = world.submit("rest@3").await;
    while record(&world, far).await.worker.is_some() {
        tokio::task::yield_now().await;
    }
    assert!(record(&world, near).await.worker.is_some());
    world.clock.advance(Duration::from_secs(3));
    assert_eq!(world.until_ended(near).await.status, TaskState::Completed);
    assert_eq!(world.until_ended(far).await.status, TaskState::Completed);
    assert_eq!(record(&world, near).await.epoch, 1, "nobody else took it");
    assert!(!kinds(&world, near).await.contains(&"put_back".to_owned()));
    worker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_stops_releases_a_task_that_waits_for_a_near_timer() {
    let world = World::new();
    let worker = world.worker();
    let task = world.submit("rest@1").await;
    for _ in 0..1_000 {
        tokio::task::yield_now().await;
    }
    assert!(record(&world, task).await.worker.is_some());
    worker.stop().await;
    assert_eq!(record(&world, task).await.worker, None);
    assert_eq!(kinds(&world, task).await, ["submitted", "put_back"]);
}
