//! The state of a running workflow: visited nodes, taken edges and shared values. Bookkeeping only; what happens at a node
//! is in `at_node`.

use std::collections::{BTreeMap, BTreeSet};

use convoke_model::{Join, Name, Reducer, WorkflowFields};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::arrivals::{Arrivals, KnownArrivals};
use super::definition::WorkflowGraph;
use crate::calls::is_default;
use crate::effort;
use crate::nodes::agent::BudgetUse;
use crate::nodes::route::RouterContext;

/// A running workflow. It is written with every entry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Walk {
    pub(crate) workflow: Name,
    /// Values that the nodes share.
    #[serde(default)]
    pub(crate) state: Map<String, Value>,
    /// The nodes that were started or skipped.
    #[serde(default)]
    pub(crate) visits: BTreeMap<Name, Visit>,
    /// The targets of edges that were evaluated, by the index of the edge. `None` if it was not taken.
    #[serde(default)]
    ways: BTreeMap<usize, Option<Name>>,
    /// Failed nodes and the targets of their `on_error`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    detours: BTreeMap<Name, Name>,
    /// Budget used by agents of the workflow.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) spent: BudgetUse,
    /// The tools that succeeded, as `server.tool`, each once. Without built-in tools, which have no effect.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) done: Vec<String>,
    /// Number of calls made.
    #[serde(default)]
    pub(crate) steps: u32,
    /// Why the walk failed. It ends once no call is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) failed: Option<String>,
    /// The last deliver node that was reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) delivered: Option<Name>,
    /// The node that finished last; an end node takes precedence over others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) last: Option<Name>,
    #[serde(skip)]
    arrivals: KnownArrivals,
}

/// The state of a visited node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Visit {
    /// It has open calls.
    Running(RunningNode),
    /// It has a result.
    Done,
    /// It cannot be reached any more.
    Skipped,
}

/// The state of a running node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct RunningNode {
    /// Number of failed attempts, by item.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) failures: BTreeMap<usize, u32>,
    /// The items of a `map`, and the result of each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) items: Vec<Value>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) results: BTreeMap<usize, Value>,
    /// Number of items that were started.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) begun: usize,
    /// Context of a route node while a model decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) unsure: Option<RouterContext>,
    /// Number of open calls.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) open: usize,
}

/// How a node is left.
pub(crate) enum NodeExit {
    /// By its edges: the target of each, or `None` if it is not taken.
    ByEdges(Vec<Option<Name>>),
    /// By its `on_error`.
    To(Name),
}

impl Walk {
    pub(crate) fn new(workflow: &WorkflowFields, state: Map<String, Value>) -> Self {
        Self {
            workflow: workflow.name.clone(),
            state,
            visits: BTreeMap::new(),
            ways: BTreeMap::new(),
            detours: BTreeMap::new(),
            spent: BudgetUse::default(),
            done: Vec::new(),
            steps: 0,
            failed: None,
            delivered: None,
            last: None,
            arrivals: KnownArrivals::default(),
        }
    }

    /// Whether any node is running.
    pub(crate) fn is_busy(&self) -> bool {
        let running = |visit: &Visit| matches!(visit, Visit::Running(_));
        match &self.arrivals.0 {
            Some(arrivals) => arrivals.running > 0,
            None => self.visits.values().any(running),
        }
    }

    /// Starts a node.
    pub(crate) fn enter(&mut self, node: &Name) {
        let visit = Visit::Running(RunningNode::default());
        let before = self.visits.insert(node.clone(), visit);
        if let Some(arrivals) = &mut self.arrivals.0
            && !matches!(before, Some(Visit::Running(_)))
        {
            arrivals.running += 1;
        }
    }

    /// A running node.
    pub(crate) fn running(&mut self, node: &Name) -> Option<&mut RunningNode> {
        match self.visits.get_mut(node) {
            Some(Visit::Running(running)) => Some(running),
            _ => None,
        }
    }

    /// Marks a node as done and records where its edges lead.
    pub(crate) fn leave(&mut self, workflow: &WorkflowGraph, node: &Name, left: NodeExit) {
        if workflow.is_end(node) || !self.last.as_ref().is_some_and(|last| workflow.is_end(last)) {
            self.last = Some(node.clone());
        }
        match left {
            NodeExit::ByEdges(chosen) => self.settle(workflow, node, Visit::Done, chosen),
            NodeExit::To(target) => {
                self.detours.insert(node.clone(), target);
                self.settle(workflow, node, Visit::Done, std::iter::repeat(None));
            }
        }
    }

