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
    Call, CallContext, Effect, Executor, Failure, FailureKind, Options, Outcome, TaskOutcome,
    Worker,
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
            Some(kind) => Outcome::Failed(Failure {
                code: "word.failed".into(),
                message: "it failed".into(),
                kind,
                transient: true,
            }),
        };
        Arc::new(Self {
            left: Mutex::new(outcomes.into_iter().map(outcome).collect()),
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
async fn run(world: &World, outcomes: &Arc<Outcomes>) -> TaskOutcome {
    let options = Options {
        repeat_pause: PAUSE,
        ..Options::for_worker("worker")
    };
    let worker = Worker::new(world.engine.clone(), Arc::clone(outcomes), options);
    let stop = CancellationToken::new();
    let asking = async {
        let ended = world.engine.run(world.request("word")).await.unwrap();
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
async fn a_failure_without_effect_is_told_as_one_where_it_came_at_once() {
    let world = World::new();
    let outcomes = Outcomes::new(Duration::from_secs(30), [Some(FailureKind::NoEffect)]);
    let ended = run(&world, &outcomes).await;
    assert_eq!(ended.status, TaskState::Failed);
    assert_eq!(told_of_failure(&world, &ended).await, "no_effect");
}

#[tokio::test]
async fn a_failure_without_effect_is_told_as_unknown_after_an_attempt_whose_answer_was_lost() {
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
