//! A workflow: nodes, edges and an entry point. Edges form no cycle; loops run inside a node, bounded by
//! its pattern, so a workflow's cost is bounded.

use std::collections::{BTreeMap, BTreeSet};

use convoke_schema::{Schema, SchemaError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::name::Name;
use crate::node::{Node, NodeKind, OnError};
use crate::reasoning::Pattern;
use crate::valid::{Report, Rules, Valid};

/// A validated workflow.
pub type Workflow = Valid<WorkflowFields>;

/// One workflow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Workflow")]
pub struct WorkflowFields {
    /// The workflow's name.
    pub name: Name,
    /// Reasoning patterns of its agent nodes, such as `react` and `reflection`; each agent's own if left
    /// out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub patterns: Vec<Pattern>,
    /// The nodes, by name.
    pub nodes: BTreeMap<Name, Node>,
    /// The edges.
    #[serde(default)]
    pub edges: Vec<Edge>,
    /// The node where a task starts.
    pub entry_point: Name,
    /// Nodes before which a person may intervene.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checkpoints: Vec<Name>,
    /// Fields of the state that whoever starts the workflow must give: a skill, or another workflow.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<Name>,
    /// How fields of the state take in new values, and what a person may set them to; other fields are replaced.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub state: BTreeMap<String, StateField>,
    /// Template of the answer, over the state; the last node's result if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// Limit of calls per task, including retries and list items.
    #[serde(default = "default_max_iterations")]
    #[schemars(range(min = 1))]
    pub max_iterations: u32,
}

fn default_max_iterations() -> u32 {
    50
}

/// A field of the state: how it takes in a new value, alone or with the type of the values that people give.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum StateField {
    /// How it takes in a new value.
    Reducer(Reducer),
    /// The same, with a type.
    Typed(TypedField),
}

/// A field of the state with a type.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TypedField {
    /// How it takes in a new value.
    #[serde(default)]
    pub reducer: Reducer,
    /// The JSON Schema that a person's value must fit.
    pub schema: Value,
}

impl StateField {
    /// How the field takes in a new value.
    pub fn reducer(&self) -> Reducer {
        match self {
            Self::Reducer(reducer) => *reducer,
            Self::Typed(typed) => typed.reducer,
        }
    }

    /// The JSON Schema that a person's value must fit.
    pub fn schema(&self) -> Option<&Value> {
        match self {
            Self::Reducer(_) => None,
            Self::Typed(typed) => Some(&typed.schema),
        }
    }
}

/// How a state field takes in a new value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Reducer {
    /// The new value replaces the old one.
    #[default]
    Set,
    /// Values are collected in a list, in order of arrival.
    Append,
    /// Objects are merged; new fields win.
    Merge,
    /// Numbers are added.
    Sum,
    /// The largest number is kept.
    Max,
}

/// An edge from one node to others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Edge {
    /// The node it leaves.
    pub from: Name,
    /// The node or nodes it leads to.
    pub to: Destination,
    /// Expression over the state that must be true; always taken if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub condition: Option<String>,
}

/// The destination of an edge: one node, or the one that the routing key selects.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Destination {
    /// Always this node.
    Node(Name),
    /// A node by routing key.
    ByKey(BTreeMap<String, Name>),
}

/// Routing key of a check that passed.
pub const PASSED: &str = "passed";

/// Routing key of a check that failed.
pub const FAILED: &str = "failed";

/// Whether exactly one key leads to a node.
fn leads_once(to: &Destination, node: &Name) -> bool {
    to.nodes().filter(|other| *other == node).count() == 1
}

impl Destination {
    /// Every node that it can lead to.
    pub fn nodes(&self) -> impl Iterator<Item = &Name> {
        match self {
            Self::Node(node) => vec![node].into_iter(),
            Self::ByKey(nodes) => nodes.values().collect::<Vec<_>>().into_iter(),
        }
    }
}

