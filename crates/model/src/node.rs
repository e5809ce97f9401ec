//! One place of a workflow, and what happens there.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::decision::TargetKind;
use crate::name::Name;
use crate::options::Order;
use crate::reasoning::Pattern;
use crate::scorecard::MIN_CRITERION_DESCRIPTION;
use crate::valid::{Report, Rules};

/// One node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// What happens at it.
    #[serde(rename = "type")]
    pub kind: NodeKind,
    /// The agent that acts, at an agent node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<Name>,
    /// The tool that is called, at a tool node, as `tool` or `server.tool`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The workflow that is walked, at a workflow node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow: Option<Name>,
    /// What the tool is given, or what the workflow begins with; texts are templates over the state.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub arguments: Map<String, Value>,
    /// What a person is asked at a human node, an agent is told at an agent node, or is said at a compose
    /// node: a template over the state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// At a condition node: the expression over the state whose value chooses among the edges.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expression: Option<String>,
    /// At a check node: what must hold, all of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub criteria: Vec<NodeCriterion>,
    /// At a route node: what is chosen from; everything that the app has otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over: Option<TargetKind>,
    /// The route node whose choice a dispatch node carries out, or the dispatch node whose results an aggregate node puts
    /// together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<Name>,
    /// At a dispatch node: in which order; as the app says otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<Order>,
    /// The way of thinking of an agent node's agent, in the place of the workflow's and the agent's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pattern: Option<Pattern>,
    /// How many of an agent node's thoughts may call tools, in the place of the agent's own number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_iterations: Option<u32>,
    /// The field of the state that takes what comes of it; the node's own name otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Name>,
    /// How many of the ways that lead here it waits for.
    #[serde(default)]
    pub join: Join,
    /// The list that the node is gone through for, once for each of its items.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub map: Option<MapOver>,
    /// Seconds for one attempt; the tool's or the agent's own limit otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub timeout_seconds: Option<u32>,
    /// Further attempts after one that failed.
    #[serde(default)]
    pub retries: u32,
    /// Milliseconds between attempts.
    #[serde(default = "default_retry_delay")]
    pub retry_delay_ms: u64,
    /// What happens once all attempts failed.
    #[serde(default)]
    pub on_error: OnError,
}

fn default_retry_delay() -> u64 {
    1_000
}

/// Something that must hold at a check node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NodeCriterion {
    /// Unique within the node.
    pub id: Name,
    /// What is looked at, specific enough to be measured.
    #[schemars(length(min = 10))]
    pub description: String,
    /// The expression over the state that is true if it holds.
    pub expression: String,
}

/// How many of the ways that lead to a node it waits for. However many come later, it is gone through once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Join {
    /// All that are still open.
    #[default]
    All,
    /// The first.
    Any,
    /// So many, or all that come.
    First(u32),
}

/// What happens once all attempts of a node failed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnError {
    /// The task fails, once what is under way has come to an end.
    #[default]
    Fail,
    /// It goes on with the error in the state.
    Continue,
    /// It goes on at another node, with the error in the state.
    Goto(Name),
}

/// A list that a node is gone through for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MapOver {
    /// The expression over the state that gives the list.
    pub over: String,
    /// What the item is called in templates.
    #[serde(default = "default_item")]
    pub r#as: Name,
    /// Items under way at once.
    #[serde(default = "default_parallel")]
    #[schemars(range(min = 1))]
    pub parallel: u32,
    /// Items at most; a longer list is an error.
    #[serde(default = "default_max_items")]
    #[schemars(range(min = 1))]
    pub max_items: u32,
}

fn default_item() -> Name {
    Name::known("item")
}

fn default_parallel() -> u32 {
    4
}

fn default_max_items() -> u32 {
    20
}

impl Node {
    /// A node of a kind that needs nothing more.
    pub fn of(kind: NodeKind) -> Self {
        Self {
            kind,
            agent: None,
            tool: None,
            workflow: None,
            arguments: Map::new(),
            prompt: None,
            expression: None,
            criteria: Vec::new(),
            over: None,
            of: None,
            order: None,
            pattern: None,
            max_iterations: None,
            output: None,
            join: Join::default(),
            map: None,
            timeout_seconds: None,
            retries: 0,
            retry_delay_ms: default_retry_delay(),
            on_error: OnError::default(),
        }
    }
}

/// What happens at a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NodeKind {
    /// An agent acts.
    Agent,
    /// A tool is called.
    Tool,
    /// The way parts.
    Condition,
    /// A person is asked.
    Human,
    /// Another workflow is walked.
    Workflow,
    /// It is decided who answers.
    Route,
    /// Whoever was chosen answers.
    Dispatch,
    /// Several answers become one.
    Aggregate,
    /// The answer is written.
    Compose,
    /// The answer is checked against the scorecard.
    Check,
    /// The answer gets its channel's form.
    Format,
    /// The answer is handed over.
    Deliver,
}

