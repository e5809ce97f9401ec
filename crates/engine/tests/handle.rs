//! What the engine's handle promises to those who hold it: who gets a task, what is the same task, which ids calls have,
//! and what is said of a question that can no longer be answered.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

#[allow(dead_code, reason = "each test file uses its own part of it")]
mod world;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use convoke_engine::{
    Call, CallContext, Effect, Ending, Engine, Event, Executor, Facts, Failure, Messages, NewCall,
    NewRequest, Options, Outcome, Program, QuestionAnswer, Step, UnusableAnswer, View, Worker,
};
use convoke_model::{Answer, AnswerFields, Channel, Message, MessageFields, Part, TaskState};
use convoke_store::{Definition, MemoryStore, Store, Submission, Viewer};
use convoke_telemetry::TraceContext;
use convoke_testkit::{CountedIds, SimClock};
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;
use world::World;

const APPROVE: QuestionAnswer = QuestionAnswer::Approve { message: None };

/// A worker that takes one task at a time and has not begun to run.
fn idle_worker(world: &World) -> Worker<world::Words, world::WordExecutor> {
    let options = Options {
        concurrent_tasks: 1,
        ..Options::for_worker("idle")
    };
    Worker::new(world.engine.clone(), Arc::clone(&world.hands), options)
}

async fn is_held(world: &World, task: Uuid) -> bool {
    let (record, _) = world
        .store
        .newest(&Viewer::System, task)
        .await
        .unwrap()
        .unwrap();
    record.worker.is_some()
}

#[tokio::test]
async fn a_worker_holds_as_many_new_tasks_as_it_has_permits_for() {
    let world = World::new();
    let worker = idle_worker(&world);
    let first = world.submit("one").await;
    let second = world.submit("two").await;
    assert!(is_held(&world, first).await);
    assert!(!is_held(&world, second).await, "it has one permit");
    drop(worker);
}

#[tokio::test]
async fn a_worker_without_a_free_permit_leaves_tasks_to_others() {
    let world = World::new();
    let busy = world.worker_with_room_for(1);
    world.hang_on("hang");
    let hanging = world.submit("hang").await;
    world.until_performed("hang").await;
    let waiting = world.submit("one").await;
    // All that the busy worker could do about the new task it has done by then.
    for _ in 0..1_000 {
        tokio::task::yield_now().await;
    }
    assert!(!is_held(&world, waiting).await);
    world.release();
    world.until_ended(hanging).await;
    assert_eq!(
        world.until_ended(waiting).await.status,
        TaskState::Completed
    );
    busy.stop().await;
}

#[tokio::test]
async fn a_task_that_comes_once_the_worker_has_stopped_is_held_by_nobody() {
    let world = World::new();
    world.worker().stop().await;
    let task = world.submit("one").await;
    assert!(!is_held(&world, task).await);
    let worker = world.worker();
    assert_eq!(world.until_ended(task).await.status, TaskState::Completed);
    worker.stop().await;
}

#[tokio::test]
async fn one_key_is_one_task_while_a_worker_takes_tasks_at_once() {
    let world = World::new();
    let worker = world.worker();
    let request = || NewRequest {
        key: Some("same".into()),
        ..world.request("one")
    };
    let first = world.engine.submit(request()).await.unwrap();
    let second = world.engine.submit(request()).await.unwrap();
    assert!(
        matches!(first, Submission::Created { held: true, .. }),
        "{first:?}"
    );
    assert_eq!(second, Submission::Existing(first.id()));
    world.until_ended(first.id()).await;
    assert_eq!(world.performed(), ["one"]);
    worker.stop().await;
}

#[tokio::test]
async fn tasks_of_one_conversation_are_worked_on_in_turn_while_a_worker_takes_tasks_at_once() {
    let world = World::new();
    let worker = world.worker();
    world.hang_on("hang");
    let request = |text| NewRequest {
        conversation: Some(Uuid::from_u128(1)),
        ..world.request(text)
    };
    let first = world.engine.submit(request("hang")).await.unwrap();
    let second = world.engine.submit(request("two")).await.unwrap();
    assert!(
        matches!(second, Submission::Created { held: false, .. }),
        "{second:?}"
    );
    world.until_performed("hang").await;
    world.release();
    world.until_ended(first.id()).await;
    world.until_ended(second.id()).await;
    assert_eq!(world.performed(), ["hang", "two"]);
    worker.stop().await;
}

