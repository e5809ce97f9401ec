//! However a task's tools come back, what its model is shown stays what an endpoint takes: every call
//! answered once, in the order of the calls.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod office;

use std::sync::{Arc, OnceLock};

use convoke_app::App;
use convoke_engine::machine::{Machine, Transition};
use convoke_engine::{
    Call, Event, Facts, Failure, FailureKind, Outcome, QuestionAnswer, QuestionKind, Snapshot,
};
use convoke_flow::{Assistant, Progress, Reply as Given, Request};
use convoke_model::{Channel, Message, Role};
use convoke_store::Viewer;
use convoke_telemetry::TraceContext;
use convoke_testkit::Reply;
use futures::FutureExt;
use jiff::{SignedDuration, Timestamp};
use office::{Office, Setting, assert_valid, failure};
use proptest::prelude::*;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use uuid::Uuid;

/// Names that models were seen to write, some of tools that are there, some not.
const NAMES: [&str; 11] = [
    "get_time",
    "pay",
    "desk__pay",
    "bank__pay",
    "desk.get_time",
    "sign",
    "unlock_door",
    "Web.Search",
    "desk.",
    "no such tool!",
    "ask_nobody",
];

/// Chooses, always in the same way.
struct Dice {
    rolls: Vec<u32>,
    next: usize,
}

impl Dice {
    fn roll(&mut self, sides: u32) -> u32 {
        let roll = self.rolls[self.next % self.rolls.len()];
        self.next += 1;
        // The same rolls again would only repeat the same story.
        let again = u32::try_from(self.next / self.rolls.len()).unwrap();
        roll.wrapping_add(again.wrapping_mul(7)) % sides
    }
}

fn assistant(thorough: bool) -> Arc<Assistant> {
    static ASSISTANTS: OnceLock<[Arc<Assistant>; 2]> = OnceLock::new();
    let both = ASSISTANTS.get_or_init(|| {
        [
            json!(["react"]),
            json!(["plan_execute", "react", "reflection"]),
        ]
        .map(|patterns| {
            let folder = tempfile::tempdir().unwrap();
            let agent = json!({
                "tools": ["desk.get_time", "desk.pay", "desk.sign"],
                "max_iterations": 4,
                "patterns": patterns,
            });
            let setting = Setting {
                agent,
                ..Setting::default()
            };
            setting.write(folder.path(), "http://127.0.0.1:9/v1");
            let app = App::load(folder.path(), &|_| None).unwrap().app;
            Arc::new(Assistant::new(Arc::new(app)).unwrap())
        })
    });
    Arc::clone(&both[usize::from(thorough)])
}

/// A task in the hands of the dice.
struct Story {
    machine: Machine<Assistant>,
    assistant: Arc<Assistant>,
    at: Timestamp,
    dice: Dice,
    /// What happened, and where the task stood after it.
    journal: Vec<(Event<Given>, Timestamp, Value, Vec<Message>)>,
    thoughts: u32,
}

fn begin(assistant: &Arc<Assistant>) -> Machine<Assistant> {
    let facts = Facts {
        id: Uuid::from_u128(1),
        owner: Uuid::from_u128(2),
        conversation: None,
        channel: Channel::Terminal,
        parent: None,
        created_at: Timestamp::UNIX_EPOCH,
        deadline: Timestamp::MAX,
        trace: TraceContext::begin(Uuid::from_u128(1)),
    };
    let mut machine = Machine::new(Arc::clone(assistant), facts);
    machine.begin_with([Message::user("Do it.", Timestamp::UNIX_EPOCH).unwrap()]);
    machine
}

impl Story {
    fn tell(thorough: bool, rolls: Vec<u32>) -> Self {
        let assistant = assistant(thorough);
        let mut story = Self {
            machine: begin(&assistant),
            assistant,
            at: Timestamp::UNIX_EPOCH,
            dice: Dice { rolls, next: 0 },
            journal: Vec::new(),
            thoughts: 0,
        };
        story.happens(Event::Submitted { input: json!({}) });
        while !story.machine.snapshot().status.is_final() {
            assert!(story.journal.len() < 1_000, "the task does not end");
            if story.dice.roll(8) == 0 {
                story.crash();
            }
            let event = story.next_event();
            story.happens(event);
        }
        story
    }

    fn happens(&mut self, event: Event<Given>) {
        self.at += SignedDuration::from_millis(5);
        let Transition { perform, .. } = self.machine.apply(event.clone(), self.at);
        if perform.iter().any(|call| asks_model(call)) {
            assert_valid(&on_the_wire(&self.machine.messages().as_slice()));
        }
        let state = serde_json::to_value(self.machine.snapshot()).unwrap();
        let messages = self.machine.messages().as_slice().into_owned();
        self.journal.push((event, self.at, state, messages));
    }

