//! How the work of a walk grows with the workflow.

use std::sync::Arc;

use convoke_app::App;
use convoke_engine::machine::Machine;
use convoke_engine::{Event, Facts, Outcome, Snapshot};
use convoke_model::{Channel, Message, TaskState};
use convoke_store::StateWriter;
use convoke_tools::ToolReply;
use jiff::Timestamp;
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

fn facts() -> Facts {
    let id = Uuid::from_u128(1);
    Facts {
        id,
        owner: Uuid::from_u128(2),
        conversation: None,
        channel: Channel::Terminal,
        parent: None,
        created_at: Timestamp::UNIX_EPOCH,
        deadline: Timestamp::MAX,
        trace: convoke_telemetry::TraceContext::begin(id),
    }
}

/// A task of a workflow, at its start.
fn begin(workflow: &Value) -> Machine<Assistant> {
    let assistant = Arc::new(Assistant::new(app(workflow)).unwrap());
    let mut machine = Machine::new(assistant, facts());
    let at = Timestamp::UNIX_EPOCH;
    machine.begin_with([Message::user("Go.", at).unwrap()]);
    let input = json!(TaskInput::User);
    machine.apply(Event::Submitted { input }, at);
    machine
}

/// Answers the first open call with this. Whether there was one.
fn answer(machine: &mut Machine<Assistant>, content: &Value) -> bool {
    let Some(call) = machine.snapshot().open.first() else {
        return false;
    };
    let reply = ToolReply::of("desk", "do", content.clone());
    let returned = Event::Returned {
        call: call.id,
        label: call.label.clone(),
        outcome: Outcome::Done(Reply(CallReply::Tool(Box::new(reply)))),
        started_at: None,
        duration_ms: 1,
    };
    let steps = i64::try_from(machine.seq()).unwrap();
    let at = Timestamp::from_millisecond(steps).unwrap();
    machine.apply(returned, at);
    true
}

/// Walks a workflow whose tools all reply with this, and counts the work of it: that of the steps, and that of writing
/// the state after each.
fn walk(workflow: &Value, content: &Value) -> (usize, usize) {
    walk_after(workflow, content, content)
}

/// The same, where the first tool replies with something else.
fn walk_after(workflow: &Value, first: &Value, content: &Value) -> (usize, usize) {
    let mut states = StateWriter::default();
    let steps = effort::of(|| {
        let mut machine = begin(workflow);
        states.write(machine.snapshot());
        answer(&mut machine, first);
        states.write(machine.snapshot());
        while answer(&mut machine, content) {
            states.write(machine.snapshot());
        }
        assert_eq!(machine.snapshot().status, TaskState::Completed);
    });
    (steps, states.effort())
}

/// A node whose result replaces the previous one, so that the state does not grow.
fn node() -> Value {
    json!({ "type": "tool", "tool": "builtin.calculate", "output": "last",
        "arguments": { "expression": "{{ (last or {}).n or 0 }}" } })
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

/// One node after another, each of which adds to the state what it has found, by this reducer.
fn collecting(length: usize, reducer: &str) -> Value {
    let mut workflow = chain(length);
    for (name, node) in workflow["nodes"].as_object_mut().unwrap() {
        node["output"] = match reducer {
            "own" => json!(name),
            _ => json!("found"),
        };
    }
    workflow["edges"]
        .as_array_mut()
        .unwrap()
        .iter_mut()
        .for_each(|edge| edge["condition"] = json!("1 > 0"));
    if reducer != "own" {
        workflow["state"] = json!({ "found": reducer });
    }
    workflow
}

/// Twice the workflow is twice the work, and not four times.
fn assert_linear(what: &str, work: impl Fn(usize) -> usize) {
    let (once, twice) = (work(300), work(600));
    assert!(
        twice * 10 < once * 22,
        "{what}: {once} for 300, {twice} for 600"
    );
}

#[test]
fn a_long_chain_of_nodes_takes_work_in_proportion_to_its_length() {
    let reply = json!({ "n": 1 });
    assert_linear("chain", |length| walk(&chain(length), &reply).0);
    assert_linear("its states", |length| walk(&chain(length), &reply).1);
}

#[test]
fn many_nodes_at_once_take_work_in_proportion_to_their_number() {
    assert_linear("fan", |width| walk(&fan(width), &json!({ "n": 1 })).0);
}

#[test]
fn the_items_of_a_list_take_work_in_proportion_to_their_number() {
    let reply = |items| json!({ "n": 1, "items": vec![1; items] });
    assert_linear("list", |items| walk(&list(), &reply(items)).0);
    // A result that is as long as the list would make the state grow with the square of its items.
    assert_linear("its states", |items| {
        walk_after(&list(), &reply(items), &reply(1)).1
    });
}

#[test]
fn a_state_that_grows_with_every_node_takes_work_in_proportion_to_their_number() {
    let reply = json!({ "n": 1, "text": "what a tool has found" });
    for reducer in ["own", "append"] {
        let work = |length| walk(&collecting(length, reducer), &reply).1;
        assert_linear(reducer, work);
    }
}

#[test]
fn a_walk_is_written_as_in_every_version() {
    let content = json!({ "n": 1, "items": [1, 2, 3] });
    let mut machine = begin(&list());
    for _ in 0..2 {
        answer(&mut machine, &content);
    }
    let walk = json!(machine.snapshot())["program"]["walk"].clone();
    let running = json!({ "items": [1, 2, 3], "results": { "0": content }, "begun": 2, "open": 1 });
    assert_eq!(
        walk["visits"],
        json!({ "n0000": "done", "n0001": { "running": running } })
    );
    assert_eq!(walk["ways"], json!({ "0": "n0001" }));
    let mut states = StateWriter::default();
    for _ in 0..2 {
        let written: Value = serde_json::from_str(&states.write(machine.snapshot())).unwrap();
        assert_eq!(written, json!(machine.snapshot()));
    }
}

#[test]
fn a_walk_that_is_read_back_goes_on_as_before() {
    let content = json!({ "n": 1, "items": [1, 2, 3, 4] });
    let workflow = list();
    let (mut machine, mut other) = (begin(&workflow), begin(&workflow));
    while answer(&mut machine, &content) {
        answer(&mut other, &content);
        let state = json!(machine.snapshot());
        let snapshot: Snapshot<_, _> = serde_json::from_value(state).unwrap();
        assert!(snapshot == *machine.snapshot());
        let assistant = Arc::new(Assistant::new(app(&workflow)).unwrap());
        let messages = machine.messages().as_slice().into_owned();
        let seq = machine.seq();
        machine = Machine::restore(assistant, facts(), snapshot, messages, seq);
    }
    assert_eq!(machine.snapshot().status, TaskState::Completed);
    assert_eq!(json!(machine.snapshot()), json!(other.snapshot()));
}