#[tokio::test]
async fn a_canceled_task_closes_only_its_own_questions() {
    let world = World::new();
    let task = world.submit("pay?").await;
    let worker = world.worker();
    let question = world
        .engine
        .wait(&Viewer::System, task)
        .await
        .unwrap()
        .questions[0]
        .id;
    world
        .engine
        .cancel(&Viewer::System, task, None)
        .await
        .unwrap();
    assert_eq!(world.until_ended(task).await.status, TaskState::Canceled);
    let asked = world
        .engine
        .answer(&Viewer::System, task, Some(question), APPROVE)
        .await
        .unwrap_err();
    assert_eq!(asked.code(), "question.answered", "{asked}");
    assert!(asked.to_string().contains("closed"), "{asked}");
    let never_asked = Some(Uuid::from_u128(9));
    let never_asked = world
        .engine
        .answer(&Viewer::System, task, never_asked, APPROVE)
        .await
        .unwrap_err();
    assert_eq!(never_asked.code(), "question.not_found", "{never_asked}");
    worker.stop().await;
}

#[test]
fn an_answer_is_named_by_what_it_does() {
    let actions = [
        (APPROVE, "approve"),
        (QuestionAnswer::Reject { message: None }, "reject"),
        (QuestionAnswer::Modify { value: Value::Null }, "modify"),
        (QuestionAnswer::Expired, "expired"),
    ];
    for (answer, action) in actions {
        assert_eq!(answer.action(), action);
        let written = serde_json::to_value(&answer).unwrap();
        assert_eq!(written["action"], action, "the same word is in the journal");
    }
}

#[test]
fn being_picked_up_or_found_stuck_is_no_progress() {
    let call = Uuid::nil();
    let at = Timestamp::UNIX_EPOCH;
    let events: [(Event<Value>, bool); 9] = [
        (Event::Submitted { input: Value::Null }, true),
        (Event::Resumed { deadline: at }, false),
        (Event::Started { call }, false),
        (
            Event::Verified {
                call,
                took_effect: None,
            },
            false,
        ),
        (Event::PutBack { why: String::new() }, false),
        (Event::Poisoned { claims: 1 }, false),
        (
            Event::SetAside {
                cause: String::new(),
            },
            false,
        ),
        (
            Event::OutcomeUnknown {
                cause: None,
                call,
                expires_at: at,
            },
            true,
        ),
        (Event::DeadlineReached, true),
    ];
    for (event, is_progress) in events {
        assert_eq!(event.is_progress(), is_progress, "{}", event.kind());
        let written = serde_json::to_value(&event).unwrap();
        assert_eq!(
            written["type"],
            event.kind(),
            "the same word is in the journal"
        );
    }
}

/// Makes one call, whose request is the id that the call is going to have, and refuses every changed fork with what it
/// was told of the task.
struct OneCall;

impl Program for OneCall {
    type State = ();
    type Request = Value;
    type Reply = Value;

    fn modified(&self, (): &Self::State, _: &Value, value: Value) -> Result<Value, UnusableAnswer> {
        Ok(value)
    }

    fn manual_reply(&self, _: &Value, value: Value) -> Result<Value, String> {
        Ok(value)
    }

    fn fork(
        &self,
        view: View<'_, Value>,
        (): &mut (),
        open: Vec<NewCall<Value>>,
        set: &Map<String, Value>,
    ) -> Result<Vec<NewCall<Value>>, String> {
        if set.is_empty() {
            return Ok(open);
        }
        let Facts {
            conversation,
            parent,
            created_at,
            deadline,
            ..
        } = view.facts;
        Err(format!(
            "{conversation:?} {parent:?} {created_at} {deadline}"
        ))
    }

