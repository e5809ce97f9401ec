//! Which trace a task belongs to, and the metrics of workers that lose tasks or their store.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

#[allow(dead_code, reason = "each test file uses its own part of it")]
mod world;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use convoke_engine::{
    Call, CallContext, Effect, Ending, Engine, Event, Executor, Failure, NewCall, Options, Outcome,
    Program, Step, UnusableAnswer, View, Worker,
};
use convoke_model::{Answer, AnswerFields, Stage, TaskState};
use convoke_store::{Definition, Filter, MemoryStore, Page, Store, TaskRecord, Viewer};
use convoke_telemetry::TraceContext;
use convoke_testkit::{CountedIds, Fault, FaultyStore, RecordedMetrics, SimClock};
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;
use world::{Behaviour, WordExecutor, Words, World};

const CALLERS: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

async fn record(world: &World, task: Uuid) -> TaskRecord {
    let record = world.store.task(&Viewer::System, task).await.unwrap();
    record.unwrap()
}

async fn trace_of(world: &World, task: Uuid) -> TraceContext {
    let trace = record(world, task).await.trace.unwrap();
    TraceContext::parse(&trace).unwrap()
}

async fn submit(world: &World, text: &str, traceparent: &str) -> Uuid {
    let mut request = world.request(text);
    request.trace = Some(traceparent.into());
    world.engine.submit(request).await.unwrap().id()
}

#[tokio::test]
async fn a_task_without_a_trace_begins_one_that_has_its_id() {
    let world = World::new();
    let task = world.submit("one").await;
    let trace = trace_of(&world, task).await;
    assert_eq!(trace, TraceContext::begin(task));
    assert_eq!(trace.trace_id().to_string(), task.simple().to_string());
}

#[tokio::test]
async fn a_caller_s_trace_is_continued_and_a_malformed_one_counts_as_none() {
    let world = World::new();
    let task = submit(&world, "one", CALLERS).await;
    assert_eq!(record(&world, task).await.trace.unwrap(), CALLERS);
    for malformed in ["", "nonsense", &CALLERS[1..], &CALLERS.to_uppercase()] {
        let task = submit(&world, "one", malformed).await;
        let trace = trace_of(&world, task).await;
        assert_eq!(trace, TraceContext::begin(task), "{malformed}");
    }
}

#[tokio::test]
async fn a_child_continues_the_trace_of_its_parent_below_the_call_that_asks_for_it() {
    let world = World::new();
    let worker = world.worker();
    let parent = submit(&world, "a:one", CALLERS).await;
    assert_eq!(world.until_ended(parent).await.status, TaskState::Completed);
    let children = Filter {
        parent: Some(parent),
        ..Filter::default()
    };
    let found = world
        .store
        .query(&Viewer::System, children, Page::default());
    let child = trace_of(&world, found.await.unwrap().tasks[0].id).await;
    let caller = TraceContext::parse(CALLERS).unwrap();
    assert_eq!(child.trace_id(), caller.trace_id());
    assert_ne!(child.span_id(), caller.span_id());
    assert_ne!(child.span_id(), caller.at(parent).span_id());
    worker.stop().await;
}

#[tokio::test]
async fn a_fork_begins_a_trace_of_its_own() {
    let world = World::new();
    let origin = submit(&world, "one two", CALLERS).await;
    let fork = world.engine.fork(&Viewer::System, origin, 1, Map::new());
    let fork = fork.await.unwrap();
    assert_eq!(trace_of(&world, fork).await, TraceContext::begin(fork));
}

#[tokio::test]
async fn a_trace_outlives_its_worker() {
    let world = World::new();
    let task = submit(&world, "one", CALLERS).await;
    world.claim_and_forget().await;
    world.clock.advance(Duration::from_mins(1));
    let worker = world.worker();
    assert_eq!(world.until_ended(task).await.status, TaskState::Completed);
    assert_eq!(record(&world, task).await.trace.unwrap(), CALLERS);
    worker.stop().await;
}

