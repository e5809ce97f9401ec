//! What the engine promises, shown with a small program over the in-memory store: workers are
//! stopped, dropped and doubled, and effects are counted where they happen.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

#[allow(dead_code, reason = "each test file uses its own part of it")]
mod world;

use std::time::Duration;

use convoke_engine::{Effect, FailureKind, QuestionAnswer};
use convoke_model::{Clock, TaskState};
use convoke_store::{Store, Viewer};
use serde_json::json;
use uuid::Uuid;
use world::{Behaviour, World};

#[tokio::test]
async fn a_task_runs_to_its_answer_and_every_step_is_in_the_journal() {
    let world = World::new();
    let task = world.submit("one two three").await;
    let worker = world.worker();
    let ended = world.engine.wait(&Viewer::System, task).await.unwrap();
    assert_eq!(ended.status, TaskState::Completed);
    assert_eq!(ended.answer.unwrap().text, "one two three");
    assert_eq!(world.performed(), ["one", "two", "three"]);
    let journal = world
        .store
        .load(&Viewer::System, task, 1)
        .await
        .unwrap()
        .unwrap();
    let kinds: Vec<_> = journal
        .entries
        .iter()
        .map(|entry| entry.kind.as_str())
        .collect();
    assert_eq!(
        kinds,
        ["submitted", "started", "returned", "returned", "returned"]
    );
    worker.stop().await;
}

#[tokio::test]
async fn the_same_journal_always_replays_to_the_same_state() {
    let world = World::new();
    let task = world.submit("one two three four").await;
    let worker = world.worker();
    world.engine.wait(&Viewer::System, task).await.unwrap();
    worker.stop().await;
    world.assert_replays(task).await;
}

#[tokio::test]
async fn a_killed_worker_loses_no_task_and_repeats_no_effect_that_must_not_be() {
    for killed_at in ["one", "two", "three"] {
        let world = World::new();
        world.set("one", Behaviour::of(Effect::Repeatable));
        world.set("two", Behaviour::of(Effect::Repeatable));
        world.set("three", Behaviour::of(Effect::None));
        world.hang_on(killed_at);
        let task = world.submit("one two three").await;
        let worker = world.worker();
        world.until_performed(killed_at).await;
        worker.kill();
        world.release();
        world.clock.advance(Duration::from_mins(1));
        let second = world.worker();
        let ended = world.engine.wait(&Viewer::System, task).await.unwrap();
        assert_eq!(ended.status, TaskState::Completed, "killed at {killed_at}");
        // The call that was cut short is made again under the same id, the others are not.
        for word in ["one", "two", "three"] {
            let ids = world.ids_of(word);
            assert_eq!(
                ids.len(),
                if word == killed_at { 2 } else { 1 },
                "{word} of {killed_at}"
            );
            assert!(
                ids.windows(2).all(|pair| pair[0] == pair[1]),
                "the effect id must not change"
            );
        }
        second.stop().await;
        world.assert_replays(task).await;
    }
}

#[tokio::test]
async fn a_call_that_must_not_be_repeated_asks_a_person_after_a_kill() {
    let world = World::new();
    world.set("one", Behaviour::of(Effect::Once));
    world.hang_on("one");
    let task = world.submit("one two").await;
    let worker = world.worker();
    world.until_performed("one").await;
    worker.kill();
    world.release();
    world.clock.advance(Duration::from_mins(1));
    let worker = world.worker();
    let waiting = world.engine.wait(&Viewer::System, task).await.unwrap();
    assert_eq!(waiting.status, TaskState::InputRequired);
    assert_eq!(world.performed(), ["one"], "nothing is made again unasked");
    let question = waiting.questions[0].id;
    let approve = QuestionAnswer::approve();
    let answered = world
        .engine
        .answer(&Viewer::System, task, Some(question), approve)
        .await;
    answered.unwrap();
    let ended = world.until_ended(task).await;
    assert_eq!(ended.status, TaskState::Completed);
    assert_eq!(world.performed(), ["one", "one", "two"]);
    let ids = world.ids_of("one");
    assert_eq!(ids[0], ids[1]);
    worker.stop().await;
    world.assert_replays(task).await;
}

