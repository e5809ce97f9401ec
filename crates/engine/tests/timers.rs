//! Calls that are due later, and tasks that are begun later: a timer is journaled, outlives its worker, and costs neither a
//! permit nor a lease nor the task's time.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

#[allow(dead_code, reason = "each test file uses its own part of it")]
mod world;

use std::sync::Arc;
use std::time::Duration;

use convoke_engine::{Effect, Engine, NewRequest, Options, QuestionAnswer, Worker};
use convoke_model::{Clock, SystemClock, TaskState};
use convoke_store::{Definition, MemoryStore, Store, TaskRecord, Viewer};
use convoke_testkit::{CountedIds, SimClock};
use uuid::Uuid;
use world::{Behaviour, RunningWorker, WordExecutor, Words, World, engine};

const SYSTEM: &Viewer = &Viewer::System;
const AN_HOUR: Duration = Duration::from_hours(1);

async fn record(world: &World, task: Uuid) -> TaskRecord {
    world.store.task(SYSTEM, task).await.unwrap().unwrap()
}

/// Waits until nobody works on a task that has not ended.
async fn until_given_up(world: &World, task: Uuid) -> TaskRecord {
    loop {
        let record = record(world, task).await;
        if record.started_at.is_some() && record.worker.is_none() {
            return record;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_task_that_waits_for_a_timer_takes_no_permit_and_no_lease() {
    let world = World::new();
    let worker = world.worker_with_room_for(1);
    let waiting = world.submit("rest@3600 pay").await;
    let record = until_given_up(&world, waiting).await;
    assert_eq!(record.status, TaskState::Working);
    assert_eq!(record.ready_at, Some(world.clock.now() + AN_HOUR));
    let other = world.submit("tell").await;
    assert_eq!(world.until_ended(other).await.status, TaskState::Completed);
    assert_eq!(world.performed(), ["tell"]);
    world.clock.advance(AN_HOUR);
    let ended = world.until_ended(waiting).await;
    assert_eq!(
        ended.status,
        TaskState::Completed,
        "an hour is more than the task's 30 seconds"
    );
    assert_eq!(world.performed(), ["tell", "rest@3600", "pay"]);
    world.assert_replays(waiting).await;
    worker.stop().await;
}

#[tokio::test]
async fn a_worker_looks_for_tasks_when_the_next_timer_is_due() {
    let clock = Arc::new(SystemClock);
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new(clock.clone()));
    let definition = Definition {
        hash: "d1".into(),
        ..Definition::default()
    };
    let engine = Engine::new(
        Arc::new(Words),
        Arc::clone(&store),
        clock,
        Arc::new(CountedIds::default()),
        "words",
        Arc::new(definition),
        Duration::from_secs(30),
    );
    let options = Options {
        poll: AN_HOUR,
        hold_timers: Duration::ZERO,
        ..Options::for_worker("w")
    };
    let executor = Arc::new(WordExecutor::default());
    let worker = RunningWorker::start(Worker::new(engine.clone(), executor, options));
    let request = NewRequest {
        not_before: Some(Duration::from_millis(300)),
        ..World::request_of("rest@1 pay")
    };
    let task = engine.submit(request).await.unwrap().id();
    // Neither the start of the task nor the timer within it waits for the worker's next look an hour later.
    let ended = engine.wait(SYSTEM, task).await.unwrap();
    assert_eq!(ended.status, TaskState::Completed);
    worker.stop().await;
}

#[tokio::test]
async fn a_timer_outlives_its_worker_and_is_not_early() {
    let world = World::new();
    let worker = world.worker();
    let task = world.submit("rest@3600").await;
    until_given_up(&world, task).await;
    worker.kill();
    world
        .clock
        .advance(AN_HOUR.checked_sub(Duration::from_millis(1)).unwrap());
    let worker = world.worker();
    let other = world.submit("tell").await;
    world.until_ended(other).await;
    assert_eq!(world.performed(), ["tell"]);
    world.clock.advance(Duration::from_millis(1));
    assert_eq!(world.until_ended(task).await.status, TaskState::Completed);
    worker.stop().await;
}

#[tokio::test]
async fn a_worker_killed_between_the_timer_and_its_call_makes_the_call_once() {
    let world = World::new();
    let worker = world.worker();
    let task = world.submit("rest@3600 pay").await;
    until_given_up(&world, task).await;
    worker.kill();
    world.clock.advance(AN_HOUR);
    world.claim_and_forget().await;
    world.clock.advance(Duration::from_secs(20));
    let worker = world.worker();
    assert_eq!(world.until_ended(task).await.status, TaskState::Completed);
    assert_eq!(world.performed(), ["rest@3600", "pay"]);
    worker.stop().await;
}

#[tokio::test]
async fn time_before_and_after_a_timer_is_the_tasks_own() {
    let world = World::with_task_time(Duration::from_secs(30));
    world.hang_on("pay");
    let worker = world.worker();
    let task = world.submit("rest@3600 pay").await;
    until_given_up(&world, task).await;
    world.clock.advance(AN_HOUR);
    world.until_performed("pay").await;
    let journal = world.store.load(SYSTEM, task, 1).await.unwrap().unwrap();
    let mut entries = journal.entries.iter();
    let resumed = entries.rfind(|entry| entry.kind == "resumed");
    let deadline = resumed.unwrap().event["deadline"].as_str().unwrap();
    let expected = journal.record.created_at + AN_HOUR + Duration::from_secs(30);
    assert_eq!(deadline.parse::<jiff::Timestamp>().unwrap(), expected);
    world.release();
    world.until_ended(task).await;
    worker.stop().await;
}

#[tokio::test]
async fn a_task_that_waits_for_a_timer_can_be_cancelled() {
    let world = World::new();
    let worker = world.worker();
    let task = world.submit("rest@3600").await;
    until_given_up(&world, task).await;
    world.engine.cancel(SYSTEM, task, None).await.unwrap();
    assert_eq!(world.until_ended(task).await.status, TaskState::Canceled);
    assert!(world.performed().is_empty());
    worker.stop().await;
}

#[tokio::test]
async fn an_approved_call_still_waits_for_its_timer() {
    let world = World::new();
    let worker = world.worker();
    let task = world.submit("rest@3600?").await;
    world.answer(task, QuestionAnswer::approve()).await;
    loop {
        let record = until_given_up(&world, task).await;
        if record.status == TaskState::Working {
            break;
        }
        tokio::task::yield_now().await;
    }
    assert!(world.performed().is_empty());
    world.clock.advance(AN_HOUR);
    assert_eq!(world.until_ended(task).await.status, TaskState::Completed);
    assert_eq!(world.performed(), ["rest@3600?"]);
    world.assert_replays(task).await;
    worker.stop().await;
}

#[tokio::test]
async fn a_task_that_waits_for_a_person_and_a_timer_wakes_for_whichever_comes_first() {
    let world = World::new();
    let worker = world.worker();
    let task = world.submit("pay?&rest@3600").await;
    let waiting = world.engine.wait(SYSTEM, task).await.unwrap();
    assert_eq!(waiting.status, TaskState::InputRequired);
    assert_eq!(
        record(&world, task).await.ready_at,
        Some(world.clock.now() + AN_HOUR)
    );
    world.clock.advance(AN_HOUR);
    world.until_performed("rest@3600").await;
    world.answer(task, QuestionAnswer::approve()).await;
    assert_eq!(world.until_ended(task).await.status, TaskState::Completed);
    assert_eq!(world.performed(), ["rest@3600", "pay?"]);
    worker.stop().await;
}

#[tokio::test]
async fn a_timer_that_is_due_soon_keeps_the_task_in_its_workers_hands() {
    let world = World::new();
    let worker = world.worker();
    let task = world.submit("rest@1").await;
    let open = loop {
        let loaded = world.store.load(SYSTEM, task, 1).await.unwrap().unwrap();
        if loaded.record.started_at.is_some() {
            break loaded.record;
        }
        tokio::task::yield_now().await;
    };
    assert!(open.worker.is_some());
    world.clock.advance(Duration::from_secs(1));
    assert_eq!(world.until_ended(task).await.status, TaskState::Completed);
    let journal = world.store.load(SYSTEM, task, 1).await.unwrap().unwrap();
    assert_eq!(journal.record.epoch, 1, "it was never claimed again");
    worker.stop().await;
}

#[tokio::test]
async fn a_delayed_task_starts_no_earlier_and_has_its_full_time_from_then() {
    let world = World::new();
    let worker = world.worker();
    let mut request = world.request("tell");
    request.not_before = Some(AN_HOUR);
    let task = world.engine.submit(request).await.unwrap().id();
    let other = world.submit("look").await;
    world.until_ended(other).await;
    assert_eq!(world.performed(), ["look"]);
    world.clock.advance(AN_HOUR);
    let ended = world.until_ended(task).await;
    assert_eq!(ended.status, TaskState::Completed);
    let expected = ended.facts.created_at + AN_HOUR + Duration::from_secs(30);
    assert_eq!(ended.facts.deadline, expected);
    worker.stop().await;
}

#[tokio::test]
async fn leases_timers_and_questions_go_by_the_clock_of_the_store() {
    // The process's clock is a minute fast in one case and slow in the other.
    for fast in [true, false] {
        let world = World::new();
        let local = Arc::new(SimClock::new());
        if fast {
            local.advance(Duration::from_mins(1));
        } else {
            world.clock.advance(Duration::from_mins(1));
        }
        let off = engine(
            &world.store,
            &local,
            &world.ids,
            "d1",
            Duration::from_secs(30),
        );
        let worker = RunningWorker::start(Worker::new(
            off.clone(),
            Arc::clone(&world.hands),
            Options {
                poll: Duration::from_millis(5),
                question_time: Duration::from_mins(10),
                ..Options::for_worker("off")
            },
        ));
        // The worker learns the store's time with its first claim.
        let first = off.submit(world.request("look")).await.unwrap().id();
        off.wait(SYSTEM, first).await.unwrap();
        while world.store.task(SYSTEM, first).await.unwrap().unwrap().seq == 0 {
            tokio::task::yield_now().await;
        }
        let task = off
            .submit(world.request("rest@3600 pay?"))
            .await
            .unwrap()
            .id();
        let given_up = until_given_up(&world, task).await;
        assert_eq!(
            given_up.ready_at,
            Some(world.clock.now() + AN_HOUR),
            "fast: {fast}"
        );
        local.advance(AN_HOUR);
        world.clock.advance(AN_HOUR);
        let waiting = off.wait(SYSTEM, task).await.unwrap();
        assert_eq!(waiting.status, TaskState::InputRequired, "fast: {fast}");
        let answered = off
            .answer(SYSTEM, task, None, QuestionAnswer::approve())
            .await;
        answered.unwrap();
        let ended = loop {
            let ended = off.wait(SYSTEM, task).await.unwrap();
            if ended.status.is_final() {
                break ended;
            }
            tokio::task::yield_now().await;
        };
        assert_eq!(
            ended.status,
            TaskState::Completed,
            "fast: {fast}: {ended:?}"
        );
        worker.stop().await;
    }
}

#[tokio::test]
async fn a_call_that_is_postponed_takes_no_permit_and_is_made_again_when_it_is_due() {
    for effect in [Effect::None, Effect::Repeatable, Effect::Once] {
        let world = World::new();
        let busy = Behaviour {
            busy: 2,
            ..Behaviour::of(effect)
        };
        world.hands.set("pay", busy);
        let worker = world.worker_with_room_for(1);
        let waiting = world.submit("pay tell").await;
        until_given_up(&world, waiting).await;
        let other = world.submit("tell").await;
        assert_eq!(world.until_ended(other).await.status, TaskState::Completed);
        assert_eq!(world.performed(), ["pay", "tell"]);
        worker.kill();
        let worker = world.worker();
        world.clock.advance(AN_HOUR);
        // The second attempt, by another worker, is refused as well.
        let due_at = world.clock.now() + AN_HOUR;
        while until_given_up(&world, waiting).await.ready_at != Some(due_at) {
            tokio::task::yield_now().await;
        }
        world.clock.advance(AN_HOUR);
        let ended = world.until_ended(waiting).await;
        assert_eq!(ended.status, TaskState::Completed, "{effect:?}");
        assert_eq!(world.performed(), ["pay", "tell", "pay", "pay", "tell"]);
        let calls = world.hands.calls_of("pay");
        assert!(calls.iter().all(|id| *id == calls[0]), "one effect id");
        world.assert_replays(waiting).await;
        worker.stop().await;
    }
}

#[tokio::test]
async fn a_call_that_is_postponed_too_often_fails() {
    let world = World::new();
    let busy = Behaviour {
        busy: u32::MAX,
        ..Behaviour::of(Effect::None)
    };
    world.hands.set("pay", busy);
    let options = Options {
        postponements: 2,
        ..Options::for_worker("worker")
    };
    let worker = RunningWorker::start(Worker::new(
        world.engine.clone(),
        Arc::clone(&world.hands),
        options,
    ));
    let task = world.submit("pay").await;
    for _ in 0..2 {
        let due_at = world.clock.now() + AN_HOUR;
        while until_given_up(&world, task).await.ready_at != Some(due_at) {
            tokio::task::yield_now().await;
        }
        world.clock.advance(AN_HOUR);
    }
    let ended = world.until_ended(task).await;
    assert_eq!(ended.status, TaskState::Failed);
    assert_eq!(world.performed(), ["pay", "pay", "pay"]);
    worker.stop().await;
}

#[tokio::test]
async fn a_snoozed_question_is_asked_again_and_expires_that_much_later() {
    let world = World::new();
    let worker = world.worker();
    let task = world.submit("pay?").await;
    let asked = world.engine.wait(SYSTEM, task).await.unwrap();
    let (first, now) = (asked.questions[0].clone(), world.clock.now());
    world.answer(task, QuestionAnswer::snooze(AN_HOUR)).await;
    let until = Some(now + AN_HOUR);
    let snoozed = loop {
        let standing = world.engine.wait(SYSTEM, task).await.unwrap();
        if standing.questions[0].snoozed_until.is_some() {
            break standing;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(snoozed.status, TaskState::InputRequired);
    assert_eq!(snoozed.questions[0].snoozed_until, until);
    assert_eq!(snoozed.questions[0].expires_at, first.expires_at + AN_HOUR);
    assert_eq!(until_given_up(&world, task).await.ready_at, until);
    worker.kill();
    let worker = world.worker();
    world.clock.advance(AN_HOUR);
    let again = loop {
        let standing = world.engine.wait(SYSTEM, task).await.unwrap();
        if standing.questions[0].snoozed_until.is_none() {
            break standing.questions[0].clone();
        }
        tokio::task::yield_now().await;
    };
    assert_eq!((again.id, &again.prompt), (first.id, &first.prompt));
    assert!(world.performed().is_empty());
    world.answer(task, QuestionAnswer::approve()).await;
    assert_eq!(world.until_ended(task).await.status, TaskState::Completed);
    assert_eq!(world.performed(), ["pay?"]);
    world.assert_replays(task).await;
    worker.stop().await;
}

#[tokio::test]
async fn a_snoozed_question_can_be_answered_before_it_is_asked_again() {
    let world = World::new();
    let worker = world.worker();
    let task = world.submit("pay?").await;
    world.engine.wait(SYSTEM, task).await.unwrap();
    let too_long = QuestionAnswer::snooze(Duration::from_hours(25));
    for unusable in [QuestionAnswer::snooze(Duration::ZERO), too_long] {
        let refused = world.engine.answer(SYSTEM, task, None, unusable).await;
        assert_eq!(refused.unwrap_err().code(), "answer.unusable");
    }
    world.answer(task, QuestionAnswer::snooze(AN_HOUR)).await;
    loop {
        let standing = world.engine.wait(SYSTEM, task).await.unwrap();
        if standing.questions[0].snoozed_until.is_some() {
            break;
        }
        tokio::task::yield_now().await;
    }
    world.answer(task, QuestionAnswer::approve()).await;
    assert_eq!(world.until_ended(task).await.status, TaskState::Completed);
    worker.stop().await;
}

#[tokio::test]
async fn the_time_that_a_task_waits_for_a_timer_is_added_to_its_own() {
    let world = World::with_task_time(Duration::from_secs(30));
    let worker = world.worker();
    let task = world.submit("rest@10 one two").await;
    until_given_up(&world, task).await;
    world.hang_on("one");
    world.clock.advance(Duration::from_secs(10));
    world.until_performed("one").await;
    // Of its own time it has used less than 30 seconds.
    world.clock.advance(Duration::from_secs(25));
    world.release();
    let ended = world.until_ended(task).await;
    assert_eq!(ended.status, TaskState::Completed, "{:?}", ended.error);
    worker.stop().await;
}