    /// Another worker goes on from what the journal holds.
    fn crash(&mut self) {
        let state = serde_json::to_value(self.machine.snapshot()).unwrap();
        let snapshot: Snapshot<Progress, Request> = serde_json::from_value(state).unwrap();
        self.machine = Machine::restore(
            Arc::clone(&self.assistant),
            Facts::clone(self.machine.facts()),
            snapshot,
            self.machine.messages().as_slice().into_owned(),
            self.machine.seq(),
        );
    }

    fn next_event(&mut self) -> Event<Given> {
        let snapshot = self.machine.snapshot();
        let open = u32::try_from(snapshot.open.len()).unwrap();
        let index = usize::try_from(self.dice.roll(open)).unwrap();
        let call = self.machine.snapshot().open[index].clone();
        let questions = &self.machine.snapshot().questions;
        if let Some(question) = questions.iter().find(|question| question.id == call.id) {
            let about = question.about;
            return Event::Answered {
                question: call.id,
                answer: self.answer(about),
                by: None,
            };
        }
        if asks_model(&call) {
            let outcome = self.thought(&call);
            return returned(&call, outcome);
        }
        if call.started && self.dice.roll(8) == 0 {
            return Event::OutcomeUnknown {
                call: call.id,
                expires_at: Timestamp::MAX,
                cause: None,
            };
        }
        let outcome = self.result();
        returned(&call, outcome)
    }

    fn answer(&mut self, about: QuestionKind) -> QuestionAnswer {
        match (self.dice.roll(4), about) {
            (0, _) => QuestionAnswer::Approve { message: None },
            (1, _) => QuestionAnswer::Reject { message: None },
            (2, QuestionKind::Approval) => QuestionAnswer::Modify {
                value: json!({ "page": 9 }),
            },
            (2, QuestionKind::OutcomeUnknown) => QuestionAnswer::Modify {
                value: json!("it was done"),
            },
            _ => QuestionAnswer::Expired,
        }
    }

    fn thought(&mut self, call: &Call<Request>) -> Outcome<Given> {
        self.thoughts += 1;
        if self.dice.roll(10) == 0 {
            return Outcome::Failed(Failure {
                code: "llm.unavailable".into(),
                transient: true,
                ..failure("try again later")
            });
        }
        let asked = json!(call.request);
        let text = match (asked["phase"].as_str().unwrap(), self.dice.roll(3)) {
            ("plan", 0) => "no plan",
            ("plan", _) => r#"{"steps": ["look", "pay"]}"#,
            ("critique", 0) => r#"{"ok": true}"#,
            ("critique", _) => r#"{"ok": false, "feedback": "more of it"}"#,
            (_, _) => "Here it is.",
        };
        let calls: Vec<Value> = (0..self.dice.roll(5))
            .map(|index| self.call(index))
            .collect();
        // A model that calls tools may say something with it or not.
        let text = if calls.is_empty() || self.dice.roll(2) == 0 {
            text
        } else {
            ""
        };
        done(json!({ "thought": {
            "text": text,
            "calls": calls,
            "usage": { "input_tokens": 3, "output_tokens": 2, "estimated": false },
            "model": "scripted",
        } }))
    }

    /// The client takes away ids that a model gave twice, so that here they are missing.
    fn call(&mut self, index: u32) -> Value {
        let name = NAMES[usize::try_from(self.dice.roll(11)).unwrap()];
        let id = (self.dice.roll(3) > 0).then(|| format!("call_{index}"));
        let arguments = match self.dice.roll(5) {
            0 => json!({ "Err": "{oops" }),
            _ => json!({ "Ok": { "n": index } }),
        };
        json!({ "id": id, "name": name, "arguments": arguments })
    }

    fn result(&mut self) -> Outcome<Given> {
        let reply = |text: &str, is_error: bool| {
            let content = json!({});
            done(json!({ "tool": {
                "server": "desk", "tool": "t", "content": content, "text": text, "is_error": is_error,
            } }))
        };
        match self.dice.roll(6) {
            0 => Outcome::Failed(failure("it does not work")),
            1 => Outcome::Failed(Failure {
                kind: FailureKind::Answered,
                ..failure("")
            }),
            2 => reply("not so", true),
            3 => reply(" \n", false),
            _ => reply("done", false),
        }
    }
}

fn asks_model(call: &Call<Request>) -> bool {
    json!(call.request)["kind"] == "model"
}

fn done(reply: Value) -> Outcome<Given> {
    Outcome::Done(serde_json::from_value(reply).unwrap())
}

