//! Where a walk through a workflow stands: which nodes were come to, which ways were taken, what is
//! known. Pure bookkeeping; what happens at a node is elsewhere.

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
    #[serde(skip)]
    arrivals: KnownArrivals,
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
            arrivals: KnownArrivals::default(),
        }
    }

    /// Whether anything is under way.
    pub(crate) fn is_busy(&self) -> bool {
        let running = |visit: &Visit| matches!(visit, Visit::Running(_));
        match &self.arrivals.0 {
            Some(arrivals) => arrivals.running > 0,
            None => self.visits.values().any(running),
        }
    }

    /// Begins a node.
    pub(crate) fn enter(&mut self, node: &Name) {
        let visit = Visit::Running(RunningNode::default());
        let before = self.visits.insert(node.clone(), visit);
        if let Some(arrivals) = &mut self.arrivals.0
            && !matches!(before, Some(Visit::Running(_)))
        {
            arrivals.running += 1;
        }
    }

    /// A node under way.
    pub(crate) fn running(&mut self, node: &Name) -> Option<&mut RunningNode> {
        match self.visits.get_mut(node) {
            Some(Visit::Running(running)) => Some(running),
            _ => None,
        }
    }

    /// Leaves a node: its ways are decided once and for all.
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

    /// Decides about all ways of a node that is not under way any more.
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
            // What is left once more has its ways decided anew.
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

    /// Ends the walk without an answer, once what is under way has come to an end.
    pub(crate) fn fail(&mut self, workflow: &WorkflowGraph, node: &Name, cause: &str) {
        self.failed
            .get_or_insert_with(|| format!("{cause} (at node {node})"));
        self.leave_if_idle(workflow, node);
    }

    /// Leaves a node of a walk that has failed, once none of its calls is under way.
    pub(crate) fn leave_if_idle(&mut self, workflow: &WorkflowGraph, node: &Name) {
        if self.running(node).is_none_or(|running| running.open == 0) {
            self.leave(workflow, node, NodeExit::ByEdges(Vec::new()));
        }
    }

    /// The nodes that can be begun now. Nodes that no way can lead to any more are skipped on the way.
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
