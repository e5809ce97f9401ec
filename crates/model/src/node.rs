//! One node of a workflow and its settings.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::approvers::Approvers;
use crate::decision::TargetKind;
use crate::name::Name;
use crate::options::Order;
use crate::reasoning::Pattern;

use crate::valid::{Report, Rules};

/// Fewest characters in the description of a criterion, so that it says something specific.
const MIN_CRITERION_DESCRIPTION: usize = 10;

/// One node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// What happens at it.
    #[serde(rename = "type")]
    pub kind: NodeKind,
    /// The agent of an agent node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<Name>,
    /// The tool of a tool node, as `tool` or `server.tool`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The workflow of a workflow node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow: Option<Name>,
    /// Arguments of the tool, or the initial state of the workflow; texts are templates over the state.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub arguments: Map<String, Value>,
    /// The question of a human node, the instruction of an agent node, or the text of a compose node: a
    /// template over the state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// Who may answer the question of a human node, or the one before a node's call; those of the tool, else of the app, by
    /// default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approvers: Option<Approvers>,
    /// At a condition node: expression over the state whose value selects the edge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expression: Option<String>,
    /// At a check node: criteria that must all hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub criteria: Vec<NodeCriterion>,
    /// At a route node: the kind of targets to choose from; all kinds if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over: Option<TargetKind>,
    /// The route node whose choice a dispatch node executes, or the dispatch node whose results an
    /// aggregate node combines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<Name>,
    /// At a dispatch node: the order of execution; the app's setting if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<Order>,
    /// The reasoning pattern of an agent node, instead of the workflow's and the agent's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pattern: Option<Pattern>,
    /// Limit of model turns with tool calls at an agent node, instead of the agent's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_iterations: Option<u32>,
    /// The state field for its result; the node's name if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Name>,
    /// How many incoming edges it waits for.
    #[serde(default)]
    pub join: Join,
    /// The list to run the node over, once per item.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub map: Option<MapOver>,
    /// Time limit of one attempt, in seconds; the tool's or agent's own if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub timeout_seconds: Option<u32>,
    /// Retries after a failed attempt.
    #[serde(default)]
    pub retries: u32,
    /// Milliseconds between attempts.
    #[serde(default = "default_retry_delay")]
    pub retry_delay_ms: u64,
    /// What happens when all attempts failed.
    #[serde(default)]
    pub on_error: OnError,
}

fn default_retry_delay() -> u64 {
    1_000
}

/// A criterion of a check node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NodeCriterion {
    /// Unique within the node.
    pub id: Name,
    /// What is checked, specific enough to be measured.
    #[schemars(length(min = 10))]
    pub description: String,
    /// Expression over the state that is true if the criterion holds.
    pub expression: String,
}

/// How many incoming edges a node waits for. It runs once, however many arrive later.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Join {
    /// All that are still open.
    #[default]
    All,
    /// The first.
    Any,
    /// This many, or all if there are fewer.
    First(u32),
}

/// What happens when all attempts of a node failed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnError {
    /// The task fails after the running calls have ended.
    #[default]
    Fail,
    /// The task continues with the error in the state.
    Continue,
    /// The task continues at another node, with the error in the state.
    Goto(Name),
}

/// A list to run a node over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MapOver {
    /// Expression over the state that gives the list.
    pub over: String,
    /// The name of the item in templates.
    #[serde(default = "default_item")]
    pub r#as: Name,
    /// Limit of items processed at once.
    #[serde(default = "default_parallel")]
    #[schemars(range(min = 1))]
    pub parallel: u32,
    /// Limit of items; a longer list is an error.
    #[serde(default = "default_max_items")]
    #[schemars(range(min = 1))]
    pub max_items: u32,
}

fn default_item() -> Name {
    Name::from_static("item")
}

fn default_parallel() -> u32 {
    4
}

fn default_max_items() -> u32 {
    20
}

impl Node {
    /// A node without settings.
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
            approvers: None,
            timeout_seconds: None,
            retries: 0,
            retry_delay_ms: default_retry_delay(),
            on_error: OnError::default(),
        }
    }
}

/// The kinds of nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NodeKind {
    /// An agent acts.
    Agent,
    /// A tool is called.
    Tool,
    /// Edges are selected by an expression.
    Condition,
    /// A person is asked.
    Human,
    /// Another workflow runs.
    Workflow,
    /// Targets are chosen for the request.
    Route,
    /// The chosen targets run.
    Dispatch,
    /// Several answers are combined.
    Aggregate,
    /// The answer is written.
    Compose,
    /// The answer is checked against the scorecard.
    Check,
    /// The answer is formatted for its channel.
    Format,
    /// The answer is delivered.
    Deliver,
}

impl NodeKind {
    /// Whether the node's result is computed without a call.
    pub fn is_immediate(self) -> bool {
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
                        "there is already a criterion `{}`; ids are unique",
                        criterion.id
                    ),
                );
                report.require(
                    criterion.description.trim().chars().count() >= MIN_CRITERION_DESCRIPTION,
                    index,
                    "node.criterion_vague",
                    format_args!(
                        "describe what is checked in at least {MIN_CRITERION_DESCRIPTION} characters"
                    ),
                );
            }
        });
        report.require(
            self.kind != NodeKind::Check || self.on_error != OnError::Continue,
            "on_error",
            "node.check_continues",
            "a check node cannot continue after an error; use fail or goto",
        );
    }
}

impl Node {
    fn routing_rules(&self, report: &mut Report) {
        report.require(
            self.over.is_none() || self.kind == NodeKind::Route,
            "over",
            "node.over",
            "only a route node has over",
        );
        report.require(
            self.of.is_some() == matches!(self.kind, NodeKind::Dispatch | NodeKind::Aggregate),
            "of",
            "node.of",
            "only dispatch and aggregate nodes have of: the route node, or the dispatch node",
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
        if let Some(approvers) = &self.approvers {
            report.within("approvers", |report| approvers.rules(report));
            report.require(
                !self.kind.is_immediate() && self.kind != NodeKind::Route,
                "approvers",
                "node.approvers",
                "a node of this type asks no person; remove approvers",
            );
        }
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
            "only a tool, an agent or a workflow node has map",
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
            "a node waits for at least one edge; write first: 1",
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
