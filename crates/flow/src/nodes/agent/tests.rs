//! How the work of an agent's loop grows with the number of its thoughts.

use std::sync::Arc;

use convoke_app::App;
use convoke_engine::machine::Machine;
use convoke_engine::{Event, Facts, Outcome};
use convoke_llm::Usage;
use convoke_model::{Channel, Message, TaskState};
use convoke_store::StateWriter;
use convoke_tools::ToolReply;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, json};
use uuid::Uuid;

use super::transcript::{PromptCut, Thought, ThoughtCall, tokens};
use crate::assistant::Assistant;
use crate::calls::{CallReply, CallRequest, Reply};
use crate::effort;
use crate::input::TaskInput;

/// An app with one agent that may call a tool very often.
fn app() -> Arc<App> {
    let agent = json!({
        "name": "clerk", "role": "Calculates.", "system_prompt": "Calculate.",
        "tools": ["builtin.calculate"], "max_iterations": 100_000,
        "budget": { "model_calls": 100_000, "tool_calls": 100_000, "tokens": 1_000_000_000 },
        "llm_config": { "endpoint": "http://127.0.0.1:1/v1", "model": "scripted" },
    });
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("agents")).unwrap();
    for (file, content) in [
        ("convoke.json", &json!({ "name": "desk" })),
        ("agents/clerk.json", &agent),
    ] {
        std::fs::write(folder.path().join(file), content.to_string()).unwrap();
    }
    match App::load(folder.path(), &|_| None) {
        Ok(loaded) => Arc::new(loaded.app),
        Err(problems) => panic!("{}", problems.pretty()),
    }
}

fn thought(calls: Vec<ThoughtCall>) -> CallReply {
    CallReply::Thought(Box::new(Thought {
        text: if calls.is_empty() { "Done." } else { "" }.into(),
        calls,
        usage: Usage::default(),
        model: "scripted".into(),
        cut: 0,
        idle_seconds: None,
    }))
}

/// Counts the work of a task in which an agent calls a tool with so many thoughts: that of the steps and of writing the
/// state after each, and that of finding out what a model is shown.
fn work(thoughts: usize) -> usize {
    let assistant = Arc::new(Assistant::new(app()).unwrap());
    let facts = Facts {
        id: Uuid::from_u128(1),
        owner: Uuid::from_u128(2),
        conversation: None,
        channel: Channel::Terminal,
        parent: None,
        created_at: Timestamp::UNIX_EPOCH,
        deadline: Timestamp::MAX,
        trace: convoke_telemetry::TraceContext::begin(Uuid::from_u128(1)),
    };
    let mut at = Timestamp::UNIX_EPOCH;
    let mut machine = Machine::new(assistant, facts);
    machine.begin_with([Message::user("Go.", at).unwrap()]);
    let mut states = StateWriter::default();
    let mut called = 0;
    let steps = effort::of(|| {
        let input = json!(TaskInput::User);
        machine.apply(Event::Submitted { input }, at);
        while let Some(call) = machine.snapshot().open.first() {
            let reply = if let CallRequest::Model(_) = &call.request.0 {
                PromptCut::of(machine.messages(), &[], 1_000, tokens);
                let call = ThoughtCall {
                    id: None,
                    name: "builtin.calculate".into(),
                    arguments: Ok(Map::new()),
                };
                let calls = if called < thoughts {
                    vec![call]
                } else {
                    Vec::new()
                };
                called += calls.len();
                thought(calls)
            } else {
                let reply = ToolReply::of("builtin", "calculate", json!({ "result": called }));
                CallReply::Tool(Box::new(reply))
            };
            let returned = Event::Returned {
                call: call.id,
                label: call.label.clone(),
                outcome: Outcome::Done(Reply(reply)),
                started_at: None,
                duration_ms: 1,
            };
            at += SignedDuration::from_millis(1);
            machine.apply(returned, at);
            states.write(machine.snapshot());
        }
        assert_eq!(machine.snapshot().status, TaskState::Completed);
    });
    assert_eq!(called, thoughts);
    steps + states.effort()
}

#[test]
fn a_long_loop_takes_work_in_proportion_to_its_thoughts() {
    let (once, twice) = (work(1_000), work(2_000));
    assert!(
        twice * 10 < once * 22,
        "{once} for 1,000 thoughts, {twice} for 2,000"
    );
}