    /// Records the end of a node and where its edges lead.
    fn settle(
        &mut self,
        workflow: &WorkflowGraph,
        node: &Name,
        visit: Visit,
        chosen: impl IntoIterator<Item = Option<Name>>,
    ) {
        let before = self.visits.insert(node.clone(), visit);
        let mut arrivals = self.arrivals.0.take();
        match before {
            // A node that is left twice has its edges recorded again, so the counts are rebuilt.
            Some(Visit::Done | Visit::Skipped) => arrivals = None,
            Some(Visit::Running(_)) => {
                if let Some(arrivals) = &mut arrivals {
                    arrivals.running = arrivals.running.saturating_sub(1);
                }
            }
            None => {}
        }
        if let Some(arrivals) = &mut arrivals {
            arrivals.decide_detour(workflow, node, self.detours.get(node));
        }
        for ((edge, _), to) in workflow.leaving(node).zip(chosen) {
            if let Some(arrivals) = &mut arrivals {
                arrivals.decide(workflow, edge, to.as_ref());
            }
            self.ways.insert(edge, to);
        }
        self.arrivals.0 = arrivals;
    }

    /// Fails the walk. It ends once no call is open.
    pub(crate) fn fail(&mut self, workflow: &WorkflowGraph, node: &Name, cause: &str) {
        self.failed
            .get_or_insert_with(|| format!("{cause} (at node {node})"));
        self.leave_if_idle(workflow, node);
    }

    /// Leaves a node of a failed walk once it has no open calls.
    pub(crate) fn leave_if_idle(&mut self, workflow: &WorkflowGraph, node: &Name) {
        if self.running(node).is_none_or(|running| running.open == 0) {
            self.leave(workflow, node, NodeExit::ByEdges(Vec::new()));
        }
    }

    /// The nodes that can start now. Marks nodes that cannot be reached any more as skipped.
    pub(crate) fn ready(&mut self, workflow: &WorkflowGraph) -> Vec<Name> {
        if self.visits.is_empty() {
            return vec![workflow.entry_point.clone()];
        }
        let mut ready = Vec::new();
        let mut found = BTreeSet::new();
        loop {
            let mut skipped = Vec::new();
            for name in self.arrivals(workflow).changed() {
                effort::count(1);
                let Some(node) = workflow.nodes.get(&name) else {
                    continue;
                };
                if self.visits.contains_key(&name) || found.contains(&name) {
                    continue;
                }
                let ways = self.arrivals(workflow).to(&name);
                let settled = ways.open == 0 && ways.taken > 0;
                let enough = match node.join {
                    Join::All => settled,
                    Join::Any => ways.taken > 0,
                    Join::First(number) => settled || ways.taken >= number as usize,
                };
                if enough {
                    found.insert(name.clone());
                    ready.push(name);
                } else if ways.open == 0 {
                    skipped.push(name);
                }
            }
            if skipped.is_empty() {
                return ready;
            }
            for name in skipped {
                self.settle(workflow, &name, Visit::Skipped, std::iter::repeat(None));
            }
        }
    }

    fn arrivals(&mut self, workflow: &WorkflowGraph) -> &mut Arrivals {
        let (visits, ways, detours) = (&self.visits, &self.ways, &self.detours);
        let known = &mut self.arrivals.0;
        known.get_or_insert_with(|| Box::new(Arrivals::of(workflow, visits, ways, detours)))
    }

    /// Stores a value in the state with the field's reducer.
    pub(crate) fn keep(&mut self, workflow: &WorkflowFields, field: &str, value: Value) {
        let reducer = workflow.state.get(field).copied().unwrap_or_default();
        let known = self.state.get_mut(field).map(Value::take);
        let kept = reduce(reducer, known, value);
        self.state.insert(field.to_owned(), kept);
    }
}

/// Combines a field's value with a new one.
pub(crate) fn reduce(reducer: Reducer, known: Option<Value>, new: Value) -> Value {
    let number = |value: &Value| value.as_f64().unwrap_or(0.0);
    match (reducer, known) {
        (Reducer::Append, Some(Value::Array(mut list))) => {
            match new {
                Value::Array(more) => list.extend(more),
                one => list.push(one),
            }
            Value::Array(list)
        }
        (Reducer::Append, _) => match new {
            Value::Array(list) => Value::Array(list),
            one => Value::Array(vec![one]),
        },
        (Reducer::Merge, Some(Value::Object(mut fields))) => match new {
            Value::Object(more) => {
                fields.extend(more);
                Value::Object(fields)
            }
            other => other,
        },
        (Reducer::Sum, Some(known)) => match (known.as_i64(), new.as_i64()) {
            (Some(known), Some(new)) => known.saturating_add(new).into(),
            _ => (number(&known) + number(&new)).into(),
        },
        (Reducer::Max, Some(known)) if number(&known) >= number(&new) => known,
        (Reducer::Set | Reducer::Merge | Reducer::Sum | Reducer::Max, _) => new,
    }
}
