//! Bounds of workflows.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod support;

use convoke_app::{App, Bounds};
use support::app;

const INNER: &str = "\
name: inner
entry_point: a
nodes:
  a: {type: tool, tool: todo.add_task, timeout_seconds: 7}
";

const OUTER: &str = "\
name: main
entry_point: begin
nodes:
  begin: {type: condition, expression: 'true'}
  short: {type: tool, tool: todo.add_task, timeout_seconds: 5}
  long: {type: tool, tool: todo.add_task, timeout_seconds: 10, retries: 2, retry_delay_ms: 1000}
  each: {type: tool, tool: todo.add_task, timeout_seconds: 4, map: {over: '[]', parallel: 3, max_items: 10}}
  ask: {type: human, prompt: 'Well?'}
  walk: {type: workflow, workflow: inner}
edges:
  - {from: begin, to: short}
  - {from: begin, to: long}
  - {from: long, to: each}
  - {from: each, to: ask}
  - {from: ask, to: {approve: walk}}
checkpoints: [short]
";

fn bounds(outer: &str) -> Bounds {
    let folder = app(&[
        ("workflows/inner.yaml", INNER),
        ("workflows/main.yaml", outer),
    ]);
    let app = App::load(folder.path(), &|_| None).unwrap().app;
    app.bounds(app.workflow("main").unwrap())
}

#[test]
fn every_call_counts_and_the_slowest_path_is_the_time() {
    let expected = Bounds {
        // One, three attempts, ten items, and one of the inner workflow.
        tool_calls: 1 + 3 + 10 + 1,
        model_calls: 0,
        questions: 2,
        // Three attempts of ten seconds with two pauses, four rounds of four seconds, and seven.
        seconds: 32 + 16 + 7,
    };
    assert_eq!(bounds(OUTER), expected);
}

#[test]
fn fallback_tools_count_too() {
    let server = "servers:\n  - name: todo\n    transport: {stdio: {command: convoke}}\n    tools:\n      \
                  add_task: {fallback_tools: [todo.note, todo.shout], timeout_seconds: 9}\n";
    let folder = app(&[
        ("config/mcp_servers.yaml", server),
        ("workflows/inner.yaml", INNER),
        ("workflows/main.yaml", OUTER),
    ]);
    let app = App::load(folder.path(), &|_| None).unwrap().app;
    let bounds = app.bounds(app.workflow("main").unwrap());
    assert_eq!(bounds.tool_calls, 3 * (1 + 3 + 10 + 1));
    // Three times ten seconds an attempt, three times four a round, and three times seven.
    assert_eq!(bounds.seconds, 3 * 30 + 2 + 4 * 12 + 21);
}

#[test]
fn no_more_calls_than_the_workflow_allows() {
    let outer = OUTER.replace("name: main", "name: main\nmax_iterations: 9");
    assert_eq!(
        bounds(&outer).tool_calls,
        9 + 1,
        "the inner one has a bound of its own"
    );
}

#[test]
fn what_agents_may_call_counts_too() {
    let outer = OUTER.replace(
        "walk: {type: workflow, workflow: inner}",
        "walk: {type: agent, agent: todo, retries: 1}",
    );
    let bounds = bounds(&outer);
    assert_eq!(bounds.tool_calls, 1 + 3 + 10 + 2 * 50);
    assert_eq!(bounds.model_calls, 2 * 40);
}

#[test]
fn a_workflow_that_a_skill_starts_counts_where_requests_are_dispatched() {
    let payer = "name: payer\nrole: Pays.\nsystem_prompt: Pay.\nskills:\n  - name: pay\n    description: Pays.\n    \
        sentences: [pay it]\n    action: {workflow: inner, approval: {when: 'true'}}\n";
    let inner = "name: inner\nentry_point: a\nnodes:\n  a: {type: tool, tool: todo.add_task}\n  \
        b: {type: human, prompt: 'Well?'}\n  c: {type: tool, tool: todo.add_task}\n\
        edges: [{from: a, to: b}, {from: b, to: c}]\n";
    let main = "name: main\nentry_point: who\nnodes: {who: {type: route}, them: {type: dispatch, of: who}}\n\
        edges: [{from: who, to: them}]\n";
    let folder = app(&[
        ("agents/payer.yaml", payer),
        ("workflows/inner.yaml", inner),
        ("workflows/main.yaml", main),
    ]);
    let app = App::load(folder.path(), &|_| None).unwrap().app;
    let bounds = app.bounds(app.workflow("main").unwrap());
    // The approval before it, and the person in it.
    assert_eq!(bounds.questions, 2 * convoke_model::MAX_TARGETS as u64);
    // Two calls of 50 seconds each, which is more than an agent may take.
    assert_eq!(bounds.seconds, 100);
}