    fn step(&self, view: View<'_, Value>, (): &mut (), event: Event<Value>) -> Step<Value> {
        match event {
            Event::Submitted { .. } => Step {
                calls: vec![NewCall {
                    label: "tell".into(),
                    request: json!(view.call_id(0)),
                    approval: None,
                }],
                ..Step::default()
            },
            Event::Returned {
                outcome: Outcome::Done(said),
                ..
            } => {
                let said = said.to_string();
                let answer = Answer::new(AnswerFields::of(said)).unwrap();
                Step {
                    end: Some(Ending::Completed(Box::new(answer))),
                    ..Step::default()
                }
            }
            _ => {
                let message = Box::new(Answer::new(AnswerFields::of("It failed.")).unwrap());
                Step {
                    end: Some(Ending::Failed {
                        message,
                        cause: "it failed".into(),
                    }),
                    ..Step::default()
                }
            }
        }
    }
}

/// Loses the first answer to every call, and leaves everything that an executor may leave to the trait.
#[derive(Default)]
struct DefaultExecutor(AtomicUsize);

impl Executor<OneCall> for DefaultExecutor {
    async fn effect(&self, _: &CallContext, _: &Call<Value>) -> Result<Effect, Failure> {
        Ok(Effect::Repeatable)
    }

    async fn perform(&self, _: &CallContext, call: &Call<Value>) -> Outcome<Value> {
        if self.0.fetch_add(1, Ordering::SeqCst) == 0 {
            return Outcome::Failed(
                Failure::unknown("answer.lost", "the answer is lost").transient(),
            );
        }
        Outcome::Done(json!({ "is": call.id, "was_told": call.request }))
    }
}

fn telling(clock: &Arc<SimClock>, task_time: Duration) -> Engine<OneCall> {
    Engine::new(
        Arc::new(OneCall),
        Arc::new(MemoryStore::new(clock.clone())),
        clock.clone(),
        Arc::new(CountedIds::default()),
        "telling",
        Arc::new(Definition::default()),
        task_time,
    )
}

fn request(conversation: Option<Uuid>) -> NewRequest {
    NewRequest {
        owner: Uuid::from_u128(7),
        conversation,
        refused_if_busy: false,
        channel: Channel::Terminal,
        key: None,
        message: Message::user("tell", Timestamp::UNIX_EPOCH).unwrap(),
        blobs: Vec::new(),
        input: json!({}),
        live: None,
        retention: convoke_engine::Retention::default(),
        not_before: None,
        trace: None,
    }
}

