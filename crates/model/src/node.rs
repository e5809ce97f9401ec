//! One place of a workflow, and what happens there.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::name::Name;
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
    /// What the tool is given; texts are templates over the state.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub arguments: Map<String, Value>,
    /// What a person is asked at a human node, or an agent is told at an agent node: a template
    /// over the state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// At a condition node: the expression over the state whose value chooses among the edges.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expression: Option<String>,
    /// The way of working inside the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pattern: Option<Name>,
    /// How often the node may loop within.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_iterations: Option<u32>,
}

impl Node {
    /// A node of a kind that needs nothing more.
    pub fn of(kind: NodeKind) -> Self {
        Self {
            kind,
            agent: None,
            tool: None,
            arguments: Map::new(),
            prompt: None,
            expression: None,
            pattern: None,
            max_iterations: None,
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
    /// It is decided who answers.
    Decide,
    /// The answer is written.
    Compose,
    /// The answer is checked against the scorecard.
    Check,
    /// The answer gets its channel's form.
    Format,
    /// The answer is handed over.
    Deliver,
}

impl Rules for Node {
    fn rules(&self, report: &mut Report) {
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
            self.arguments.is_empty() || self.kind == NodeKind::Tool,
            "arguments",
            "node.arguments",
            "only a tool node has arguments",
        );
        report.require(
            self.prompt.is_none() || matches!(self.kind, NodeKind::Human | NodeKind::Agent),
            "prompt",
            "node.prompt",
            "only a human or an agent node has a prompt",
        );
        report.require(
            self.expression.is_none() || self.kind == NodeKind::Condition,
            "expression",
            "node.expression",
            "only a condition node has an expression",
        );
        report.require(
            self.max_iterations != Some(0),
            "max_iterations",
            "node.max_iterations_zero",
            "max_iterations must be at least 1",
        );
    }
}
