//! What the machine promises of every event, shown without a worker: which calls are begun, when a task waits for a
//! person, and what a task takes over from another.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::sync::Arc;

use convoke_engine::machine::Machine;
use convoke_engine::{
    AddedMessage, Call, Ending, Event, Facts, NewCall, Outcome, Program, QuestionAnswer,
    QuestionKind, Snapshot, Step, UnusableAnswer, View,
};
use convoke_model::{Answer, AnswerFields, Channel, Message, Stage, TaskState};
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use uuid::Uuid;

const AT: Timestamp = Timestamp::UNIX_EPOCH;

/// Does what a function says to each event.
struct Scripted(fn(&Event<Value>) -> Step<Value>);

impl Program for Scripted {
    type State = ();
    type Request = Value;
    type Reply = Value;

    fn modified(&self, (): &Self::State, _: &Value, value: Value) -> Result<Value, UnusableAnswer> {
        Ok(value)
    }

    fn manual_reply(&self, _: &Value, value: Value) -> Result<Value, String> {
        Ok(value)
    }

    fn step(&self, _: View<'_, Value>, (): &mut (), event: Event<Value>) -> Step<Value> {
        (self.0)(&event)
    }
}

fn facts() -> Facts {
    Facts {
        id: Uuid::from_u128(1),
        owner: Uuid::nil(),
        conversation: None,
        channel: Channel::Terminal,
        parent: None,
        created_at: AT,
        deadline: AT,
        trace: convoke_telemetry::TraceContext::begin(Uuid::from_u128(1)),
    }
}

fn machine(step: fn(&Event<Value>) -> Step<Value>) -> Machine<Scripted> {
    Machine::new(Arc::new(Scripted(step)), facts())
}

fn call(label: &str, approval: Option<&str>) -> NewCall<Value> {
    NewCall {
        label: label.into(),
        request: json!(label),
        approval: approval.map(str::to_owned),
    }
}

fn calls(calls: impl Into<Vec<NewCall<Value>>>) -> Step<Value> {
    Step {
        calls: calls.into(),
        ..Step::default()
    }
}

fn answer(text: &str) -> Answer {
    Answer::new(AnswerFields::of(text)).unwrap()
}

fn end() -> Step<Value> {
    Step {
        end: Some(Ending::Completed(Box::new(answer("done")))),
        ..Step::default()
    }
}

fn submitted() -> Event<Value> {
    Event::Submitted { input: Value::Null }
}

fn returned(call: &Call<Value>) -> Event<Value> {
    Event::Returned {
        call: call.id,
        label: call.label.clone(),
        outcome: Outcome::Done(Value::Null),
        started_at: None,
        duration_ms: 0,
    }
}

/// The open call of this label.
fn open(machine: &Machine<Scripted>, label: &str) -> Arc<Call<Value>> {
    let open = &machine.snapshot().open;
    Arc::clone(open.iter().find(|call| call.label == label).unwrap())
}

fn is_asked(machine: &Machine<Scripted>, call: &Call<Value>) -> bool {
    let questions = &machine.snapshot().questions;
    questions.iter().any(|question| question.id == call.id)
}

#[test]
fn a_call_counts_as_started_from_its_entry_unless_it_waits_for_a_person() {
    let mut machine = machine(|event| match event {
        Event::Submitted { .. } => calls([call("first", None)]),
        _ => calls([call("second", None), call("asked", Some("May I?"))]),
    });
    let transition = machine.apply(submitted(), AT);
    // Whoever claims the task begins its first calls, with an entry of their own.
    assert!(!open(&machine, "first").started);
    assert_eq!(transition.perform.len(), 1);
    let first = open(&machine, "first");
    machine.apply(Event::Started { call: first.id }, AT);
    assert!(open(&machine, "first").started);
    let transition = machine.apply(returned(&first), AT);
    assert!(open(&machine, "second").started);
    assert!(!open(&machine, "asked").started, "nobody has agreed to it");
    let performed: Vec<_> = transition.perform.iter().map(|call| &call.label).collect();
    assert_eq!(performed, ["second"]);
}

#[test]
fn a_task_waits_for_a_person_only_once_every_other_call_has_returned() {
    let mut machine = machine(|event| match event {
        Event::Submitted { .. } => calls([call("other", None), call("asked", Some("May I?"))]),
        _ => Step::default(),
    });
    machine.apply(submitted(), AT);
    let other = open(&machine, "other");
    machine.apply(Event::Started { call: other.id }, AT);
    assert_eq!(machine.snapshot().status, TaskState::Working);
    machine.apply(returned(&other), AT);
    assert_eq!(machine.snapshot().status, TaskState::InputRequired);
}

#[test]
fn a_call_that_returns_after_all_takes_its_own_question_with_it() {
    let mut machine = machine(|event| match event {
        Event::Submitted { .. } => calls([call("one", None), call("two", None)]),
        _ => Step::default(),
    });
    machine.apply(submitted(), AT);
    let (one, two) = (open(&machine, "one"), open(&machine, "two"));
    for call in [&one, &two] {
        let event = Event::OutcomeUnknown {
            call: call.id,
            expires_at: AT,
            cause: None,
        };
        machine.apply(event, AT);
    }
    machine.apply(returned(&one), AT);
    assert!(!is_asked(&machine, &one));
    assert!(is_asked(&machine, &two));
}