#[tokio::test]
async fn a_rejected_call_is_reported_to_the_program_and_not_made() {
    let world = World::new();
    world.set(
        "one",
        Behaviour {
            fails: Some(FailureKind::Unknown),
            ..Behaviour::of(Effect::Once)
        },
    );
    let task = world.submit("one two").await;
    let worker = world.worker();
    let waiting = world.engine.wait(&Viewer::System, task).await.unwrap();
    assert_eq!(
        waiting.status,
        TaskState::InputRequired,
        "a lost answer is as unknown as a kill"
    );
    assert_eq!(waiting.questions.len(), 1);
    let reject = QuestionAnswer::reject().saying("it was booked by phone");
    world
        .engine
        .answer(&Viewer::System, task, None, reject)
        .await
        .unwrap();
    let ended = world.until_ended(task).await;
    assert_eq!(ended.status, TaskState::Failed);
    assert!(ended.error.unwrap().contains("it was booked by phone"));
    assert_eq!(world.performed(), ["one"]);
    worker.stop().await;
}

#[tokio::test]
async fn an_unanswered_question_expires() {
    let world = World::new();
    world.set(
        "one",
        Behaviour {
            fails: Some(FailureKind::Unknown),
            ..Behaviour::of(Effect::Once)
        },
    );
    let task = world.submit("one").await;
    let worker = world.worker();
    world.engine.wait(&Viewer::System, task).await.unwrap();
    worker.stop().await;
    world.clock.advance(Duration::from_hours(24));
    let worker = world.worker();
    let ended = world.until_ended(task).await;
    assert_eq!(ended.status, TaskState::Failed);
    assert!(ended.error.unwrap().contains("nobody said in time"));
    worker.stop().await;
}

#[tokio::test]
async fn a_repeatable_call_with_a_lost_answer_is_made_again_a_few_times() {
    let world = World::new();
    let lost = Behaviour {
        fails: Some(FailureKind::Unknown),
        ..Behaviour::of(Effect::Repeatable)
    };
    world.set("one", lost);
    let task = world.submit("one").await;
    let worker = world.worker();
    let ended = world.engine.wait(&Viewer::System, task).await.unwrap();
    assert_eq!(ended.status, TaskState::Failed);
    assert_eq!(world.ids_of("one").len(), 4, "once and three repetitions");
    worker.stop().await;
}

/// What a task's only failure means for the world outside.
async fn kind_of_failure(world: &World, task: Uuid) -> String {
    let journal = world
        .store
        .load(&Viewer::System, task, 1)
        .await
        .unwrap()
        .unwrap();
    let kinds = journal.entries.iter();
    let kinds = kinds.filter_map(|entry| entry.event["outcome"]["failed"]["kind"].as_str());
    let kinds: Vec<_> = kinds.collect();
    assert_eq!(kinds.len(), 1, "{kinds:?}");
    kinds[0].to_owned()
}

#[tokio::test]
async fn a_call_that_was_cut_short_never_fails_without_effect() {
    let world = World::new();
    world.set("one", Behaviour::of(Effect::Repeatable));
    world.hang_on("one");
    let task = world.submit("one").await;
    let worker = world.worker();
    world.until_performed("one").await;
    worker.kill();
    world.release();
    world.clock.advance(Duration::from_mins(1));
    // The second attempt does not even leave; the first may have arrived.
    let refused = Behaviour {
        fails: Some(FailureKind::NoEffect),
        ..Behaviour::of(Effect::Repeatable)
    };
    world.set("one", refused);
    let worker = world.worker();
    assert_eq!(world.until_ended(task).await.status, TaskState::Failed);
    assert_eq!(kind_of_failure(&world, task).await, "unknown");
    worker.stop().await;
    world.assert_replays(task).await;
}