impl NodeKind {
    /// Whether what comes of such a node is known at once, without anybody being called.
    pub fn gives_at_once(self) -> bool {
        matches!(
            self,
            Self::Condition | Self::Compose | Self::Check | Self::Deliver | Self::Aggregate
        )
    }
}

impl Node {
    fn criteria_rules(&self, report: &mut Report) {
        report.require(
            self.criteria.is_empty() != (self.kind == NodeKind::Check),
            "criteria",
            "node.criteria",
            "a node has criteria exactly when its type is check",
        );
        let mut known = BTreeSet::new();
        report.within("criteria", |report| {
            for (index, criterion) in self.criteria.iter().enumerate() {
                report.require(
                    known.insert(&criterion.id),
                    index,
                    "node.criterion_twice",
                    format_args!(
                        "`{}` is there twice; give each an id of its own",
                        criterion.id
                    ),
                );
                report.require(
                    criterion.description.trim().chars().count() >= MIN_CRITERION_DESCRIPTION,
                    index,
                    "node.criterion_vague",
                    format_args!(
                        "say in {MIN_CRITERION_DESCRIPTION} characters or more what is looked at"
                    ),
                );
            }
        });
        report.require(
            self.kind != NodeKind::Check || self.on_error != OnError::Continue,
            "on_error",
            "node.check_continues",
            "a check that could not be made has not passed; fail, or go to another node",
        );
    }
}

impl Node {
    fn routing_rules(&self, report: &mut Report) {
        report.require(
            self.over.is_none() || self.kind == NodeKind::Route,
            "over",
            "node.over",
            "only a route node says what is chosen from",
        );
        report.require(
            self.of.is_some() == matches!(self.kind, NodeKind::Dispatch | NodeKind::Aggregate),
            "of",
            "node.of",
            "a dispatch node names a route node, an aggregate node a dispatch node, and no other names one",
        );
        report.require(
            self.order.is_none() || self.kind == NodeKind::Dispatch,
            "order",
            "node.order",
            "only a dispatch node has an order",
        );
    }
}

impl Rules for Node {
    fn rules(&self, report: &mut Report) {
        self.routing_rules(report);
        report.require(
            self.agent.is_some() == (self.kind == NodeKind::Agent),
            "agent",
            "node.agent",
            "a node names an agent exactly when its type is agent",
        );
        report.require(
            self.tool
                .as_ref()
                .is_some_and(|tool| !tool.trim().is_empty())
                == (self.kind == NodeKind::Tool),
            "tool",
            "node.tool",
            "a node names a tool exactly when its type is tool",
        );
        report.require(
            self.workflow.is_some() == (self.kind == NodeKind::Workflow),
            "workflow",
            "node.workflow",
            "a node names a workflow exactly when its type is workflow",
        );
        report.require(
            self.arguments.is_empty() || matches!(self.kind, NodeKind::Tool | NodeKind::Workflow),
            "arguments",
            "node.arguments",
            "only a tool or a workflow node has arguments",
        );
        report.require(
            self.prompt.is_none()
                || matches!(
                    self.kind,
                    NodeKind::Human | NodeKind::Agent | NodeKind::Compose | NodeKind::Deliver
                ),
            "prompt",
            "node.prompt",
            "only a human, an agent, a compose or a deliver node has a prompt",
        );
        self.criteria_rules(report);
        report.require(
            self.expression.is_none() || self.kind == NodeKind::Condition,
            "expression",
            "node.expression",
            "only a condition node has an expression",
        );
        report.require(
            self.map.is_none()
                || matches!(
                    self.kind,
                    NodeKind::Tool | NodeKind::Agent | NodeKind::Workflow
                ),
            "map",
            "node.map",
            "only a tool, an agent or a workflow node goes over a list",
        );
        if let Some(map) = &self.map {
            report.require(
                map.parallel > 0 && map.max_items > 0,
                "map",
                "node.map_zero",
                "parallel and max_items must be at least 1",
            );
        }
        report.require(
            self.join != Join::First(0),
            "join",
            "node.join_zero",
            "a node waits for at least one way; write first: 1",
        );
        report.require(
            self.timeout_seconds != Some(0),
            "timeout_seconds",
            "node.timeout_zero",
            "timeout_seconds must be at least 1",
        );
        report.require(
            self.kind == NodeKind::Agent
                || (self.pattern.is_none() && self.max_iterations.is_none()),
            "pattern",
            "node.pattern",
            "only an agent node has a pattern or max_iterations of its own",
        );
        report.require(
            self.max_iterations != Some(0),
            "max_iterations",
            "node.max_iterations_zero",
            "max_iterations must be at least 1",
        );
    }
}