fn returned(call: &Call<Request>, outcome: Outcome<Given>) -> Event<Given> {
    Event::Returned {
        call: call.id,
        label: call.label.clone(),
        outcome,
        started_at: None,
        duration_ms: 5,
    }
}

/// The messages as the client writes them, under the instruction. The names of tools are its own
/// concern.
fn on_the_wire(messages: &[Message]) -> Vec<Value> {
    let written = messages.iter().map(|message| {
        let role = match message.role {
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::Tool => "tool",
            Role::System => "system",
        };
        let mut wire = json!({ "role": role, "content": message.content });
        let calls: Vec<Value> = message
            .tool_calls
            .iter()
            .map(|call| {
                let id = call.model_call_id.clone().unwrap_or(call.id.to_string());
                let function =
                    json!({ "name": "t", "arguments": json!(call.arguments).to_string() });
                json!({ "id": id, "type": "function", "function": function })
            })
            .collect();
        if !calls.is_empty() {
            wire["tool_calls"] = calls.into();
        }
        if let Some(id) = &message.tool_call_id {
            wire["tool_call_id"] = json!(id);
        }
        wire
    });
    std::iter::once(json!({ "role": "system", "content": "You are a clerk." }))
        .chain(written)
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn any_order_of_results_keeps_the_transcript_valid_and_replays_to_the_same(
        thorough in any::<bool>(),
        rolls in proptest::collection::vec(any::<u32>(), 40..200),
    ) {
        let story = Story::tell(thorough, rolls);
        prop_assert!(story.thoughts > 0);
        let mut again = begin(&story.assistant);
        for (event, at, state, messages) in &story.journal {
            again.apply(event.clone(), *at);
            prop_assert_eq!(&serde_json::to_value(again.snapshot()).unwrap(), state);
            prop_assert_eq!(&*again.messages().as_slice(), messages);
        }
    }
}

fn raw_calls(calls: &Value) -> Reply {
    let message = json!({ "role": "assistant", "content": null, "tool_calls": calls });
    Reply::raw(&json!({ "choices": [{ "message": message }] }))
}

fn raw_call(id: Option<&str>, name: &str, arguments: &str) -> Value {
    let function = json!({ "name": name, "arguments": arguments });
    json!({ "id": id, "type": "function", "function": function })
}