#[tokio::test]
async fn a_call_that_changes_nothing_always_fails_without_effect() {
    for kind in [FailureKind::Unknown, FailureKind::Answered] {
        let world = World::new();
        let lost = Behaviour {
            fails: Some(kind),
            ..Behaviour::of(Effect::None)
        };
        world.set("one", lost);
        let task = world.submit("one").await;
        let worker = world.worker();
        assert_eq!(world.until_ended(task).await.status, TaskState::Failed);
        assert_eq!(kind_of_failure(&world, task).await, "no_effect");
        worker.stop().await;
    }
}

#[tokio::test]
async fn a_call_is_not_made_again_once_its_time_is_over() {
    for effect in [Effect::None, Effect::Repeatable] {
        let world = World::new();
        let lost = Behaviour {
            fails: Some(FailureKind::Unknown),
            brief: true,
            ..Behaviour::of(effect)
        };
        world.set("one", lost);
        let task = world.submit("one").await;
        let worker = world.worker();
        let ended = world.engine.wait(&Viewer::System, task).await.unwrap();
        assert_eq!(ended.status, TaskState::Failed);
        assert_eq!(world.performed(), ["one"]);
        worker.stop().await;
    }
}

#[tokio::test]
async fn a_lost_read_only_call_needs_no_decision_of_a_person() {
    let world = World::new();
    let lost = Behaviour {
        fails: Some(FailureKind::Unknown),
        ..Behaviour::of(Effect::AtMostOnce)
    };
    world.set("one", lost);
    let task = world.submit("one").await;
    let worker = world.worker();
    let ended = world.engine.wait(&Viewer::System, task).await.unwrap();
    assert_eq!(ended.status, TaskState::Failed);
    assert_eq!(world.performed(), ["one"], "nor is it made again");
    worker.stop().await;

    let world = World::new();
    world.set("one", Behaviour::of(Effect::AtMostOnce));
    world.hang_on("one");
    let task = world.submit("one").await;
    let worker = world.worker();
    world.until_performed("one").await;
    worker.kill();
    world.clock.advance(Duration::from_mins(1));
    let worker = world.worker();
    let ended = world.until_ended(task).await;
    assert_eq!(ended.status, TaskState::Failed);
    assert!(ended.error.unwrap().contains("interrupted"));
    assert_eq!(world.performed(), ["one"], "not after a kill, either");
    worker.stop().await;
    world.assert_replays(task).await;
}

#[tokio::test]
async fn a_call_that_fails_as_the_time_ends_does_not_hide_that_the_time_has_ended() {
    let world = World::with_task_time(Duration::from_hours(1));
    let lost = Behaviour {
        fails: Some(FailureKind::NoEffect),
        ..Behaviour::of(Effect::None)
    };
    world.set("one", lost);
    world.hang_on("one");
    let task = world.submit("one").await;
    let worker = world.worker();
    world.until_performed("one").await;
    world.clock.advance(Duration::from_hours(1));
    world.release();
    let ended = world.until_ended(task).await;
    assert_eq!(ended.error.as_deref(), Some("too late"));
    worker.stop().await;
}

#[tokio::test]
async fn nothing_changes_the_world_before_the_journal_is_durable() {
    let world = World::new();
    world.set("look", Behaviour::of(Effect::None));
    world.set("pay", Behaviour::of(Effect::Repeatable));
    let task = world.submit("look pay").await;
    world.close_gate();
    let worker = world.worker();
    world.until_performed("look").await;
    world.until_appended(1).await;
    for _ in 0..1_000 {
        tokio::task::yield_now().await;
    }
    assert_eq!(
        world.performed(),
        ["look"],
        "paying waits for the disk, looking does not"
    );
    world.open_gate();
    let ended = world.engine.wait(&Viewer::System, task).await.unwrap();
    assert_eq!(ended.status, TaskState::Completed);
    assert_eq!(world.performed(), ["look", "pay"]);
    worker.stop().await;
}

