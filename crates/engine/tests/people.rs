//! What people say to tasks, what tools say of calls that were cut short, and tasks that begin at a point of
//! another: shown with a small program over the in-memory store.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

#[allow(dead_code, reason = "each test file uses its own part of it")]
mod world;

use std::sync::Arc;
use std::time::Duration;

use convoke_engine::{Effect, EngineError, FailureKind, QuestionAnswer};
use convoke_model::{Answerer, TaskState, UserId, UserRole};
use convoke_store::{Store, Viewer};
use convoke_testkit::RecordedMetrics;
use serde_json::{Map, json};
use uuid::Uuid;
use world::{Behaviour, WordEditions, World};

const APPROVE: QuestionAnswer = QuestionAnswer::Approve { message: None };

fn reject() -> QuestionAnswer {
    QuestionAnswer::Reject {
        message: Some("not today".into()),
    }
}

fn code(refused: Result<(), EngineError>) -> (&'static str, String) {
    let error = refused.unwrap_err();
    (error.code(), error.to_string())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_answers_at_once_exactly_one_is_accepted_and_the_others_get_an_error() {
    let world = World::new();
    let task = world.submit("pay?").await;
    let worker = world.worker();
    let waiting = world.engine.wait(&Viewer::System, task).await.unwrap();
    let question = Some(waiting.questions[0].id);
    worker.stop().await;
    let mut people = tokio::task::JoinSet::new();
    for person in 0..40 {
        let engine = world.engine.clone();
        people.spawn(async move {
            let answer = if person % 2 == 0 { APPROVE } else { reject() };
            let action = answer.action();
            (
                action,
                engine.answer(&Viewer::System, task, question, answer).await,
            )
        });
    }
    let outcomes = people.join_all().await;
    let taken: Vec<_> = outcomes
        .iter()
        .filter(|(_, outcome)| outcome.is_ok())
        .collect();
    assert_eq!(taken.len(), 1);
    let said = format!("answered with {}", taken[0].0);
    for error in outcomes
        .iter()
        .filter_map(|(_, outcome)| outcome.as_ref().err())
    {
        assert_eq!(error.code(), "question.answered");
        assert!(error.to_string().contains(&said), "{error}, not {said}");
    }
    let worker = world.worker();
    let ended = world.until_ended(task).await;
    let approved = taken[0].0 == "approve";
    assert_eq!(ended.status == TaskState::Completed, approved);
    assert_eq!(world.performed().len(), usize::from(approved));
    let late = code(
        world
            .engine
            .answer(&Viewer::System, task, question, reject())
            .await,
    );
    assert_eq!(late.0, "question.answered");
    assert!(late.1.contains(&said), "{}", late.1);
    let none = code(
        world
            .engine
            .answer(&Viewer::System, task, None, reject())
            .await,
    );
    assert_eq!(none.0, "question.none");
    assert!(none.1.contains(&said), "{}", none.1);
    worker.stop().await;
}

#[tokio::test]
async fn an_answer_after_expiry_is_refused_whether_or_not_anybody_noticed() {
    let world = World::new();
    let task = world.submit("pay?").await;
    let worker = world.worker();
    let question = Some(
        world
            .engine
            .wait(&Viewer::System, task)
            .await
            .unwrap()
            .questions[0]
            .id,
    );
    worker.stop().await;
    world.clock.advance(Duration::from_hours(24));
    let refused = code(
        world
            .engine
            .answer(&Viewer::System, task, question, APPROVE)
            .await,
    );
    assert_eq!(refused.0, "question.expired");
    let worker = world.worker();
    assert_eq!(world.until_ended(task).await.status, TaskState::Failed);
    let refused = code(
        world
            .engine
            .answer(&Viewer::System, task, question, APPROVE)
            .await,
    );
    assert_eq!(refused.0, "question.expired");
    assert!(refused.1.contains("nobody answered"), "{}", refused.1);
    assert!(world.performed().is_empty());
    worker.stop().await;
}

#[tokio::test]
async fn an_answer_a_moment_before_expiry_resumes_exactly_there() {
    let world = World::new();
    let task = world.submit("one pay? two").await;
    let worker = world.worker();
    world.engine.wait(&Viewer::System, task).await.unwrap();
    worker.stop().await;
    world
        .clock
        .advance(Duration::from_hours(24) - Duration::from_millis(1));
    world
        .engine
        .answer(&Viewer::System, task, None, APPROVE)
        .await
        .unwrap();
    let worker = world.worker();
    assert_eq!(world.until_ended(task).await.status, TaskState::Completed);
    assert_eq!(world.performed(), ["one", "pay?", "two"]);
    worker.stop().await;
    world.assert_replays(task).await;
}

#[tokio::test]
async fn what_cannot_be_used_is_refused_and_the_question_stays_open() {
    let world = World::new();
    let task = world.submit("pay?").await;
    let worker = world.worker();
    world.engine.wait(&Viewer::System, task).await.unwrap();
    let unusable = QuestionAnswer::Modify { value: json!(5) };
    let refused = code(
        world
            .engine
            .answer(&Viewer::System, task, None, unusable)
            .await,
    );
    assert_eq!(refused.0, "answer.unusable");
    let unknown = Some(Uuid::from_u128(9));
    let refused = code(
        world
            .engine
            .answer(&Viewer::System, task, unknown, APPROVE)
            .await,
    );
    assert_eq!(refused.0, "question.not_found");
    let usable = QuestionAnswer::Modify {
        value: json!({ "word": "less" }),
    };
    world
        .engine
        .answer(&Viewer::System, task, None, usable)
        .await
        .unwrap();
    world.until_ended(task).await;
    assert_eq!(world.last_arguments(), json!({ "word": "less" }));
    worker.stop().await;
}

/// A task whose call was cut short after it was begun.
async fn cut_short(world: &World, verdict: Option<bool>) -> Uuid {
    world.set(
        "pay",
        Behaviour {
            verdict,
            ..Behaviour::of(Effect::Once)
        },
    );
    world.hang_on("pay");
    let task = world.submit("pay two").await;
    let worker = world.worker();
    world.until_performed("pay").await;
    worker.kill();
    world.release();
    world.clock.advance(Duration::from_mins(1));
    task
}

#[tokio::test]
async fn a_call_that_is_found_to_have_taken_effect_is_not_made_again() {
    let world = World::new();
    let task = cut_short(&world, Some(true)).await;
    let worker = world.worker();
    assert_eq!(world.until_ended(task).await.status, TaskState::Completed);
    assert_eq!(world.performed(), ["pay", "two"]);
    worker.stop().await;
    world.assert_replays(task).await;
}

#[tokio::test]
async fn a_call_that_is_found_not_to_have_taken_effect_is_made_again_under_its_id() {
    let world = World::new();
    let task = cut_short(&world, Some(false)).await;
    let worker = world.worker();
    assert_eq!(world.until_ended(task).await.status, TaskState::Completed);
    assert_eq!(world.performed(), ["pay", "pay", "two"]);
    let ids = world.ids_of("pay");
    assert_eq!(ids[0], ids[1]);
    worker.stop().await;
    world.assert_replays(task).await;
}

#[tokio::test]
async fn a_call_of_which_nobody_can_tell_waits_for_a_person() {
    let world = World::new();
    let task = cut_short(&world, None).await;
    let worker = world.worker();
    let waiting = world.engine.wait(&Viewer::System, task).await.unwrap();
    assert_eq!(waiting.status, TaskState::InputRequired);
    assert_eq!(world.performed(), ["pay"]);
    worker.stop().await;
}

#[tokio::test]
async fn a_question_about_an_unknown_outcome_gives_its_cause() {
    let world = World::new();
    let lost = Behaviour {
        fails: Some(FailureKind::Unknown),
        ..Behaviour::of(Effect::Once)
    };
    world.set("pay", lost);
    let task = world.submit("pay").await;
    let worker = world.worker();
    let prompt = prompt(&world, task).await;
    assert!(prompt.contains("taken effect: it failed. "), "{prompt}");
    worker.stop().await;
    world.assert_replays(task).await;

    let world = World::new();
    let task = cut_short(&world, None).await;
    let worker = world.worker();
    let prompt = self::prompt(&world, task).await;
    let cause = "taken effect: the worker that made it was gone before an answer came. ";
    assert!(prompt.contains(cause), "{prompt}");
    worker.stop().await;
}

/// What a task asks.
async fn prompt(world: &World, task: Uuid) -> String {
    let waiting = world.engine.wait(&Viewer::System, task).await.unwrap();
    waiting.questions[0].prompt.clone()
}

#[tokio::test]
async fn a_possible_effect_is_asked_about_again_if_it_cannot_be_repeated() {
    let world = World::new();
    let task = cut_short(&world, None).await;
    let refused = Behaviour {
        fails: Some(FailureKind::NoEffect),
        ..Behaviour::of(Effect::Once)
    };
    world.set("pay", refused);
    let worker = world.worker();
    let first = world
        .engine
        .wait(&Viewer::System, task)
        .await
        .unwrap()
        .questions
        .remove(0);
    world
        .engine
        .answer(&Viewer::System, task, None, APPROVE)
        .await
        .unwrap();
    let again = world
        .engine
        .wait_beyond(&Viewer::System, task, first.seq + 1)
        .await
        .unwrap();
    assert_eq!(again.status, TaskState::InputRequired, "{:?}", again.error);
    assert!(again.questions[0].prompt.contains("it failed"));
    worker.stop().await;
    world.assert_replays(task).await;
}

#[tokio::test]
async fn a_call_that_never_takes_effect_is_left_to_a_person_in_the_end() {
    let world = World::new();
    world.set(
        "pay",
        Behaviour {
            fails: Some(FailureKind::Unknown),
            verdict: Some(false),
            ..Behaviour::of(Effect::Once)
        },
    );
    let task = world.submit("pay").await;
    let worker = world.worker();
    let waiting = world.engine.wait(&Viewer::System, task).await.unwrap();
    assert_eq!(waiting.status, TaskState::InputRequired);
    assert_eq!(world.performed().len(), 4, "once and three repetitions");
    worker.stop().await;
}

#[tokio::test]
async fn a_fork_makes_its_calls_with_new_ids() {
    let world = World::new();
    let task = world.submit("one two three").await;
    let worker = world.worker();
    world.until_ended(task).await;
    let fork = world
        .engine
        .fork(&Viewer::System, task, 3, Map::new())
        .await
        .unwrap();
    let ended = world.until_ended(fork).await;
    assert_eq!(ended.status, TaskState::Completed);
    assert_eq!(ended.answer.unwrap().text, "one two three");
    assert_eq!(world.performed(), ["one", "two", "three", "two", "three"]);
    let ids = world.ids_of("two");
    assert_ne!(ids[0], ids[1]);
    let journal = world
        .store
        .load(&Viewer::System, fork, 1)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(journal.entries[0].kind, "forked");
    assert_eq!(journal.entries[0].event["from"], task.to_string());

    let refused = world
        .engine
        .fork(&Viewer::System, task, 5, Map::new())
        .await
        .unwrap_err();
    assert_eq!(refused.code(), "task.fork_ended");
    let refused = world
        .engine
        .fork(&Viewer::System, task, 99, Map::new())
        .await
        .unwrap_err();
    assert_eq!(refused.code(), "task.no_such_step");
    let set = Map::from_iter([("field".to_owned(), json!(1))]);
    let refused = world
        .engine
        .fork(&Viewer::System, task, 3, set)
        .await
        .unwrap_err();
    assert_eq!(refused.code(), "task.fork_refused");
    worker.stop().await;
}

#[tokio::test]
async fn a_question_that_was_open_is_asked_again_in_a_fork() {
    let world = World::new();
    let task = world.submit("pay?").await;
    let worker = world.worker();
    let waiting = world.engine.wait(&Viewer::System, task).await.unwrap();
    let at = world
        .store
        .newest(&Viewer::System, task)
        .await
        .unwrap()
        .unwrap()
        .0
        .seq;
    let fork = world
        .engine
        .fork(&Viewer::System, task, at, Map::new())
        .await
        .unwrap();
    let asked = world.engine.wait(&Viewer::System, fork).await.unwrap();
    assert_eq!(asked.questions[0].prompt, waiting.questions[0].prompt);
    assert_ne!(asked.questions[0].id, waiting.questions[0].id);
    world
        .engine
        .answer(&Viewer::System, fork, None, APPROVE)
        .await
        .unwrap();
    assert_eq!(world.until_ended(fork).await.status, TaskState::Completed);
    let untouched = world.engine.wait(&Viewer::System, task).await.unwrap();
    assert_eq!(untouched.status, TaskState::InputRequired);
    worker.stop().await;
}

#[tokio::test]
async fn a_task_continues_with_its_edition() {
    let world = World::new();
    let old = world.edition("old").submit(world.request("one")).await;
    let elsewhere = world.edition("elsewhere");
    let foreign = elsewhere.submit(world.request("two")).await;
    let (old, foreign) = (old.unwrap().id(), foreign.unwrap().id());
    let shelf = Arc::new(WordEditions {
        hands: Arc::clone(&world.hands),
        ..WordEditions::default()
    });
    let worker = world.worker_of(&world.engine, Some(shelf.clone()));
    assert_eq!(world.until_ended(old).await.status, TaskState::Completed);
    while world.engine.unrunnable().is_empty() {
        tokio::task::yield_now().await;
    }
    // What cannot be run is left as it is, and is nobody's fault.
    let new = world.submit("three").await;
    world.until_ended(new).await;
    worker.stop().await;
    assert_eq!(
        world.engine.unrunnable()["elsewhere"],
        "a secret is missing"
    );
    let mut opened = shelf.opened.lock().unwrap().clone();
    opened.sort();
    assert_eq!(opened, ["elsewhere", "old"]);
    let left = world
        .store
        .load(&Viewer::System, foreign, 1)
        .await
        .unwrap()
        .unwrap();
    assert_eq!((left.record.claims, left.record.worker), (0, None));
    assert_eq!(left.entries.last().unwrap().kind, "put_back");
    let mut performed = world.performed();
    performed.sort();
    assert_eq!(performed, ["one", "three"]);

    // Whoever can run it goes on with it.
    let worker = world.worker_of(&elsewhere, None);
    assert_eq!(
        world.until_ended(foreign).await.status,
        TaskState::Completed
    );
    worker.stop().await;
    world.assert_replays(foreign).await;
}

#[tokio::test]
async fn a_call_that_is_asked_about_again_is_answered_again_in_the_same_moment() {
    let world = World::new();
    // The clock stands still, so that both questions expire at the same time.
    world.set(
        "pay?",
        Behaviour {
            fails: Some(FailureKind::Unknown),
            ..Behaviour::of(Effect::Once)
        },
    );
    let task = world.submit("pay?").await;
    let worker = world.worker();
    let first = world
        .engine
        .wait(&Viewer::System, task)
        .await
        .unwrap()
        .questions
        .remove(0);
    world
        .engine
        .answer(&Viewer::System, task, None, APPROVE)
        .await
        .unwrap();
    let second = world
        .engine
        .wait_beyond(&Viewer::System, task, first.seq + 1)
        .await
        .unwrap();
    let second = &second.questions[0];
    assert_eq!((first.id, first.expires_at), (second.id, second.expires_at));
    let given = QuestionAnswer::Modify {
        value: json!("receipt"),
    };
    world
        .engine
        .answer(&Viewer::System, task, None, given)
        .await
        .unwrap();
    assert_eq!(world.until_ended(task).await.status, TaskState::Completed);
    worker.stop().await;
}

#[tokio::test]
async fn who_may_answer_is_decided_by_the_call_that_the_question_is_about() {
    let world = World::new();
    let worker = world.worker();
    let task = world.submit("pay!?&tell?").await;
    let waiting = world.engine.wait(&Viewer::System, task).await.unwrap();
    let question = |word: &str| {
        let asked = waiting.questions.iter();
        let mut about = asked.filter(|asked| asked.prompt.contains(word));
        Some(about.next().unwrap().id)
    };
    let answer = async |user, role, word| {
        let (engine, by) = (&world.engine, Answerer { user, role });
        let answered = engine.answer_as(&Viewer::System, by, task, question(word), APPROVE);
        answered.await
    };
    let (requester, other) = (UserId(Uuid::from_u128(7)), UserId(Uuid::from_u128(8)));
    let refused = answer(requester, UserRole::User, "pay").await;
    assert_eq!(code(refused).0, "answer.not_allowed");
    answer(requester, UserRole::User, "tell").await.unwrap();
    answer(other, UserRole::Operator, "pay").await.unwrap();
    assert_eq!(world.until_ended(task).await.status, TaskState::Completed);
    let mut performed = world.performed();
    performed.sort();
    assert_eq!(performed, ["pay!?", "tell?"]);
    worker.stop().await;
}

#[tokio::test]
async fn a_question_can_be_put_off_by_exactly_the_time_that_a_person_has() {
    let world = World::new();
    let worker = world.worker();
    let task = world.submit("pay?").await;
    let waiting = world.engine.wait(&Viewer::System, task).await.unwrap();
    let question = Some(waiting.questions[0].id);
    let put_off = async |pause: Duration| {
        let pause_ms = u64::try_from(pause.as_millis()).unwrap();
        let answer = QuestionAnswer::Snooze { pause_ms };
        let engine = &world.engine;
        engine.answer(&Viewer::System, task, question, answer).await
    };
    let longest = Duration::from_hours(24);
    let refused = put_off(longest + Duration::from_millis(1)).await;
    assert_eq!(code(refused).0, "answer.unusable");
    put_off(longest).await.unwrap();
    worker.stop().await;
}

#[tokio::test]
async fn questions_that_were_put_off_until_the_same_time_are_asked_again_together() {
    let recorded = RecordedMetrics::install().unwrap();
    let world = World::new();
    let worker = world.worker();
    let task = world.submit("pay?&tell?").await;
    let waiting = world.engine.wait(&Viewer::System, task).await.unwrap();
    worker.stop().await;
    for question in &waiting.questions {
        let answer = QuestionAnswer::Snooze { pause_ms: 60_000 };
        let (viewer, question) = (&Viewer::System, Some(question.id));
        let put_off = world.engine.answer(viewer, task, question, answer).await;
        put_off.unwrap();
    }
    let number_of = async |kind: &str| {
        let journal = world.store.load(&Viewer::System, task, 1).await.unwrap();
        let entries = journal.unwrap().entries;
        entries.iter().filter(|entry| entry.kind == kind).count()
    };
    let worker = world.worker();
    while number_of("answered").await < 2 {
        tokio::task::yield_now().await;
    }
    worker.stop().await;
    world.clock.advance(Duration::from_mins(1));
    let worker = world.worker();
    while number_of("reminded").await < 2 {
        tokio::task::yield_now().await;
    }
    for question in &waiting.questions {
        let (viewer, question) = (&Viewer::System, Some(question.id));
        let answered = world.engine.answer(viewer, task, question, APPROVE).await;
        answered.unwrap();
    }
    assert_eq!(world.until_ended(task).await.status, TaskState::Completed);
    worker.stop().await;
    let dropped = recorded.labels_of("convoke.tasks.dropped");
    assert!(dropped.is_empty(), "{dropped:?}");
}