/// An engine over a store that can break down.
fn faulty(clock: &Arc<SimClock>) -> (Arc<FaultyStore<MemoryStore>>, Engine<Words>) {
    let store = MemoryStore::new(clock.clone());
    let never = usize::MAX;
    let store = Arc::new(FaultyStore::new(store, Fault::Unavailable, never, never));
    let engine = Engine::new(
        Arc::new(Words),
        store.clone(),
        clock.clone(),
        Arc::new(CountedIds::default()),
        "words",
        Arc::new(Definition::default()),
        Duration::from_mins(1),
    );
    (store, engine)
}

#[tokio::test(start_paused = true)]
async fn what_goes_wrong_is_counted() {
    let recorded = RecordedMetrics::install().unwrap();
    let clock = Arc::new(SimClock::running());
    let (store, engine) = faulty(&clock);
    engine.bound_backlog(2);
    // With no worker, tasks wait until there are too many.
    let first = engine.submit(World::request_of("look")).await.unwrap().id();
    let second = engine.submit(World::request_of("lost&look")).await.unwrap();
    let refused = engine.submit(World::request_of("look")).await.unwrap_err();
    assert_eq!(refused.code(), "engine.busy");

    let hands = Arc::new(WordExecutor::default());
    hands.set(
        "lost",
        Behaviour {
            fails: Some(convoke_engine::FailureKind::Unknown),
            ..Behaviour::of(Effect::Repeatable)
        },
    );
    hands.hang_on("hang");
    let options = Options {
        poll: Duration::from_millis(5),
        ..Options::for_worker("w")
    };
    let stop = CancellationToken::new();
    let mut running = JoinSet::new();
    let worker = Worker::new(engine.clone(), Arc::clone(&hands), options);
    running.spawn(worker.run(stop.clone()));
    engine.wait(&Viewer::System, first).await.unwrap();
    engine.wait(&Viewer::System, second.id()).await.unwrap();

    let cut = engine.submit(World::request_of("hang look")).await.unwrap();
    hands.until_performed("hang").await;
    store.break_down(true);
    tokio::time::sleep(Duration::from_secs(30)).await;
    store.break_down(false);
    // Another worker takes the task meanwhile, because its lease is over.
    let claim = convoke_store::Claim {
        worker: "other".into(),
        apps: vec!["words".into()],
        except: Vec::new(),
        lease: Duration::from_secs(5),
        limit: 8,
    };
    let taken = store.inner().claim(claim).await.unwrap().tasks;
    assert_eq!(
        taken.iter().map(|task| task.record.id).collect::<Vec<_>>(),
        [cut.id()]
    );
    // The next renewal finds that out.
    tokio::time::sleep(Duration::from_secs(4)).await;
    hands.release();
    engine.wait(&Viewer::System, cut.id()).await.unwrap();
    stop.cancel();
    running.join_next().await.unwrap().unwrap().unwrap();

    let of = |name| recorded.labels_of(name).into_iter().collect::<Vec<_>>();
    assert_eq!(of("convoke.tasks.refused"), [["words", "engine.busy"]]);
    assert_eq!(of("convoke.queue.backlog"), [["words"]]);
    assert_eq!(of("convoke.retries"), [["call"]]);
    assert_eq!(of("convoke.leases.lost"), [["words"]]);
    assert_eq!(of("convoke.store.outages"), [["claim"], ["renew"]]);
    assert_eq!(of("convoke.claims"), [["words"]]);
    assert_eq!(recorded.of("convoke.tasks.accepted").len(), 3);
    let ended: BTreeSet<_> = recorded.labels_of("convoke.tasks.ended");
    assert!(ended.contains(&vec!["words".to_owned(), "completed".to_owned()]));
}