#[tokio::test]
async fn a_stopped_worker_puts_its_task_down_where_the_next_one_finds_it() {
    let world = World::new();
    for word in ["one", "two", "three"] {
        world.set(word, Behaviour::of(Effect::Once));
    }
    world.hang_on("two");
    let task = world.submit("one two three").await;
    let worker = world.worker();
    world.until_performed("two").await;
    let stopping = worker.begin_to_stop();
    world.release();
    stopping.await;
    let record = world
        .store
        .load(&Viewer::System, task, u64::MAX)
        .await
        .unwrap()
        .unwrap()
        .record;
    assert_eq!(record.status, TaskState::Working);
    assert_eq!(record.worker, None);
    let worker = world.worker();
    let ended = world.engine.wait(&Viewer::System, task).await.unwrap();
    assert_eq!(ended.status, TaskState::Completed, "nobody had to be asked");
    assert_eq!(world.performed(), ["one", "two", "three"]);
    worker.stop().await;
}

#[tokio::test]
async fn a_canceled_task_makes_no_more_calls() {
    let world = World::new();
    world.hang_on("one");
    let task = world.submit("one two").await;
    let worker = world.worker();
    world.until_performed("one").await;
    let reason = Some("changed my mind");
    world
        .engine
        .cancel(&Viewer::System, task, reason)
        .await
        .unwrap();
    let again = world.engine.cancel(&Viewer::System, task, None).await;
    again.unwrap();
    let ended = world.engine.wait(&Viewer::System, task).await.unwrap();
    assert_eq!(ended.status, TaskState::Canceled);
    assert_eq!(ended.error.as_deref(), Some("changed my mind"));
    world.release();
    assert_eq!(world.performed(), ["one"]);
    worker.stop().await;
}

#[tokio::test]
async fn at_the_deadline_the_task_ends_with_what_the_program_has_to_say() {
    let world = World::with_task_time(Duration::from_millis(50));
    world.hang_on("one");
    let task = world.submit("one two").await;
    let worker = world.worker();
    world.until_performed("one").await;
    world.clock.advance(Duration::from_millis(50));
    let ended = world.engine.wait(&Viewer::System, task).await.unwrap();
    assert_eq!(ended.status, TaskState::Failed);
    assert_eq!(ended.answer.unwrap().text, "too late");
    world.release();
    worker.stop().await;
}

#[tokio::test]
async fn a_task_that_is_claimed_again_and_again_without_progress_is_set_aside() {
    let world = World::new();
    let task = world.submit("one").await;
    for _ in 0..5 {
        world.claim_and_forget().await;
        world.clock.advance(Duration::from_mins(1));
    }
    let worker = world.worker();
    let ended = world.engine.wait(&Viewer::System, task).await.unwrap();
    assert_eq!(ended.status, TaskState::Failed);
    assert!(ended.error.unwrap().contains("poisoned"));
    assert!(world.performed().is_empty());
    worker.stop().await;
}

#[tokio::test]
async fn two_workers_share_the_work_and_no_task_is_done_twice() {
    let world = World::new();
    for word in ["a", "b"] {
        world.set(word, Behaviour::of(Effect::Once));
    }
    let mut tasks = Vec::new();
    for _ in 0..100 {
        tasks.push(world.submit("a b").await);
    }
    let (first, second) = (world.worker(), world.worker());
    for task in tasks {
        assert_eq!(
            world
                .engine
                .wait(&Viewer::System, task)
                .await
                .unwrap()
                .status,
            TaskState::Completed
        );
    }
    assert_eq!(world.performed().len(), 200);
    first.stop().await;
    second.stop().await;
}

#[tokio::test]
async fn a_worker_that_lost_its_lease_cannot_write() {
    let world = World::new();
    world.hang_on("one");
    let task = world.submit("one").await;
    let slow = world.worker();
    world.until_performed("one").await;
    // Long enough for the lease to run out before it is renewed.
    world.clock.advance(Duration::from_mins(1));
    world.claim_and_forget().await;
    let before = world.store.load(&Viewer::System, task, 1).await.unwrap();
    world.release();
    slow.stop().await;
    let after = world.store.load(&Viewer::System, task, 1).await.unwrap();
    assert_eq!(
        before, after,
        "the old worker's outcome must not be written"
    );
    assert!(world.clock.now() > after.unwrap().record.created_at);
}

