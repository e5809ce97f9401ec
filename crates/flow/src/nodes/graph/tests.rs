//! How the work of a walk grows with the workflow.

use std::sync::Arc;

use convoke_app::App;
use convoke_engine::machine::Machine;
use convoke_engine::{Event, Facts, Outcome};
use convoke_model::{Channel, Message, TaskState};
use convoke_tools::ToolReply;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::assistant::Assistant;
use crate::calls::{CallReply, Reply};
use crate::effort;
use crate::input::TaskInput;

/// An app that walks this workflow and does nothing else.
fn app(workflow: &Value) -> Arc<App> {
    let agent = json!({ "name": "clerk", "role": "Answers.", "system_prompt": "Answer." });
    let folder = tempfile::tempdir().unwrap();
    for (file, content) in [
        ("convoke.json", &json!({ "name": "desk" })),
        ("agents/clerk.json", &agent),
        ("workflows/main.json", workflow),
    ] {
        let path = folder.path().join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content.to_string()).unwrap();
    }
    match App::load(folder.path(), &|_| None) {
        Ok(loaded) => Arc::new(loaded.app),
        Err(problems) => panic!("{}", problems.pretty()),
    }
}

/// Walks a workflow whose tools all reply with this, and counts the work of it.
fn walk(workflow: &Value, content: &Value) -> usize {
    let assistant = Arc::new(Assistant::new(app(workflow)).unwrap());
    let facts = Facts {
        id: Uuid::from_u128(1),
        owner: Uuid::from_u128(2),
        conversation: None,
        channel: Channel::Terminal,
        parent: None,
        created_at: Timestamp::UNIX_EPOCH,
        deadline: Timestamp::MAX,
    };
    let mut at = Timestamp::UNIX_EPOCH;
    let mut machine = Machine::new(assistant, facts);
    machine.begin_with([Message::user("Go.", at).unwrap()]);
    effort::of(|| {
        let input = json!(TaskInput::User);
        machine.apply(Event::Submitted { input }, at);
        while let Some(call) = machine.snapshot().open.first() {
            let reply = ToolReply::of("desk", "do", content.clone());
            let returned = Event::Returned {
                call: call.id,
                label: call.label.clone(),
                outcome: Outcome::Done(Reply(CallReply::Tool(Box::new(reply)))),
                started_at: None,
                duration_ms: 1,
            };
            at += SignedDuration::from_millis(1);
            machine.apply(returned, at);
        }
        assert_eq!(machine.snapshot().status, TaskState::Completed);
    })
}

/// A node whose result takes the place of the one before, so that the state does not grow.
fn node() -> Value {
    json!({ "type": "tool", "tool": "builtin.calculate", "output": "last",
        "arguments": { "expression": "{{ last.n }}" } })
}

fn workflow(nodes: &[(String, Value)], edges: &[Value]) -> Value {
    let nodes: serde_json::Map<String, Value> = nodes.iter().cloned().collect();
    json!({ "name": "main", "nodes": nodes, "edges": edges, "entry_point": "n0000",
        "answer": "Done.", "max_iterations": 10_000 })
}

fn name(index: usize) -> String {
    format!("n{index:04}")
}

/// One node after another.
fn chain(length: usize) -> Value {
    let nodes: Vec<_> = (0..length).map(|index| (name(index), node())).collect();
    let edges: Vec<_> = (1..length)
        .map(|to| json!({ "from": name(to - 1), "to": name(to), "condition": "last.n > 0" }))
        .collect();
    workflow(&nodes, &edges)
}

/// Many nodes at once, and one that waits for all of them.
fn fan(width: usize) -> Value {
    let nodes: Vec<_> = (0..width + 2).map(|index| (name(index), node())).collect();
    let edges: Vec<_> = (1..=width)
        .flat_map(|one| {
            [(0, one), (one, width + 1)]
                .map(|(from, to)| json!({ "from": name(from), "to": name(to) }))
        })
        .collect();
    workflow(&nodes, &edges)
}

/// One node for each item of a list.
fn list() -> Value {
    let mut each = node();
    each["output"] = json!("each");
    each["arguments"]["expression"] = json!("{{ item }}");
    each["map"] = json!({ "over": "last.items", "as": "item", "parallel": 1, "max_items": 1_000 });
    let edge = json!({ "from": name(0), "to": name(1) });
    workflow(&[(name(0), node()), (name(1), each)], &[edge])
}

/// Twice the workflow is twice the work, and not four times.
fn assert_linear(what: &str, work: impl Fn(usize) -> usize) {
    let (once, twice) = (work(100), work(200));
    assert!(
        twice < once * 5 / 2,
        "{what}: {once} steps for 100, {twice} for 200"
    );
}

#[test]
fn a_long_chain_of_nodes_takes_work_in_proportion_to_its_length() {
    assert_linear("chain", |length| walk(&chain(length), &json!({ "n": 1 })));
}

#[test]
fn many_nodes_at_once_take_work_in_proportion_to_their_number() {
    assert_linear("fan", |width| walk(&fan(width), &json!({ "n": 1 })));
}

#[test]
fn the_items_of_a_list_take_work_in_proportion_to_their_number() {
    assert_linear("list", |items| {
        walk(&list(), &json!({ "n": 1, "items": vec![1; items] }))
    });
}
