//! Where a walk through a workflow stands: which nodes were come to, which ways were taken, what is
//! known. Pure bookkeeping; what happens at a node is elsewhere.

use std::collections::{BTreeMap, BTreeSet};

use convoke_model::{Join, Name, OnError, Reducer, WorkflowFields};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::calls::is_default;
use crate::nodes::agent::BudgetUse;
use crate::nodes::route::RouterContext;

/// A walk under way. It is written with every entry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Walk {
    pub(crate) workflow: Name,
    /// What the nodes share, messages left out.
    #[serde(default)]
    pub(crate) state: Map<String, Value>,
    /// The nodes that were come to, or never will be.
    #[serde(default)]
    pub(crate) visits: BTreeMap<Name, Visit>,
    /// Where each edge led that was decided about, by its place in the workflow.
    #[serde(default)]
    ways: BTreeMap<usize, Option<Name>>,
    /// Nodes that failed and went where their `on_error` says.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    detours: BTreeMap<Name, Name>,
    /// What agents have spent on the way.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) spent: BudgetUse,
    /// The tools that did something on the way, as `server.tool`, each once. Built-in tools change nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) done: Vec<String>,
    /// Calls that were begun.
    #[serde(default)]
    pub(crate) steps: u32,
    /// Why it ends without an answer, once nothing is under way any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) failed: Option<String>,
    /// The deliver node that was come to last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) delivered: Option<Name>,
    /// The node that finished last, of those behind which there is none where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) last: Option<Name>,
}

/// How far a node has come.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Visit {
    /// Its calls are under way.
    Running(RunningNode),
    /// It has a result.
    Done,
    /// No way leads to it any more.
    Skipped,
}

/// What a node under way remembers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct RunningNode {
    /// Attempts that failed, by the item that they were for.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) failures: BTreeMap<usize, u32>,
    /// The items that a `map` goes over, and what came of each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) items: Vec<Value>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) results: BTreeMap<usize, Value>,
    /// How many items were begun.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) begun: usize,
    /// What is known at a route node while a model decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) unsure: Option<RouterContext>,
    /// Calls under way.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) open: usize,
}

/// How a node was left.
pub(crate) enum NodeExit {
    /// By its edges; each decides for itself where it leads, if anywhere.
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
        }
    }

    /// Whether anything is under way.
    pub(crate) fn is_busy(&self) -> bool {
        let running = |visit: &Visit| matches!(visit, Visit::Running(_));
        self.visits.values().any(running)
    }

    /// Begins a node.
    pub(crate) fn enter(&mut self, node: &Name) {
        let visit = Visit::Running(RunningNode::default());
        self.visits.insert(node.clone(), visit);
    }

    /// A node under way.
    pub(crate) fn running(&mut self, node: &Name) -> Option<&mut RunningNode> {
        match self.visits.get_mut(node) {
            Some(Visit::Running(running)) => Some(running),
            _ => None,
        }
    }

    /// Leaves a node: its ways are decided once and for all.
    pub(crate) fn leave(&mut self, workflow: &WorkflowFields, node: &Name, left: NodeExit) {
        self.visits.insert(node.clone(), Visit::Done);
        let is_end = |node: &Name| workflow.successors(node).is_empty();
        if is_end(node) || !self.last.as_ref().is_some_and(is_end) {
            self.last = Some(node.clone());
        }
        let own = edges_of(workflow, node);
        match left {
            NodeExit::ByEdges(chosen) => self.ways.extend(own.zip(chosen)),
            NodeExit::To(target) => {
                self.ways.extend(own.map(|edge| (edge, None)));
                self.detours.insert(node.clone(), target);
            }
        }
    }

    /// Ends the walk without an answer, once what is under way has come to an end.
    pub(crate) fn fail(&mut self, workflow: &WorkflowFields, node: &Name, cause: &str) {
        self.failed
            .get_or_insert_with(|| format!("{cause} (at node {node})"));
        self.leave_if_idle(workflow, node);
    }

    /// Leaves a node of a walk that has failed, once none of its calls is under way.
    pub(crate) fn leave_if_idle(&mut self, workflow: &WorkflowFields, node: &Name) {
        if self.running(node).is_none_or(|running| running.open == 0) {
            self.leave(workflow, node, NodeExit::ByEdges(Vec::new()));
        }
    }

    /// The nodes that can be begun now. Nodes that no way can lead to any more are skipped on the way.
    pub(crate) fn ready(&mut self, workflow: &WorkflowFields) -> Vec<Name> {
        let mut ready = Vec::new();
        if self.visits.is_empty() {
            return vec![workflow.entry_point.clone()];
        }
        loop {
            let mut skipped = false;
            let arrivals = self.arrivals(workflow);
            for (name, node) in &workflow.nodes {
                if self.visits.contains_key(name) || ready.contains(name) {
                    continue;
                }
                let (taken, open) = arrivals.get(name).copied().unwrap_or_default();
                let settled = open == 0 && taken > 0;
                let enough = match node.join {
                    Join::All => settled,
                    Join::Any => taken > 0,
                    Join::First(number) => settled || taken >= number as usize,
                };
                if enough {
                    ready.push(name.clone());
                } else if open == 0 {
                    self.visits.insert(name.clone(), Visit::Skipped);
                    let own = edges_of(workflow, name).map(|edge| (edge, None));
                    self.ways.extend(own);
                    skipped = true;
                }
            }
            if !skipped {
                return ready;
            }
        }
    }

    /// How many ways were taken to each node, and how many may still be.
    fn arrivals<'a>(&self, workflow: &'a WorkflowFields) -> BTreeMap<&'a Name, (usize, usize)> {
        let mut arrivals: BTreeMap<&Name, (usize, usize)> = BTreeMap::new();
        for (index, edge) in workflow.edges.iter().enumerate() {
            // Two keys of an edge may lead to the same node, which is one way to it.
            let leads_to: BTreeSet<&Name> = edge.to.nodes().collect();
            let way = self.ways.get(&index);
            for node in leads_to {
                let (taken, open) = arrivals.entry(node).or_default();
                match way {
                    Some(Some(to)) if to == node => *taken += 1,
                    Some(_) => {}
                    None => *open += 1,
                }
            }
        }
        for (from, other) in &workflow.nodes {
            let OnError::Goto(node) = &other.on_error else {
                continue;
            };
            let (taken, open) = arrivals.entry(node).or_default();
            if self.detours.get(from) == Some(node) {
                *taken += 1;
            } else if !matches!(self.visits.get(from), Some(Visit::Done | Visit::Skipped)) {
                *open += 1;
            }
        }
        arrivals
    }

    /// Puts what came of a node into the state, as the workflow says for the field.
    pub(crate) fn keep(&mut self, workflow: &WorkflowFields, field: &str, value: Value) {
        let reducer = workflow.state.get(field).copied().unwrap_or_default();
        let known = self.state.get_mut(field).map(Value::take);
        let kept = reduce(reducer, known, value);
        self.state.insert(field.to_owned(), kept);
    }
}

/// What a field holds after something was added to it.
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

/// The edges that leave a node, by their places.
fn edges_of<'a>(workflow: &'a WorkflowFields, node: &'a Name) -> impl Iterator<Item = usize> + 'a {
    let edges = workflow.edges.iter().enumerate();
    edges
        .filter(move |(_, edge)| edge.from == *node)
        .map(|(index, _)| index)
}
