//! The graph that a task walks: nodes, the edges between them, and where it begins. It has no
//! cycles; loops live inside a node, bounded by its pattern, so a workflow's cost has a bound.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::catalogue::Catalogue;
use crate::name::Name;
use crate::node::{Node, NodeKind, OnError};
use crate::reasoning::Pattern;
use crate::valid::{Invalid, Report, Rules, Valid};

/// A workflow whose rules hold.
pub type Workflow = Valid<WorkflowFields>;

/// One workflow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Workflow")]
pub struct WorkflowFields {
    /// What it is called.
    pub name: Name,
    /// The ways of thinking of its agent nodes, such as `react` and `reflection`; each agent's own
    /// otherwise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub patterns: Vec<Pattern>,
    /// The nodes by name.
    pub nodes: BTreeMap<Name, Node>,
    /// The ways between them.
    #[serde(default)]
    pub edges: Vec<Edge>,
    /// Where a task begins.
    pub entry_point: Name,
    /// The nodes before which a person may look in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checkpoints: Vec<Name>,
    /// How a field of the state takes in what comes to it; it is replaced unless it stands here.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub state: BTreeMap<String, Reducer>,
    /// What the user reads at the end: a template over the state; what the last node gave otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// How many calls a task may make in all, repeated ones and the items of lists included.
    #[serde(default = "default_max_iterations")]
    #[schemars(range(min = 1))]
    pub max_iterations: u32,
}

fn default_max_iterations() -> u32 {
    50
}

/// How a field takes in what comes to it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Reducer {
    /// The new value stands in the place of the old.
    #[default]
    Set,
    /// Values become a list, in the order in which they come.
    Append,
    /// The fields of objects are put together; the new ones win.
    Merge,
    /// Numbers are added up.
    Sum,
    /// The greatest number stays.
    Max,
}

/// A way from one node to others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Edge {
    /// Where it leaves.
    pub from: Name,
    /// Where it leads.
    pub to: Destination,
    /// The expression over the state under which it is taken; always, if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub condition: Option<String>,
}

/// Where an edge leads: to one node, or to the node that the routing key names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Destination {
    /// Always the same node.
    Node(Name),
    /// By routing key.
    ByKey(BTreeMap<String, Name>),
}

/// The routing key of a check that holds.
pub const PASSED: &str = "passed";

/// The routing key of a check that does not.
pub const FAILED: &str = "failed";

/// Whether only one key of a mapping leads to a node.
fn leads_once(to: &Destination, node: &Name) -> bool {
    to.nodes().filter(|other| *other == node).count() == 1
}

impl Destination {
    /// Every node that it may lead to.
    pub fn nodes(&self) -> impl Iterator<Item = &Name> {
        match self {
            Self::Node(node) => vec![node].into_iter(),
            Self::ByKey(nodes) => nodes.values().collect::<Vec<_>>().into_iter(),
        }
    }
}

impl WorkflowFields {
    /// The edges that leave a node, in the order in which they are tried.
    pub fn edges_from<'a>(&'a self, node: &'a Name) -> impl Iterator<Item = &'a Edge> {
        self.edges.iter().filter(move |edge| edge.from == *node)
    }

    /// Every node that may directly follow a node.
    pub fn successors(&self, node: &Name) -> BTreeSet<&Name> {
        self.edges
            .iter()
            .filter(|edge| edge.from == *node)
            .flat_map(|edge| edge.to.nodes())
            .collect()
    }

    /// Every node that can be come to from a node, itself included.
    pub fn reachable_from<'a>(&'a self, start: &'a Name) -> BTreeSet<&'a Name> {
        let ways = self.ways();
        let mut reached = BTreeSet::new();
        let mut open = vec![start];
        while let Some(node) = open.pop() {
            if reached.insert(node) {
                open.extend(ways.get(node).into_iter().flatten());
            }
        }
        reached
    }

    /// A way to a deliver node that goes around what the workflow's check nodes say, if it has any: one on
    /// which none of them has passed.
    pub fn unchecked(&self) -> Option<Vec<&Name>> {
        let is = |node: &Name, kind| self.nodes.get(node).is_some_and(|node| node.kind == kind);
        if !self.nodes.keys().any(|node| is(node, NodeKind::Check)) {
            return None;
        }
        let mut came_from: BTreeMap<&Name, &Name> = BTreeMap::new();
        let mut open = vec![&self.entry_point];
        while let Some(node) = open.pop() {
            if is(node, NodeKind::Deliver) {
                let mut way = vec![node];
                while let Some(before) = way.last().and_then(|node| came_from.get(node)) {
                    way.push(before);
                }
                way.reverse();
                return Some(way);
            }
            for next in self.ways_without_passing(node) {
                if *next != self.entry_point && !came_from.contains_key(next) {
                    came_from.insert(next, node);
                    open.push(next);
                }
            }
        }
        None
    }