#[tokio::test]
async fn a_call_that_needs_leave_is_made_only_once_somebody_agrees() {
    let world = World::new();
    world.set("pay?", Behaviour::of(Effect::Once));
    let task = world.submit("look pay?").await;
    let worker = world.worker();
    let waiting = world.engine.wait(&Viewer::System, task).await.unwrap();
    assert_eq!(waiting.status, TaskState::InputRequired);
    assert_eq!(waiting.questions[0].prompt, "May I do pay?");
    worker.stop().await;
    // The question outlives the process that asked it.
    world.clock.advance(Duration::from_hours(23));
    let worker = world.worker();
    assert_eq!(world.performed(), ["look"]);
    world.answer(task, QuestionAnswer::approve()).await;
    assert_eq!(world.until_ended(task).await.status, TaskState::Completed);
    assert_eq!(world.performed(), ["look", "pay?"]);
    worker.stop().await;
    world.assert_replays(task).await;
}

#[tokio::test]
async fn a_person_may_change_what_a_call_is_given() {
    let world = World::new();
    let task = world.submit("pay?").await;
    let worker = world.worker();
    world
        .answer(task, QuestionAnswer::modify(json!({ "amount": 3 })))
        .await;
    assert_eq!(world.until_ended(task).await.status, TaskState::Completed);
    assert_eq!(world.last_arguments(), json!({"amount": 3}));
    worker.stop().await;
    world.assert_replays(task).await;
}

#[tokio::test]
async fn a_call_that_somebody_rejects_is_not_made() {
    let world = World::new();
    let task = world.submit("pay?").await;
    let worker = world.worker();
    world
        .answer(task, QuestionAnswer::reject().saying("too dear"))
        .await;
    let ended = world.until_ended(task).await;
    assert_eq!(ended.error.as_deref(), Some("too dear"));
    assert!(world.performed().is_empty());
    worker.stop().await;
    world.assert_replays(task).await;
}

#[tokio::test]
async fn a_worker_that_stops_before_a_call_leaves_it_to_the_next_and_makes_it_not() {
    for verdict in [None, Some(false)] {
        let world = World::new();
        let behaviour = Behaviour {
            verdict,
            ..Behaviour::of(Effect::Once)
        };
        world.set("one", behaviour);
        world.hands.classification.close();
        let task = world.submit("one").await;
        let worker = world.worker();
        world.hands.classification.until_reached().await;
        let stopped = worker.begin_to_stop();
        world.hands.classification.open();
        stopped.await;
        assert!(world.performed().is_empty(), "it has given the task back");
        let left = world
            .store
            .load(&Viewer::System, task, 1)
            .await
            .unwrap()
            .unwrap();
        assert_eq!(left.record.worker, None, "the next worker need not wait");
        let next = world.worker();
        let ended = world.engine.wait(&Viewer::System, task).await.unwrap();
        assert_eq!(ended.status, TaskState::Completed, "nobody has to be asked");
        assert_eq!(world.performed(), ["one"]);
        next.stop().await;
    }
}

#[tokio::test]
async fn a_worker_that_stops_while_an_outcome_is_verified_does_not_make_the_call_again() {
    let world = World::new();
    let behaviour = Behaviour {
        verdict: Some(false),
        ..Behaviour::of(Effect::Once)
    };
    world.set("one", behaviour);
    world.hang_on("one");
    let task = world.submit("one").await;
    let worker = world.worker();
    world.until_performed("one").await;
    worker.kill();
    world.release();
    world.clock.advance(Duration::from_mins(1));
    world.hands.verification.close();
    let worker = world.worker();
    world.hands.verification.until_reached().await;
    let stopped = worker.begin_to_stop();
    world.hands.verification.open();
    stopped.await;
    assert_eq!(world.performed(), ["one"], "it has given the task back");
    let next = world.worker();
    let ended = world.engine.wait(&Viewer::System, task).await.unwrap();
    assert_eq!(ended.status, TaskState::Completed);
    assert_eq!(
        world.performed(),
        ["one", "one"],
        "found not done, made once"
    );
    next.stop().await;
}