impl WorkflowFields {
    /// The edges that leave a node, in the order they are tried.
    pub fn edges_from<'a>(&'a self, node: &'a Name) -> impl Iterator<Item = &'a Edge> {
        self.edges.iter().filter(move |edge| edge.from == *node)
    }

    /// The direct successors of a node.
    pub fn successors(&self, node: &Name) -> BTreeSet<&Name> {
        self.edges
            .iter()
            .filter(|edge| edge.from == *node)
            .flat_map(|edge| edge.to.nodes())
            .collect()
    }

    /// Every node reachable from a node, including itself.
    pub fn reachable_from<'a>(&'a self, start: &'a Name) -> BTreeSet<&'a Name> {
        let adjacency = self.adjacency();
        let mut reached = BTreeSet::new();
        let mut open = vec![start];
        while let Some(node) = open.pop() {
            if reached.insert(node) {
                open.extend(adjacency.get(node).into_iter().flatten());
            }
        }
        reached
    }

    /// A path to a deliver node on which no check node has passed, if the workflow has check nodes and
    /// such a path.
    pub fn unchecked(&self) -> Option<Vec<&Name>> {
        let is = |node: &Name, kind| self.nodes.get(node).is_some_and(|node| node.kind == kind);
        if !self.nodes.keys().any(|node| is(node, NodeKind::Check)) {
            return None;
        }
        let mut came_from: BTreeMap<&Name, &Name> = BTreeMap::new();
        let mut open = vec![&self.entry_point];
        while let Some(node) = open.pop() {
            if is(node, NodeKind::Deliver) {
                let mut path = vec![node];
                while let Some(before) = path.last().and_then(|node| came_from.get(node)) {
                    path.push(before);
                }
                path.reverse();
                return Some(path);
            }
            for next in self.successors_without_pass(node) {
                if *next != self.entry_point && !came_from.contains_key(next) {
                    came_from.insert(next, node);
                    open.push(next);
                }
            }
        }
        None
    }

    /// The successors of a node, without the edge that a check node takes when it passes.
    fn successors_without_pass<'a>(&'a self, node: &'a Name) -> Vec<&'a Name> {
        let place = self.nodes.get(node);
        let is_check = place.is_some_and(|node| node.kind == NodeKind::Check);
        let detour = match place.map(|node| &node.on_error) {
            Some(OnError::Goto(target)) => Some(target),
            _ => None,
        };
        let by_edges = self.edges_from(node).flat_map(|edge| {
            let passed = match (&edge.to, &edge.condition) {
                (Destination::ByKey(nodes), None) if is_check => nodes.get(PASSED),
                _ => None,
            };
            let only_passed =
                move |next: &&Name| passed == Some(*next) && leads_once(&edge.to, next);
            edge.to.nodes().filter(move |next| !only_passed(next))
        });
        by_edges.chain(detour).collect()
    }

    /// A path from some node back to itself, if there is one.
    pub fn cycle(&self) -> Option<Vec<&Name>> {
        // A node is finished once all nodes reachable from it are known to have no cycle. The search keeps
        // its own stack, because a graph from a file may be arbitrarily deep.
        let adjacency = self.adjacency();
        let open_successors = |node: &Name| adjacency.get(node).cloned().unwrap_or_default();
        let mut finished = BTreeSet::new();
        for start in self
            .nodes
            .keys()
            .filter(|start| adjacency.contains_key(*start))
        {
            if finished.contains(start) {
                continue;
            }
            let mut path = vec![(start, open_successors(start))];
            let mut on_path = BTreeSet::from([start]);
            while let Some((node, open)) = path.last_mut() {
                let node = *node;
                let Some(next) = open.pop() else {
                    finished.insert(node);
                    on_path.remove(node);
                    path.pop();
                    continue;
                };
                if on_path.contains(next) {
                    let cycle = path
                        .iter()
                        .map(|(node, _)| *node)
                        .skip_while(|node| *node != next);
                    return Some(cycle.chain([next]).collect());
                }
                if !finished.contains(next) {
                    on_path.insert(next);
                    path.push((next, open_successors(next)));
                }
            }
        }
        None
    }