#[tokio::test]
async fn a_call_is_repeated_with_the_same_id_until_the_deadline() {
    let clock = Arc::new(SimClock::new());
    let engine = telling(&clock, Duration::from_secs(30));
    let plain = Arc::new(DefaultExecutor::default());
    let options = Options {
        repeat_pause: Duration::from_millis(1),
        ..Options::for_worker("plain")
    };
    let worker = Worker::new(engine.clone(), Arc::clone(&plain), options);
    let stop = CancellationToken::new();
    let running = worker.run(stop.clone());
    let asking = async {
        let ended = engine.run(request(None)).await.unwrap();
        stop.cancel();
        ended
    };
    let (ran, ended) = tokio::join!(running, asking);
    ran.unwrap();
    assert_eq!(ended.status, TaskState::Completed, "{:?}", ended.error);
    let said: Value = serde_json::from_str(&ended.answer.unwrap().text).unwrap();
    assert_eq!(said["is"], said["was_told"]);
    assert_eq!(plain.0.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_fork_is_a_task_of_its_own_with_the_full_time_from_now() {
    let clock = Arc::new(SimClock::new());
    let engine = telling(&clock, Duration::from_secs(30));
    let task = engine
        .submit(request(Some(Uuid::from_u128(1))))
        .await
        .unwrap()
        .id();
    // The same as the child of another.
    let mut archive = engine
        .store()
        .take_out(&Viewer::System, task)
        .await
        .unwrap()
        .unwrap();
    archive.record.id = Uuid::from_u128(99);
    archive.record.parent = Some(task);
    let child = archive.record.id;
    engine.store().bring_in(archive, None).await.unwrap();
    clock.advance(Duration::from_mins(1));
    let now = convoke_model::Clock::now(&*clock);
    let set = Map::from_iter([("field".to_owned(), json!(1))]);
    let told = engine
        .fork(&Viewer::System, child, 1, set)
        .await
        .unwrap_err();
    assert_eq!(told.code(), "task.fork_refused");
    let deadline = now + Duration::from_secs(30);
    assert_eq!(told.to_string(), format!("None None {now} {deadline}"));
    let fork = engine
        .fork(&Viewer::System, child, 1, Map::new())
        .await
        .unwrap();
    let (record, _) = engine
        .store()
        .newest(&Viewer::System, fork)
        .await
        .unwrap()
        .unwrap();
    assert_eq!((record.conversation, record.parent), (None, None));
    assert_eq!(record.deadline, deadline);
}

/// The id of a call, as its program is told it.
fn call_id(task: u128, seq: u64, index: usize) -> String {
    let at = Timestamp::UNIX_EPOCH;
    let facts = Facts {
        id: Uuid::from_u128(task),
        owner: Uuid::nil(),
        conversation: None,
        channel: Channel::Terminal,
        parent: None,
        created_at: at,
        deadline: at,
        trace: TraceContext::begin(Uuid::nil()),
    };
    let view: View<'_, Value> = View {
        facts: &facts,
        messages: &Messages::default(),
        at,
        deadline: at,
        returned: None,
        seq,
    };
    view.call_id(index).to_string()
}

#[test]
fn call_ids_are_the_same_in_every_version() {
    // A version that gave a call another id would repeat the effects of tasks that an older one had begun.
    const TASK: u128 = 0x0199_0000_0000_7000_8000_0000_0000_0001;
    let ids = [
        (1, 0, "01990000-0000-8000-b9a3-abe0d6223343"),
        (1, 1, "01990000-0000-8000-ab0b-5f4c7bc4e806"),
        (3, 1, "01990000-0000-8000-bc77-e50ca897e942"),
        (70_000, 12, "01990000-0000-8000-bcc5-aa4f4875c979"),
        (u64::MAX >> 16, 3, "01990000-0000-8000-98e5-e6d77f391c06"),
    ];
    for (seq, index, id) in ids {
        assert_eq!(call_id(TASK, seq, index), id, "entry {seq}, call {index}");
    }
}

#[tokio::test]
async fn one_key_with_other_attachments_is_another_request() {
    let world = World::new();
    let request = |data: Option<Value>| {
        let mut request = world.request("one");
        request.key = Some("same".into());
        let parts = data.into_iter().map(|data| Part::Data { data });
        request.message = Message::new(MessageFields {
            parts: parts.collect(),
            ..request.message.into_fields()
        })
        .unwrap();
        request
    };
    let first = world.engine.submit(request(Some(json!(1)))).await.unwrap();
    let again = world.engine.submit(request(Some(json!(1)))).await.unwrap();
    assert_eq!(again, Submission::Existing(first.id()));
    for other in [Some(json!(2)), None] {
        let refused = world.engine.submit(request(other)).await.unwrap_err();
        assert_eq!(refused.code(), "store.key_reused");
    }
}

#[tokio::test]
async fn neither_a_child_nor_a_task_that_a_worker_takes_at_once_is_refused_for_those_that_wait() {
    let world = World::new();
    world.engine.bound_backlog(0);
    let refused = world.engine.submit(world.request("one")).await;
    assert_eq!(refused.unwrap_err().code(), "engine.busy");
    // With one permit, the parent has it when its child is accepted.
    for permits in [1, 2] {
        let worker = world.worker_with_room_for(permits);
        let parent = world.engine.run(world.request("a:two")).await.unwrap();
        assert_eq!(parent.status, TaskState::Completed);
        worker.stop().await;
    }
    assert_eq!(world.performed(), ["two", "two"]);
}
