//! Creates long tasks by executing them: a node over a list, chains of nodes, and an agent with many tool calls.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use convoke::TaskState;
use convoke_testkit::{Reply, Script, ScriptedModel};
use serde::Serialize;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::app::{BenchApp, idle_agent, request};
use crate::figures::store_bytes;
use crate::processes::CpuSeconds;

/// The agent's window in tokens: small, so that all but the shortest tasks are longer.
const WINDOW: u32 = 4_096;

/// The shape of a long task.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Shape {
    /// An agent that calls a tool in every turn.
    Agent,
    /// A workflow with one node that runs a tool over a list.
    Map,
    /// A workflow with a chain of nodes that each call a tool.
    Chain,
    /// The same, where each node adds its result to one list.
    Append,
}

impl Shape {
    pub(crate) const ALL: [Self; 4] = [Self::Agent, Self::Map, Self::Chain, Self::Append];

    pub(crate) fn in_words(self) -> &'static str {
        match self {
            Self::Agent => "an agent that calls a tool with every thought",
            Self::Map => "one node of a workflow that goes over a list",
            Self::Chain => "a workflow with a node for every step",
            Self::Append => "the same, where all nodes add to one list",
        }
    }
}

/// An ended task and its store.
pub(crate) struct LongTask {
    pub(crate) app: BenchApp,
    pub(crate) task: Uuid,
    pub(crate) took: Duration,
    /// CPU seconds of this process, the scripted model included.
    pub(crate) cpu_seconds: f64,
    /// The growth of the store's file.
    pub(crate) file_growth: u64,
}

/// Runs a task of about this many steps.
pub(crate) async fn execute(below: &Path, shape: Shape, steps: u32) -> anyhow::Result<LongTask> {
    match shape {
        Shape::Map => {
            let app = BenchApp::write(below, &idle_agent(), Some(&map(steps)))?;
            finish(app).await
        }
        Shape::Chain => {
            let app = BenchApp::write(below, &idle_agent(), Some(&chain(steps)))?;
            finish(app).await
        }
        Shape::Append => {
            let mut workflow = chain(steps);
            workflow["state"] = json!({ "found": "append" });
            let nodes = workflow["nodes"].as_object_mut();
            for (_, node) in nodes.into_iter().flatten() {
                node["output"] = json!("found");
            }
            finish(BenchApp::write(below, &idle_agent(), Some(&workflow))?).await
        }
        Shape::Agent => {
            // A model turn is a step, and so is its tool call.
            let calls = steps / 2;
            let model = ScriptedModel::start(tool_caller(calls)).await?;
            finish(BenchApp::write(below, &agent(&model, calls), None)?).await
        }
    }
}

async fn finish(app: BenchApp) -> anyhow::Result<LongTask> {
    let runtime = app.start().await?;
    let empty = store_bytes(&app.store())?;
    let (started, busy_before) = (Instant::now(), CpuSeconds::now()?);
    let ended = runtime.ask(request()).await?;
    let (took, busy) = (started.elapsed(), CpuSeconds::now()?.since(busy_before));
    anyhow::ensure!(
        ended.status == TaskState::Completed,
        "a long task is {}: {:?}",
        ended.status,
        ended.error
    );
    runtime.shutdown().await?;
    let file_growth = store_bytes(&app.store())? - empty;
    Ok(LongTask {
        task: ended.facts.id,
        app,
        took,
        cpu_seconds: busy.own,
        file_growth,
    })
}

fn map(items: u32) -> Value {
    json!({
        "name": "main",
        "nodes": {
            "each": {
                "type": "tool",
                "tool": "builtin.calculate",
                "arguments": { "expression": "{{ number }} + 1" },
                "map": { "over": format!("range({items})"), "as": "number", "max_items": items },
            },
        },
        "entry_point": "each",
        "answer": "Went over {{ each | length }}.",
        "max_iterations": items,
    })
}

fn chain(length: u32) -> Value {
    let name = |number: u32| format!("n{number}");
    let node = |number: u32| {
        let sum = format!("{number} + 1");
        let arguments = json!({ "expression": sum });
        json!({ "type": "tool", "tool": "builtin.calculate", "arguments": arguments })
    };
    let nodes: Map<String, Value> = (0..length)
        .map(|number| (name(number), node(number)))
        .collect();
    let edges: Vec<Value> = (1..length)
        .map(|number| json!({ "from": name(number - 1), "to": name(number) }))
        .collect();
    json!({
        "name": "main",
        "nodes": nodes,
        "edges": edges,
        "entry_point": name(0),
        "answer": "Done.",
        "max_iterations": length,
    })
}

fn agent(model: &ScriptedModel, calls: u32) -> Value {
    json!({
        "name": "clerk",
        "role": "Calculates.",
        "system_prompt": "Calculate until you are done.",
        "tools": ["builtin.calculate"],
        "tool_mode": "native",
        "max_iterations": calls + 1,
        "budget": { "model_calls": calls + 2, "tool_calls": calls + 2, "tokens": 1_000_000_000 },
        "llm_config": { "endpoint": model.endpoint(), "model": "scripted", "context_tokens": WINDOW },
    })
}

/// Calls a tool this many times, then answers.
fn tool_caller(calls: u32) -> Script {
    let asked = AtomicU32::new(0);
    Script::by(move |_| {
        let number = asked.fetch_add(1, Ordering::Relaxed);
        if number < calls {
            let sum = format!("{number} + 1");
            Reply::tool_calls([("calculate", json!({ "expression": sum }))])
        } else {
            Reply::text("Done.")
        }
    })
}