    /// The successors of each node.
    fn adjacency(&self) -> BTreeMap<&Name, Vec<&Name>> {
        let mut adjacency: BTreeMap<&Name, Vec<&Name>> = BTreeMap::new();
        for edge in &self.edges {
            adjacency
                .entry(&edge.from)
                .or_default()
                .extend(edge.to.nodes());
        }
        for (name, node) in &self.nodes {
            if let OnError::Goto(target) = &node.on_error {
                adjacency.entry(name).or_default().push(target);
            }
        }
        adjacency
    }
}

impl WorkflowFields {
    fn state_rules(&self, report: &mut Report) {
        report.within("state", |report| {
            for (name, field) in &self.state {
                let compiled = field.schema().map(Schema::compile);
                let Some(Err(error)) = compiled else {
                    continue;
                };
                let message = match &error {
                    SchemaError::Invalid(reason) => format!("this is not a JSON Schema: {reason}"),
                    SchemaError::Unsupported(_) | SchemaError::TooComplex(_) => error.to_string(),
                };
                report.within(name, |report| {
                    report.field("schema", "workflow.state_schema", message);
                });
            }
        });
    }
}

impl Rules for WorkflowFields {
    fn rules(&self, report: &mut Report) {
        report.require(
            self.max_iterations > 0,
            "max_iterations",
            "workflow.max_iterations_zero",
            "max_iterations must be at least 1",
        );
        report.within("nodes", |report| {
            for (name, node) in &self.nodes {
                report.within(name, |report| node.rules(report));
            }
        });
        let known = |name: &Name| self.nodes.contains_key(name);
        let unknown = |name: &Name| format!("there is no node `{name}`");
        report.require(
            known(&self.entry_point),
            "entry_point",
            "workflow.entry_point_unknown",
            unknown(&self.entry_point),
        );
        report.within("nodes", |report| {
            for (name, node) in &self.nodes {
                if let OnError::Goto(target) = &node.on_error {
                    report.within(name, |report| {
                        let code = "workflow.on_error_unknown";
                        report.require(known(target), "on_error", code, unknown(target));
                    });
                }
            }
        });
        self.edge_rules(report);
        self.state_rules(report);
        let mut checkpoints = BTreeSet::new();
        report.within("checkpoints", |report| {
            for (index, node) in self.checkpoints.iter().enumerate() {
                report.require(
                    known(node),
                    index,
                    "workflow.checkpoint_unknown",
                    unknown(node),
                );
                report.require(
                    checkpoints.insert(node),
                    index,
                    "workflow.checkpoint_twice",
                    format_args!("`{node}` is listed twice; list each checkpoint once"),
                );
            }
        });
        let reached = self.reachable_from(&self.entry_point);
        report.within("nodes", |report| {
            for name in self.nodes.keys().filter(|name| !reached.contains(name)) {
                report.field(
                    name,
                    "workflow.unreachable",
                    format!("`{name}` cannot be reached from `{}`", self.entry_point),
                );
            }
        });
        self.routing_rules(report);
        if let Some(path) = self.unchecked() {
            let path = format_path(&path);
            report.field(
                "edges",
                "workflow.unchecked",
                format!(
                    "a path delivers the answer without a passed check: {path}; lead it \
                     through the `{PASSED}` key of a check"
                ),
            );
        }
        let delivers = |node: &Node| node.kind == NodeKind::Deliver;
        report.require(
            self.answer.is_none() || !self.nodes.values().any(delivers),
            "answer",
            "workflow.answer_delivered",
            "a deliver node gives the answer; leave out `answer`",
        );
        if let Some(cycle) = self.cycle() {
            let path = format_path(&cycle);
            let message = format!("the edges form a cycle: {path}; loop inside a node instead");
            match self.closing_edge(&cycle) {
                Some(index) => report.within("edges", |report| {
                    report.within(index, |report| {
                        report.field("to", "workflow.cycle", message);
                    });
                }),
                None => report.field("edges", "workflow.cycle", message),
            }
        }
    }
}