#[test]
fn nothing_is_called_once_the_time_is_over() {
    let mut machine = machine(|_| calls([call("again", None)]));
    machine.apply(submitted(), AT);
    let transition = machine.apply(Event::DeadlineReached, AT);
    assert_eq!(machine.snapshot().status, TaskState::Failed);
    assert!(transition.perform.is_empty(), "{:?}", transition.perform);
}

#[test]
fn to_write_down_again_that_a_task_has_ended_changes_nothing() {
    let mut machine = machine(|_| end());
    machine.apply(submitted(), AT);
    let ended = machine.snapshot().clone();
    assert_eq!(ended.status, TaskState::Completed);
    machine.apply(Event::Resumed { deadline: AT }, AT);
    assert_eq!(machine.snapshot(), &ended);
}

#[test]
fn what_a_step_says_is_among_the_messages_of_the_next() {
    let mut machine = machine(|_| Step {
        messages: vec![AddedMessage {
            message: Message::user("said", AT).unwrap(),
            in_conversation: false,
        }],
        ..calls([call("next", None)])
    });
    let transition = machine.apply(submitted(), AT);
    assert_eq!(transition.messages.len(), 1);
    let messages: Vec<_> = machine
        .messages()
        .iter()
        .map(|said| &said.content)
        .collect();
    assert_eq!(messages, ["said"]);
}

#[test]
fn a_fork_of_a_task_that_has_ended_begins_without_its_end() {
    let origin = Snapshot {
        status: TaskState::Failed,
        stage: None,
        deadline: Some(AT),
        open: vec![Arc::new(Call {
            id: Uuid::from_u128(9),
            label: "left".into(),
            request: json!("left"),
            started: true,
            due_at: None,
            postponed: 0,
        })],
        questions: Vec::new(),
        answer: Some(answer("it failed")),
        error: Some("it failed".into()),
        program: (),
    };
    let program = Arc::new(Scripted(|_| Step::default()));
    let forked = Machine::fork(program, facts(), origin, Vec::new(), &Map::new()).unwrap();
    let snapshot = forked.snapshot();
    assert_eq!(snapshot.status, TaskState::Submitted);
    assert_eq!(snapshot.deadline, None, "it has the time of its own facts");
    assert_eq!(snapshot.answer, None);
    assert_eq!(snapshot.error, None);
    let [call] = &snapshot.open[..] else {
        panic!("{:?}", snapshot.open);
    };
    assert_ne!(call.id, Uuid::from_u128(9), "it is a call of its own");
    assert!(!call.started);
}

#[test]
fn an_answer_counts_for_the_call_that_it_names() {
    let mut machine = machine(|event| match event {
        Event::Submitted { .. } => calls([
            call("one", Some("May I do one?")),
            call("two", Some("May I do two?")),
        ]),
        _ => Step::default(),
    });
    machine.apply(submitted(), AT);
    let (one, two) = (open(&machine, "one"), open(&machine, "two"));
    assert!(
        (machine.snapshot().questions.iter()).all(|asked| asked.about == QuestionKind::Approval)
    );
    let answered = Event::Answered {
        question: two.id,
        answer: QuestionAnswer::approve(),
        by: None,
    };
    let transition = machine.apply(answered, AT);
    let performed: Vec<_> = transition.perform.iter().map(|call| call.id).collect();
    assert_eq!(performed, [two.id]);
    assert!(is_asked(&machine, &one));
    assert!(!is_asked(&machine, &two));
    assert_eq!(
        machine.snapshot().status,
        TaskState::Working,
        "a call is under way again"
    );
}

#[test]
fn a_stage_goes_back_only_from_refining() {
    let mut machine = machine(|event| {
        let mut step = calls([call("next", None)]);
        step.stage = Some(match event {
            Event::Signalled { payload, .. } => serde_json::from_value(payload.clone()).unwrap(),
            _ => Stage::Extracting,
        });
        step
    });
    machine.apply(submitted(), AT);
    for (next, present) in [
        ("composing", Stage::Composing),
        ("extracting", Stage::Composing),
        ("planning", Stage::Composing),
        ("refining", Stage::Refining),
        ("validating", Stage::Validating),
        ("extracting", Stage::Validating),
    ] {
        let signalled = Event::Signalled {
            kind: "stage".into(),
            payload: json!(next),
        };
        machine.apply(signalled, AT);
        assert_eq!(machine.snapshot().stage, Some(present), "to {next}");
    }
}

#[test]
fn every_event_has_the_next_number() {
    let mut machine = machine(|_| Step::default());
    assert_eq!(machine.seq(), 0);
    for seq in 1..4 {
        machine.apply(
            Event::Reminded {
                question: Uuid::nil(),
            },
            AT,
        );
        assert_eq!(machine.seq(), seq);
    }
}

#[test]
fn of_a_call_the_journal_says_only_what_there_is_to_say() {
    let call = Call {
        id: Uuid::nil(),
        label: "look".into(),
        request: json!({}),
        started: false,
        due_at: None,
        postponed: 0,
    };
    let text = json!({ "id": Uuid::nil(), "label": "look", "request": {} });
    assert_eq!(json!(call), text);
    let postponed = Call {
        postponed: 1,
        ..call
    };
    assert_eq!(json!(postponed)["postponed"], 1);
}