#[tokio::test]
async fn results_are_shown_in_the_order_of_the_calls() {
    let orders = [
        [0, 1, 2],
        [0, 2, 1],
        [1, 0, 2],
        [1, 2, 0],
        [2, 0, 1],
        [2, 1, 0],
    ];
    for order in orders {
        // The same id twice, and none at all.
        let calls = json!([
            raw_call(Some("c"), "pay", r#"{"n": 0}"#),
            raw_call(Some("c"), "pay", r#"{"n": 1}"#),
            raw_call(None, "get_time", r#"{"n": 2}"#),
        ]);
        let office = Office::open(json!({}), vec![raw_calls(&calls), Reply::text("Done.")]).await;
        let gates: [Arc<Semaphore>; 3] = std::array::from_fn(|_| Arc::new(Semaphore::new(0)));
        for tool in ["pay", "get_time"] {
            let gates = gates.clone();
            office.tool_server.behave(tool, move |arguments| {
                let number = usize::try_from(arguments["n"].as_u64().unwrap()).unwrap();
                let gate = Arc::clone(&gates[number]);
                async move {
                    gate.acquire().await.unwrap().forget();
                    Ok(json!({ "result": number }))
                }
                .boxed()
            });
        }
        let task = office.submit("Do all three.").await;
        for (done, number) in order.into_iter().enumerate() {
            // The acceptance, the thought, and what has come back so far.
            office.until_journaled(task, 2 + done).await;
            gates[number].add_permits(1);
        }
        office.engine.wait(&Viewer::System, task).await.unwrap();
        let shown = office.shown(1);
        assert_valid(&shown);
        for number in 0..3 {
            let expected = json!({ "result": number }).to_string();
            assert_eq!(shown[3 + number]["content"], expected, "{order:?}");
        }
    }
}

#[tokio::test]
async fn calls_that_nobody_can_make_sense_of_are_each_answered() {
    for name in NAMES {
        let strange = raw_calls(&json!([
            raw_call(Some("a"), name, "{}"),
            raw_call(Some("b"), "get_time", "{}"),
            raw_call(Some("d"), name, "{oops"),
        ]));
        let agent = json!({ "tools": ["desk.get_time", "desk.pay"] });
        let office = Office::open(agent, vec![strange, Reply::text("Well.")]).await;
        let ended = office.ask("Try.").await;
        assert_eq!(ended.answer.unwrap().text, "Well.", "{name}");
        assert_valid(&office.shown(1));
    }
}

#[tokio::test]
async fn calls_with_the_same_model_id_are_separate_in_the_answer() {
    let replies = vec![
        Reply::tool_calls([("get_time", json!({ "n": 1 }))]),
        Reply::tool_calls([("get_time", json!({ "n": 2 }))]),
        Reply::text("Done."),
    ];
    let office = Office::open(json!({}), replies).await;
    office.tool("get_time", |arguments| Ok(arguments["n"].clone()));
    let answer = office.ask("Twice.").await.answer.unwrap();
    let results: Vec<_> = answer
        .tool_calls
        .iter()
        .map(|call| call.result.clone().unwrap())
        .collect();
    assert_eq!(results, [json!("1"), json!("2")]);
}

#[tokio::test]
async fn what_a_person_rejected_is_not_done_by_another_tool() {
    let server = json!({ "tools": {
        "sign": { "approval": "required", "fallback_tools": ["desk.pay_later"] },
    } });
    let setting = || Setting {
        agent: json!({ "tools": ["desk.sign"] }),
        server: server.clone(),
        ..Setting::default()
    };
    let replies = || {
        vec![
            Reply::tool_calls([("sign", json!({ "page": 3 }))]),
            Reply::text("All right."),
        ]
    };
    let office = Office::set_up(setting(), replies()).await;
    let waiting = office.ask("Sign it.").await;
    let ended = office.answer(&waiting, json!({ "action": "reject" })).await;
    assert_eq!(ended.answer.unwrap().text, "All right.");
    assert!(office.calls().is_empty(), "{:?}", office.calls());

    // What they agreed to with other arguments stays so when another tool has to do it.
    let office = Office::set_up(setting(), replies()).await;
    office.tool("sign", |_| Err(failure("the pen is dry")));
    let waiting = office.ask("Sign it.").await;
    let modified = json!({ "action": "modify", "value": { "page": 4 } });
    office.answer(&waiting, modified).await;
    let told = office.shown(1)[3]["content"].as_str().unwrap().to_owned();
    assert!(
        told.contains(r#"changed the arguments to {"page":4}"#),
        "{told}"
    );
    let page = json!({ "page": 4 });
    assert_eq!(
        office.calls(),
        [
            ("sign".to_owned(), page.clone()),
            ("pay_later".to_owned(), page)
        ]
    );
}

#[tokio::test]
async fn arguments_that_do_not_fit_go_back_to_the_model_and_to_no_other_tool() {
    let replies = vec![
        Reply::tool_calls([("pay", json!({ "amount": "much" }))]),
        Reply::text("How much?"),
    ];
    let office = Office::open(json!({}), replies).await;
    office.tool("pay", |_| {
        Err(Failure {
            code: "tool.arguments".into(),
            ..failure("amount: \"much\" is no number")
        })
    });
    office.ask("Pay.").await;
    assert_eq!(office.calls().len(), 1);
    let told = office.shown(1)[3]["content"].as_str().unwrap().to_owned();
    assert!(told.contains("is no number"), "{told}");
}

#[tokio::test]
async fn a_model_without_tool_calls_is_never_shown_any() {
    let call = || Reply::text(r#"{"tool": "get_time", "arguments": {}}"#);
    let agent =
        json!({ "tool_mode": "schema", "max_iterations": 1, "patterns": ["react", "reflection"] });
    let replies = vec![
        call(),
        Reply::text("It is noon."),
        Reply::text(r#"{"ok": true}"#),
    ];
    let office = Office::open(agent, replies).await;
    assert_eq!(
        office.ask("What time is it?").await.answer.unwrap().text,
        "It is noon."
    );
    for request in 0..3 {
        let shown = office.shown(request);
        assert_valid(&shown);
        for message in shown {
            assert!(
                message.get("tool_calls").is_none() && message["role"] != "tool",
                "{message}"
            );
        }
    }
}

#[tokio::test]
async fn a_conversation_that_is_cut_still_begins_with_the_user() {
    let setting = Setting {
        agent: json!({ "tools": [] }),
        limits: json!({ "history_messages": 3 }),
        ..Setting::default()
    };
    let office = Office::set_up(setting, Reply::text("word ".repeat(300))).await;
    for turn in 0..4 {
        office.ask(&format!("Turn {turn}")).await;
        assert_valid(&office.shown(turn));
    }
    let office = Office::open_with_window(
        json!({ "tools": [] }),
        Reply::text("word ".repeat(300)),
        2_500,
    )
    .await;
    for turn in 0..8 {
        office.ask(&format!("Turn {turn}")).await;
        assert_valid(&office.shown(turn));
    }
}