impl WorkflowFields {
    /// The edge of a cycle that leads back furthest towards the entry point.
    fn closing_edge(&self, cycle: &[&Name]) -> Option<usize> {
        let mut distances = BTreeMap::from([(&self.entry_point, 0_i64)]);
        let mut reached = vec![&self.entry_point];
        while let Some(node) = reached.pop() {
            let next = distances.get(node).copied().unwrap_or_default() + 1;
            for edge in self.edges.iter().filter(|edge| edge.from == *node) {
                for target in edge.to.nodes() {
                    if !distances.contains_key(target) {
                        distances.insert(target, next);
                        reached.insert(0, target);
                    }
                }
            }
        }
        let distance = |node: &Name| distances.get(node).copied().unwrap_or_default();
        let steps = cycle.windows(2);
        let step = steps.max_by_key(|step| distance(step[0]) - distance(step[1]))?;
        let mut edges = self.edges.iter();
        edges.position(|edge| edge.from == *step[0] && edge.to.nodes().any(|node| node == step[1]))
    }
}

impl WorkflowFields {
    /// Whether the workflow chooses the request's target itself.
    pub fn routes(&self) -> bool {
        let mut nodes = self.nodes.values();
        nodes.any(|node| node.kind == NodeKind::Route)
    }

    fn routing_rules(&self, report: &mut Report) {
        report.within("nodes", |report| {
            for (name, node) in &self.nodes {
                let expected = match node.kind {
                    NodeKind::Dispatch => NodeKind::Route,
                    NodeKind::Aggregate => NodeKind::Dispatch,
                    _ => continue,
                };
                let of = node.of.as_ref().and_then(|of| self.nodes.get(of));
                report.within(name, |report| {
                    report.require(
                        of.is_some_and(|of| of.kind == expected),
                        "of",
                        "workflow.of_unknown",
                        "of must name a route node (at a dispatch node) or a dispatch node (at an aggregate node)",
                    );
                });
            }
        });
    }

    fn edge_rules(&self, report: &mut Report) {
        report.within("edges", |report| {
            for (index, edge) in self.edges.iter().enumerate() {
                report.within(index, |report| {
                    report.require(
                        self.nodes.contains_key(&edge.from),
                        "from",
                        "workflow.edge_unknown",
                        format_args!("there is no node `{}`", edge.from),
                    );
                    report.require(
                        edge.to.nodes().next().is_some(),
                        "to",
                        "workflow.edge_nowhere",
                        "the edge has no destination; name a node for at least one key",
                    );
                    for node in edge
                        .to
                        .nodes()
                        .filter(|node| !self.nodes.contains_key(*node))
                    {
                        report.field(
                            "to",
                            "workflow.edge_unknown",
                            format!("there is no node `{node}`"),
                        );
                    }
                });
            }
        });
    }
}

