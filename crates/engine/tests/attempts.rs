//! How often a call is made, and what its failure means once all attempts are counted.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

#[allow(dead_code, reason = "each test file uses its own part of it")]
mod world;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use convoke_engine::{
    Call, CallContext, Effect, EngineError, Executor, Failure, FailureKind, Options, Outcome,
    QuestionAnswer, TaskOutcome, Worker,
};
use convoke_model::TaskState;
use convoke_store::{Store, Viewer};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use world::{Words, World};

const PAUSE: Duration = Duration::from_millis(1);

/// Gives one outcome after the other, whatever is asked.
struct Outcomes {
    left: Mutex<VecDeque<Outcome<Value>>>,
    attempts: AtomicUsize,
    /// How long after the task was accepted the time of its calls is over.
    time: Duration,
}

impl Outcomes {
    /// `None` is that it works.
    fn new(time: Duration, outcomes: impl IntoIterator<Item = Option<FailureKind>>) -> Arc<Self> {
        let outcome = |failure: Option<FailureKind>| match failure {
            None => Outcome::Done(json!("done")),
            Some(kind) => {
                Outcome::Failed(Failure::new(kind, "word.failed", "it failed").transient())
            }
        };
        Self::of(time, outcomes.into_iter().map(outcome))
    }

    fn of(time: Duration, outcomes: impl IntoIterator<Item = Outcome<Value>>) -> Arc<Self> {
        Arc::new(Self {
            left: Mutex::new(outcomes.into_iter().collect()),
            attempts: AtomicUsize::new(0),
            time,
        })
    }

    fn attempts(&self) -> usize {
        self.attempts.load(Ordering::SeqCst)
    }
}

impl Executor<Words> for Outcomes {
    async fn effect(&self, _: &CallContext, _: &Call<Value>) -> Result<Effect, Failure> {
        Ok(Effect::Repeatable)
    }

    fn ends(&self, call_context: &CallContext, _: &Call<Value>) -> Timestamp {
        call_context
            .facts
            .created_at
            .checked_add(self.time)
            .unwrap()
    }

    async fn perform(&self, _: &CallContext, _: &Call<Value>) -> Outcome<Value> {
        self.attempts.fetch_add(1, Ordering::SeqCst);
        self.left.lock().unwrap().pop_front().unwrap()
    }
}

/// Runs a task of one call to its end.
async fn run<X: Executor<Words>>(world: &World, executor: &Arc<X>) -> TaskOutcome {
    run_until(world, executor, world.engine.run(world.request("word"))).await
}

/// Runs a worker for as long as something takes.
async fn run_until<X: Executor<Words>>(
    world: &World,
    executor: &Arc<X>,
    asked: impl Future<Output = Result<TaskOutcome, EngineError>>,
) -> TaskOutcome {
    let options = Options {
        repeat_pause: PAUSE,
        poll: PAUSE,
        ..Options::for_worker("worker")
    };
    let worker = Worker::new(world.engine.clone(), Arc::clone(executor), options);
    let stop = CancellationToken::new();
    let asking = async {
        let ended = asked.await.unwrap();
        stop.cancel();
        ended
    };
    let (ran, ended) = tokio::join!(worker.run(stop.clone()), asking);
    ran.unwrap();
    ended
}