    /// Where a node may lead though, if it is a check, it has not passed.
    fn ways_without_passing<'a>(&'a self, node: &'a Name) -> Vec<&'a Name> {
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

    /// A way from some node back to itself, if there is one.
    pub fn cycle(&self) -> Option<Vec<&Name>> {
        // A node is finished once everything behind it has been seen without a way back. The walk
        // keeps its own stack, because a graph from a file may be as deep as it likes.
        let ways = self.ways();
        let ahead = |node: &Name| ways.get(node).cloned().unwrap_or_default();
        let mut finished = BTreeSet::new();
        for start in self.nodes.keys().filter(|start| ways.contains_key(*start)) {
            if finished.contains(start) {
                continue;
            }
            let mut way = vec![(start, ahead(start))];
            let mut on_way = BTreeSet::from([start]);
            while let Some((node, open)) = way.last_mut() {
                let node = *node;
                let Some(next) = open.pop() else {
                    finished.insert(node);
                    on_way.remove(node);
                    way.pop();
                    continue;
                };
                if on_way.contains(next) {
                    let around = way
                        .iter()
                        .map(|(node, _)| *node)
                        .skip_while(|node| *node != next);
                    return Some(around.chain([next]).collect());
                }
                if !finished.contains(next) {
                    on_way.insert(next);
                    way.push((next, ahead(next)));
                }
            }
        }
        None
    }

    /// Where the edges lead, by the node that they leave.
    fn ways(&self) -> BTreeMap<&Name, Vec<&Name>> {
        let mut ways: BTreeMap<&Name, Vec<&Name>> = BTreeMap::new();
        for edge in &self.edges {
            ways.entry(&edge.from).or_default().extend(edge.to.nodes());
        }
        for (name, node) in &self.nodes {
            if let OnError::Goto(target) = &node.on_error {
                ways.entry(name).or_default().push(target);
            }
        }
        ways
    }
}

impl Valid<WorkflowFields> {
    /// Whether every agent and tool that the nodes name exists.
    pub fn check_against(&self, catalogue: &Catalogue) -> Result<(), Invalid> {
        let mut report = Report::default();
        report.within("nodes", |report| {
            for (name, node) in &self.nodes {
                report.within(name, |report| {
                    if let Some(agent) = &node.agent {
                        report.require(
                            catalogue.agents.contains(agent),
                            "agent",
                            "workflow.agent_unknown",
                            format_args!("there is no agent `{agent}`"),
                        );
                    }
                    if let Some(tool) = &node.tool {
                        report.require(
                            catalogue.has_tool(tool),
                            "tool",
                            "workflow.tool_unknown",
                            format_args!("no server offers `{tool}`"),
                        );
                    }
                });
            }
        });
        report.finish()
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
                    format!("no way leads from `{}` to `{name}`", self.entry_point),
                );
            }
        });
        self.routing_rules(report);
        if let Some(way) = self.unchecked() {
            let way = in_words(&way);
            report.field(
                "edges",
                "workflow.unchecked",
                format!(
                    "a way leads to what is delivered though no check has passed: {way}; lead it \
                     through the `{PASSED}` key of a check"
                ),
            );
        }
        let delivers = |node: &Node| node.kind == NodeKind::Deliver;
        report.require(
            self.answer.is_none() || !self.nodes.values().any(delivers),
            "answer",
            "workflow.answer_delivered",
            "what a deliver node says is the answer; leave out `answer`",
        );
        if let Some(cycle) = self.cycle() {
            let way = in_words(&cycle);
            report.field(
                "edges",
                "workflow.cycle",
                format!("the edges lead in a circle: {way}; loop inside a node instead"),
            );
        }
    }
}

impl WorkflowFields {
    /// Whether it decides by itself who answers.
    pub fn routes(&self) -> bool {
        let mut nodes = self.nodes.values();
        nodes.any(|node| node.kind == NodeKind::Route)
    }

    fn routing_rules(&self, report: &mut Report) {
        report.within("nodes", |report| {
            for (name, node) in &self.nodes {
                let wanted = match node.kind {
                    NodeKind::Dispatch => NodeKind::Route,
                    NodeKind::Aggregate => NodeKind::Dispatch,
                    _ => continue,
                };
                let of = node.of.as_ref().and_then(|of| self.nodes.get(of));
                report.within(name, |report| {
                    report.require(
                        of.is_some_and(|of| of.kind == wanted),
                        "of",
                        "workflow.of_unknown",
                        "it names no node of the right type: dispatch is of a route, aggregate of a dispatch",
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
                        "the edge leads nowhere; name a node for at least one key",
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

/// A way, node by node.
fn in_words(way: &[&Name]) -> String {
    let names: Vec<_> = way.iter().map(|node| node.as_str()).collect();
    names.join(" → ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::node::NodeKind;

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
    fn nothing_is_delivered_on_a_way_on_which_no_check_has_passed() {
        let sound = json!([
            { "from": "write", "to": "look" },
            { "from": "look", "to": { "passed": "send", "failed": "mend" } },
            { "from": "mend", "to": "again" },
            { "from": "again", "to": { "passed": "send" } },
        ]);
        checked(&sound).unwrap();
        for (edge, way) in [
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
                refused.contains("no check has passed") && refused.contains(way),
                "{refused}"
            );
        }
    }

    #[test]
    fn ways_that_part_and_meet_again_are_no_cycle() {
        assert!(graph(&[("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")]).is_ok());
    }

    #[test]
    fn a_very_long_way_is_walked() {
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
        assert!(
            workflow
                .check_against(&Catalogue::default())
                .unwrap_err()
                .has("workflow.tool_unknown")
        );
    }
}
