//! The workflows of an app as graphs, and what each takes at worst.

use convoke::App;
use convoke_model::{Destination, Edge, WorkflowFields};
use futures::FutureExt;
use http::Method;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::schema_of;
use crate::call::Call;
use crate::problem::Problem;
use crate::reply::Reply;
use crate::route::{Answers, Route};

pub(super) const LIST: Route = Route {
    method: &Method::GET,
    path: "/api/v1/workflows",
    name: "list_workflows",
    summary: "The workflows of the app, and what each takes at worst",
    answers: &[(200, Answers::Json(schema_of::<WorkflowList>))],
    handler: |call| {
        async move {
            let app = call.runtime()?.app();
            let workflows = app.workflows.iter().map(|workflow| WorkflowItem {
                name: workflow.name.to_string(),
                bounds: WorstCase::of(&app, workflow),
            });
            let workflows = workflows.collect();
            Ok(Reply::json(&WorkflowList { workflows }))
        }
        .boxed()
    },
    ..Route::OF_USERS
};

pub(super) const ONE: Route = Route {
    path: "/api/v1/workflows/{workflow}",
    name: "get_workflow",
    summary: "A workflow as a graph of nodes and edges",
    answers: &[(200, Answers::Json(schema_of::<Graph>))],
    handler: |call| async move { graph(&call) }.boxed(),
    ..LIST
};

/// The workflows of an app.
#[derive(Debug, Serialize, JsonSchema)]
struct WorkflowList {
    workflows: Vec<WorkflowItem>,
}

/// A workflow in a list.
#[derive(Debug, Serialize, JsonSchema)]
struct WorkflowItem {
    name: String,
    /// What a run takes at worst.
    bounds: WorstCase,
}

/// What a run of a workflow takes at worst.
#[derive(Debug, Serialize, JsonSchema)]
struct WorstCase {
    /// With retries.
    tool_calls: u64,
    model_calls: u64,
    /// Questions to people.
    questions: u64,
    /// Along the longest path, without the time that people take.
    seconds: u64,
}

/// A workflow as a graph.
#[derive(Debug, Serialize, JsonSchema)]
struct Graph {
    name: String,
    /// The node where a task starts.
    entry_point: String,
    nodes: Vec<GraphNode>,
    edges: Vec<GraphEdge>,
    /// Nodes before which a person may intervene.
    checkpoints: Vec<String>,
    /// What a run takes at worst.
    bounds: WorstCase,
}

/// A node.
#[derive(Debug, Serialize, JsonSchema)]
struct GraphNode {
    name: String,
    /// What happens at it, such as `tool`, `agent`, `human` or `condition`.
    #[serde(rename = "type")]
    kind: Value,
    agent: Option<String>,
    tool: Option<String>,
    workflow: Option<String>,
}

/// An edge.
#[derive(Debug, Serialize, JsonSchema)]
struct GraphEdge {
    from: String,
    to: String,
    /// The value of the node by which it is taken.
    key: Option<String>,
    /// The expression by which it is taken.
    condition: Option<String>,
}

impl WorstCase {
    fn of(app: &App, workflow: &WorkflowFields) -> Self {
        let bounds = app.bounds(workflow);
        Self {
            tool_calls: bounds.tool_calls,
            model_calls: bounds.model_calls,
            questions: bounds.questions,
            seconds: bounds.seconds,
        }
    }
}

fn graph(call: &Call) -> Result<Reply, Problem> {
    let app = call.runtime()?.app();
    let name = call.parameters.get("workflow").unwrap_or_default();
    let mut workflows = app.workflows.iter();
    let workflow = workflows.find(|workflow| workflow.name.as_str() == name);
    let workflow = workflow
        .ok_or_else(|| Problem::not_found("workflow.not_found", "the app has no such workflow"))?;
    let nodes = workflow.nodes.iter().map(|(name, node)| GraphNode {
        name: name.to_string(),
        kind: json!(node.kind),
        agent: node.agent.as_ref().map(ToString::to_string),
        tool: node.tool.clone(),
        workflow: node.workflow.as_ref().map(ToString::to_string),
    });
    Ok(Reply::json(&Graph {
        name: workflow.name.to_string(),
        entry_point: workflow.entry_point.to_string(),
        nodes: nodes.collect(),
        edges: workflow.edges.iter().flat_map(edges).collect(),
        checkpoints: workflow
            .checkpoints
            .iter()
            .map(ToString::to_string)
            .collect(),
        bounds: WorstCase::of(&app, workflow),
    }))
}

/// An edge to several nodes is one to each.
fn edges(edge: &Edge) -> Vec<GraphEdge> {
    let to = |key: Option<&String>, node: &convoke_model::Name| GraphEdge {
        from: edge.from.to_string(),
        to: node.to_string(),
        key: key.cloned(),
        condition: edge.condition.clone(),
    };
    match &edge.to {
        Destination::Node(node) => vec![to(None, node)],
        Destination::ByKey(nodes) => {
            let nodes = nodes.iter();
            nodes.map(|(key, node)| to(Some(key), node)).collect()
        }
    }
}