fn format_path(path: &[&Name]) -> String {
    let names: Vec<_> = path.iter().map(|node| node.as_str()).collect();
    names.join(" → ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::node::NodeKind;
    use crate::valid::Invalid;

    fn graph(edges: &[(&str, &str)]) -> Result<Workflow, Invalid> {
        let names: BTreeSet<_> = edges.iter().flat_map(|(from, to)| [*from, *to]).collect();
        let name = |text: &str| Name::new(text).unwrap();
        Workflow::new(WorkflowFields {
            name: name("graph"),
            patterns: Vec::new(),
            nodes: names
                .into_iter()
                .map(|node| (name(node), Node::of(NodeKind::Condition)))
                .collect(),
            edges: edges
                .iter()
                .map(|(from, to)| Edge {
                    from: name(from),
                    to: Destination::Node(name(to)),
                    condition: None,
                })
                .collect(),
            entry_point: name("a"),
            checkpoints: Vec::new(),
            inputs: Vec::new(),
            state: BTreeMap::new(),
            answer: None,
            max_iterations: 50,
        })
    }

    #[test]
    fn a_cycle_is_named() {
        let invalid = graph(&[("a", "b"), ("b", "c"), ("c", "d"), ("d", "b")]).unwrap_err();
        assert!(invalid.has("workflow.cycle"));
        assert!(invalid.to_string().contains("b → c → d → b"), "{invalid}");
        let own = graph(&[("a", "a")]).unwrap_err();
        assert!(own.to_string().contains("a → a"), "{own}");
    }

    fn checked(edges: &serde_json::Value) -> Result<Workflow, String> {
        let criteria = json!([{
            "id": "short", "description": "the text is short enough", "expression": "true",
        }]);
        serde_json::from_value(json!({
            "name": "w", "entry_point": "write",
            "nodes": {
                "write": { "type": "compose", "prompt": "hello" },
                "look": { "type": "check", "criteria": criteria },
                "mend": { "type": "compose", "prompt": "hi" },
                "again": { "type": "check", "criteria": criteria, "on_error": "fail" },
                "send": { "type": "deliver", "prompt": "{{ write }}" },
            },
            "edges": edges,
        }))
        .map_err(|error: serde_json::Error| error.to_string())
    }

    #[test]
    fn a_path_to_delivery_without_a_passed_check_is_rejected() {
        let sound = json!([
            { "from": "write", "to": "look" },
            { "from": "look", "to": { "passed": "send", "failed": "mend" } },
            { "from": "mend", "to": "again" },
            { "from": "again", "to": { "passed": "send" } },
        ]);
        checked(&sound).unwrap();
        for (edge, path) in [
            (json!({ "from": "write", "to": "send" }), "write → send"),
            (
                json!({ "from": "mend", "to": "send" }),
                "write → look → mend → send",
            ),
            (json!({ "from": "again", "to": "send" }), "again → send"),
            (
                json!({ "from": "again", "to": { "otherwise": "send" } }),
                "again → send",
            ),
            (
                json!({ "from": "look", "to": { "passed": "send" }, "condition": "x" }),
                "look → send",
            ),
        ] {
            let mut edges = sound.clone();
            edges.as_array_mut().unwrap().push(edge);
            let refused = checked(&edges).unwrap_err();
            assert!(
                refused.contains("without a passed check") && refused.contains(path),
                "{refused}"
            );
        }
    }

    #[test]
    fn paths_that_rejoin_are_not_a_cycle() {
        assert!(graph(&[("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")]).is_ok());
    }

    #[test]
    fn a_very_long_path_is_searched() {
        let names: Vec<_> = (0..3_000).map(|step| format!("n{step}")).collect();
        let mut edges: Vec<_> = names
            .windows(2)
            .map(|pair| (pair[0].as_str(), pair[1].as_str()))
            .collect();
        edges.push(("a", "n0"));
        assert!(graph(&edges).is_ok());
    }

    #[test]
    fn an_edge_may_choose_by_key_and_all_its_ways_count() {
        let workflow: Result<Workflow, _> = serde_json::from_value(json!({
            "name": "review",
            "nodes": {
                "ask": { "type": "human", "prompt": "Send it?" },
                "send": { "type": "tool", "tool": "mail.send" },
                "stop": { "type": "condition" },
            },
            "edges": [{ "from": "ask", "to": { "approve": "send", "reject": "stop" } }],
            "entry_point": "ask",
            "checkpoints": ["ask"],
        }));
        let workflow = workflow.unwrap();
        let ask = Name::new("ask").unwrap();
        assert_eq!(workflow.successors(&ask).len(), 2);
        assert_eq!(workflow.max_iterations, 50);
    }
}
