//! What a call is told when it is made, and what is written of a task that makes none.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use convoke_engine::machine::Machine;
use convoke_engine::{
    AddedMessage, Call, CallContext, Effect, Ending, Engine, Event, Executor, Facts, Failure,
    NewCall, NewRequest, Options, Outcome, Program, Retention, Snapshot, Step, UnusableAnswer,
    View, Worker,
};
use convoke_model::{Answer, AnswerFields, Channel, Clock, Message, TaskState};
use convoke_store::{Definition, LoadedTask, MemoryStore, TaskRecord, Viewer};
use convoke_testkit::{CountedIds, SimClock};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

const TASK_TIME: Duration = Duration::from_secs(30);

/// Makes so many calls one after the other, says something before each but the first, and ends.
struct SequentialCalls(usize);

impl Program for SequentialCalls {
    type State = usize;
    type Request = Value;
    type Reply = Value;

    fn modified(&self, _: &Self::State, _: &Value, value: Value) -> Result<Value, UnusableAnswer> {
        Ok(value)
    }

    fn manual_reply(&self, _: &Value, value: Value) -> Result<Value, String> {
        Ok(value)
    }

    fn step(&self, view: View<'_, Value>, made: &mut usize, _: Event<Value>) -> Step<Value> {
        if *made == self.0 {
            let answer = Answer::new(AnswerFields::of("done")).unwrap();
            return Step {
                end: Some(Ending::Completed(Box::new(answer))),
                ..Step::default()
            };
        }
        *made += 1;
        let said = AddedMessage {
            message: Message::user(format!("call {made}"), view.at).unwrap(),
            in_conversation: false,
        };
        Step {
            messages: if *made > 1 { vec![said] } else { Vec::new() },
            calls: vec![NewCall {
                label: "call".into(),
                request: json!(made),
                approval: None,
            }],
            ..Step::default()
        }
    }
}

/// Writes down what it is told.
#[derive(Default)]
struct ContextRecorder(Mutex<Vec<(Vec<String>, Timestamp)>>);

impl Executor<SequentialCalls> for ContextRecorder {
    async fn effect(&self, _: &CallContext, _: &Call<Value>) -> Result<Effect, Failure> {
        Ok(Effect::Repeatable)
    }

    async fn perform(&self, call_context: &CallContext, _: &Call<Value>) -> Outcome<Value> {
        let messages = call_context.messages.iter();
        let messages = messages.map(|message| message.content.clone()).collect();
        self.0
            .lock()
            .unwrap()
            .push((messages, call_context.deadline));
        Outcome::Done(Value::Null)
    }
}

struct World {
    clock: Arc<SimClock>,
    engine: Engine<SequentialCalls>,
    executor: Arc<ContextRecorder>,
    calls: usize,
}

impl World {
    fn new(calls: usize) -> Self {
        let clock = Arc::new(SimClock::new());
        let engine = Engine::new(
            Arc::new(SequentialCalls(calls)),
            Arc::new(MemoryStore::new(clock.clone())),
            clock.clone(),
            Arc::new(CountedIds::default()),
            "calling",
            Arc::new(Definition::default()),
            TASK_TIME,
        );
        Self {
            clock,
            engine,
            executor: Arc::default(),
            calls,
        }
    }

    async fn submit(&self) -> Uuid {
        let request = NewRequest {
            owner: Uuid::from_u128(7),
            conversation: None,
            refused_if_busy: false,
            channel: Channel::Terminal,
            key: None,
            message: Message::user("call", self.clock.now()).unwrap(),
            blobs: Vec::new(),
            input: json!({}),
            live: None,
            retention: Retention::default(),
            not_before: None,
            trace: None,
        };
        self.engine.submit(request).await.unwrap().id()
    }

    /// Has a worker work on all tasks until this one has ended.
    async fn work(&self, task: Uuid) -> TaskRecord {
        let options = Options::for_worker("worker");
        let worker = Worker::new(self.engine.clone(), Arc::clone(&self.executor), options);
        let stop = CancellationToken::new();
        let waiting = async {
            self.engine.wait(&Viewer::System, task).await.unwrap();
            stop.cancel();
        };
        let (ran, ()) = tokio::join!(worker.run(stop.clone()), waiting);
        ran.unwrap();
        self.load(task).await.record
    }

    async fn load(&self, task: Uuid) -> LoadedTask {
        self.engine
            .store()
            .load(&Viewer::System, task, 1)
            .await
            .unwrap()
            .unwrap()
    }

    fn told(&self) -> Vec<(Vec<String>, Timestamp)> {
        self.executor.0.lock().unwrap().clone()
    }
}

#[tokio::test]
async fn a_call_gets_the_messages_so_far() {
    let world = World::new(2);
    let task = world.submit().await;
    world.work(task).await;
    let said: Vec<_> = world.told().into_iter().map(|(said, _)| said).collect();
    assert_eq!(said, [vec!["call"], vec!["call", "call 2"]]);
}

#[tokio::test]
async fn a_call_gets_the_extended_deadline_of_its_task() {
    let world = World::new(1);
    let task = world.submit().await;
    world.clock.advance(TASK_TIME * 2);
    let begun_anew = world.clock.now();
    world.work(task).await;
    let [(_, deadline)] = world.told()[..] else {
        panic!("{:?}", world.told());
    };
    assert_eq!(deadline, begun_anew.checked_add(TASK_TIME).unwrap());
}

#[tokio::test]
async fn a_task_that_ends_with_its_first_step_is_ended_by_the_claiming_worker() {
    let world = World::new(0);
    let task = world.submit().await;
    let record = world.work(task).await;
    assert_eq!(record.status, TaskState::Completed);
    assert_eq!(record.result.as_deref(), Some("done"));
    assert_eq!(record.worker, None, "nobody holds it");
    // And the journal still replays to what it says.
    let journal = world.load(task).await;
    let facts = Facts::from(&journal.record);
    let mut machine = Machine::new(Arc::new(SequentialCalls(world.calls)), facts);
    for entry in &journal.entries {
        let event: Event<Value> = serde_json::from_value(entry.event.clone()).unwrap();
        machine.apply(event, entry.at);
        let written: Snapshot<usize, Value> = entry.state.read().unwrap();
        assert_eq!(machine.snapshot(), &written, "after entry {}", entry.seq);
    }
}