/// What the journal says of the effect of a task's only call, which has failed.
async fn told_of_failure(world: &World, ended: &TaskOutcome) -> String {
    let loaded = world
        .store
        .load(&Viewer::System, ended.facts.id, 1)
        .await
        .unwrap()
        .unwrap();
    let returned = (loaded.entries.iter())
        .find(|entry| entry.kind == "returned")
        .unwrap();
    let kind = &returned.event["outcome"]["failed"]["kind"];
    kind.as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_failure_of_the_first_attempt_without_effect_is_reported_as_one() {
    let world = World::new();
    let outcomes = Outcomes::new(Duration::from_secs(30), [Some(FailureKind::NoEffect)]);
    let ended = run(&world, &outcomes).await;
    assert_eq!(ended.status, TaskState::Failed);
    assert_eq!(told_of_failure(&world, &ended).await, "no_effect");
}

#[tokio::test]
async fn a_failure_after_an_attempt_with_a_lost_answer_is_unknown() {
    let world = World::new();
    let failures = [Some(FailureKind::Unknown), Some(FailureKind::NoEffect)];
    let outcomes = Outcomes::new(Duration::from_secs(30), failures);
    let ended = run(&world, &outcomes).await;
    assert_eq!(ended.status, TaskState::Failed);
    assert_eq!(outcomes.attempts(), 2);
    assert_eq!(told_of_failure(&world, &ended).await, "unknown");
}

#[tokio::test]
async fn a_call_is_not_made_again_where_its_time_ends_with_the_pause() {
    let world = World::new();
    let outcomes = Outcomes::new(PAUSE, [Some(FailureKind::Unknown), None]);
    let ended = run(&world, &outcomes).await;
    assert_eq!(ended.status, TaskState::Failed);
    assert_eq!(outcomes.attempts(), 1);
}

#[tokio::test]
async fn the_pause_before_a_repetition_is_longer_each_time() {
    let world = World::new();
    // There is time for one pause, and none for the next, which is twice as long.
    let lost = Some(FailureKind::Unknown);
    let outcomes = Outcomes::new(PAUSE * 2, [lost, lost, None]);
    let ended = run(&world, &outcomes).await;
    assert_eq!(ended.status, TaskState::Failed);
    assert_eq!(outcomes.attempts(), 2);
}

/// Says one after the other what its calls may do to the world, and loses their answers.
struct Lossy {
    effects: Mutex<VecDeque<Result<Effect, Failure>>>,
    attempts: AtomicUsize,
}

impl Lossy {
    fn new(effects: impl IntoIterator<Item = Result<Effect, Failure>>) -> Arc<Self> {
        Arc::new(Self {
            effects: Mutex::new(effects.into_iter().collect()),
            attempts: AtomicUsize::new(0),
        })
    }
}

impl Executor<Words> for Lossy {
    async fn effect(&self, _: &CallContext, _: &Call<Value>) -> Result<Effect, Failure> {
        self.effects.lock().unwrap().pop_front().unwrap()
    }

    fn ends(&self, call_context: &CallContext, _: &Call<Value>) -> Timestamp {
        call_context.deadline
    }

    async fn perform(&self, _: &CallContext, _: &Call<Value>) -> Outcome<Value> {
        self.attempts.fetch_add(1, Ordering::SeqCst);
        Outcome::Failed(Failure::new(
            FailureKind::Unknown,
            "word.lost",
            "no answer came",
        ))
    }
}

fn not_told() -> Result<Effect, Failure> {
    Err(Failure::no_effect("tool.gone", "nobody knows the tool"))
}

#[tokio::test]
async fn a_call_of_which_nobody_knows_what_it_does_is_not_made_and_has_failed() {
    // Before the call is journaled as started, and after.
    for effects in [vec![not_told()], vec![Ok(Effect::Once), not_told()]] {
        let world = World::new();
        let lossy = Lossy::new(effects);
        let ended = run(&world, &lossy).await;
        assert_eq!(ended.status, TaskState::Failed);
        assert_eq!(lossy.attempts.load(Ordering::SeqCst), 0);
        assert_eq!(told_of_failure(&world, &ended).await, "no_effect");
    }
}

#[tokio::test]
async fn a_repetition_of_which_nobody_knows_what_it_does_leaves_the_outcome_unknown() {
    let world = World::new();
    let lossy = Lossy::new([Ok(Effect::Once), Ok(Effect::Once), not_told()]);
    let engine = &world.engine;
    let asked = async {
        let first = engine.run(world.request("word")).await?;
        let task = first.facts.id;
        let seq = async || {
            let record = world.store.task(&Viewer::System, task).await.unwrap();
            record.unwrap().seq
        };
        let waits_at = seq().await;
        let repeat = QuestionAnswer::Approve { message: None };
        let question = Some(first.questions[0].id);
        let viewer = &Viewer::System;
        engine.answer(viewer, task, question, repeat).await?;
        engine.wait_beyond(viewer, task, waits_at).await
    };
    let waiting = run_until(&world, &lossy, asked).await;
    assert_eq!(
        waiting.status,
        TaskState::InputRequired,
        "it may have taken effect"
    );
    assert_eq!(lossy.attempts.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_call_that_is_put_off_for_a_moment_is_made_again_by_the_same_worker() {
    let world = World::new();
    let busy = Failure::no_effect("word.busy", "try again").retry_in(PAUSE);
    let outcomes = [Outcome::Failed(busy), Outcome::Done(json!("done"))];
    let outcomes = Outcomes::of(Duration::from_secs(30), outcomes);
    let passing = async {
        loop {
            world.clock.advance(PAUSE);
            tokio::time::sleep(PAUSE).await;
        }
    };
    let ended = tokio::select! {
        ended = run(&world, &outcomes) => ended,
        () = passing => unreachable!(),
    };
    assert_eq!(ended.status, TaskState::Completed);
    assert_eq!(outcomes.attempts(), 2);
    let record = world.store.task(&Viewer::System, ended.facts.id).await;
    assert_eq!(record.unwrap().unwrap().epoch, 1, "it was not released");
}