#[tokio::test]
async fn what_a_worker_holds_and_how_long_its_tasks_waited_is_measured() {
    let recorded = RecordedMetrics::install().unwrap();
    let world = World::new();
    world.hang_on("hang");
    let task = world.submit("hang").await;
    world.clock.advance(Duration::from_secs(3));
    let worker = world.worker();
    world.until_performed("hang").await;
    worker.kill();
    // The wait for its second worker does not count: the task has begun.
    world.clock.advance(Duration::from_secs(20));
    world.release();
    let worker = world.worker();
    world.until_ended(task).await;
    let values = |name: &str| {
        let recorded = recorded.of(name).into_iter();
        recorded.map(|recorded| recorded.value).collect::<Vec<_>>()
    };
    // The worker says so when it next looks around.
    while values("convoke.tasks.held").last() != Some(&0.0) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    worker.stop().await;
    assert_eq!(values("convoke.task.wait"), [3.0]);
    assert_eq!(values("convoke.task.duration"), [23.0]);
    for name in ["convoke.tasks.held", "convoke.permits.used"] {
        let mut seen = values(name);
        seen.dedup();
        assert_eq!(seen, [0.0, 1.0, 0.0, 1.0, 0.0], "{name}");
    }
}

/// Plans, then composes in two steps.
struct Staged;

impl Program for Staged {
    type State = usize;
    type Request = Value;
    type Reply = Value;

    fn modified(&self, _: &Self::State, _: &Value, value: Value) -> Result<Value, UnusableAnswer> {
        Ok(value)
    }

    fn manual_reply(&self, _: &Value, value: Value) -> Result<Value, String> {
        Ok(value)
    }

    fn step(&self, _: View<'_, Value>, step: &mut usize, _: Event<Value>) -> Step<Value> {
        let stages = [Stage::Planning, Stage::Composing, Stage::Composing];
        let stage = stages.get(*step).copied();
        *step += 1;
        let answer = || Box::new(Answer::new(AnswerFields::of("done")).unwrap());
        Step {
            stage,
            calls: Vec::from_iter(stage.map(|_| NewCall {
                label: "look".into(),
                request: json!({}),
                approval: None,
            })),
            end: stage.is_none().then(|| Ending::Completed(answer())),
            ..Step::default()
        }
    }
}

struct Looks;

impl Executor<Staged> for Looks {
    async fn effect(&self, _: &CallContext, _: &Call<Value>) -> Result<Effect, Failure> {
        Ok(Effect::None)
    }

    fn ends(&self, call_context: &CallContext, _: &Call<Value>) -> Timestamp {
        call_context.deadline
    }

    async fn perform(&self, _: &CallContext, _: &Call<Value>) -> Outcome<Value> {
        tokio::time::sleep(Duration::from_secs(1)).await;
        Outcome::Done(json!({}))
    }
}

#[tokio::test(start_paused = true)]
async fn how_long_a_task_was_at_a_stage_is_measured_when_it_leaves_it() {
    let recorded = RecordedMetrics::install().unwrap();
    let clock = Arc::new(SimClock::running());
    let engine = Engine::new(
        Arc::new(Staged),
        Arc::new(MemoryStore::new(clock.clone())),
        clock,
        Arc::new(CountedIds::default()),
        "stages",
        Arc::new(Definition::default()),
        Duration::from_mins(1),
    );
    let stop = CancellationToken::new();
    let worker = Worker::new(engine.clone(), Arc::new(Looks), Options::for_worker("w"));
    let asking = async {
        let ended = engine.run(World::request_of("go")).await.unwrap();
        stop.cancel();
        ended
    };
    let (ran, ended) = tokio::join!(worker.run(stop.clone()), asking);
    ran.unwrap();
    assert_eq!(ended.status, TaskState::Completed);
    let stages = recorded.of("convoke.stage.duration").into_iter();
    let stages: Vec<_> = stages
        .map(|stage| (stage.labels[1].clone(), stage.value.round()))
        .collect();
    assert_eq!(
        stages,
        [("planning".to_owned(), 1.0), ("composing".to_owned(), 2.0)]
    );
}
