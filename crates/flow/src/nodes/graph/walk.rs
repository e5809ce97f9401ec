//! The state of a running workflow: visited nodes, taken edges and shared values. Bookkeeping only; what happens at a node
//! is in `at_node`.

use std::collections::{BTreeMap, BTreeSet};

use convoke_model::{Join, Name, Reducer, StateField, ToolCall, WorkflowFields};
use convoke_store::{GrowingList, GrowingMap};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use super::arrivals::{Arrivals, KnownArrivals};
use super::conversation::Unrouted;
use super::definition::WorkflowGraph;
use crate::calls::is_default;
use crate::effort;
use crate::interpret::RequestedAction;
use crate::nodes::agent::BudgetUse;
use crate::nodes::dispatch::SubTaskResult;
use crate::nodes::route::RouterContext;

/// A running workflow. It is written with every entry; of its growing parts, what is new.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Walk {
    pub(crate) workflow: Name,
    /// Values that the nodes share.
    #[serde(default)]
    pub(crate) state: GrowingMap<String, Value>,
    /// The nodes that were started or skipped.
    #[serde(default)]
    visits: Visits,
    /// The targets of edges that were evaluated, by the index of the edge. `None` if it was not taken.
    #[serde(default)]
    ways: GrowingMap<usize, Option<Name>>,
    /// Failed nodes and the targets of their `on_error`.
    #[serde(default, skip_serializing_if = "GrowingMap::is_empty")]
    detours: GrowingMap<Name, Name>,
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
    /// Whether a failed call may have had an effect.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) uncertain: bool,
    /// The last deliver node that was reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) delivered: Option<Name>,
    /// The node that finished last; an end node takes precedence over others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) last: Option<Name>,
    /// What child tasks told the user.
    #[serde(default, skip_serializing_if = "GrowingList::is_empty")]
    pub(crate) told: GrowingList<SubTaskResult>,
    /// What the message asks for, where a route node read it without a model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) requested: Option<Box<RequestedAction>>,
    /// The route node that was left last, if it chose no target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) unrouted: Option<Box<Unrouted>>,
    #[serde(skip)]
    arrivals: KnownArrivals,
}

/// The visited nodes. Written as one map.
#[derive(Debug, Clone, Default, PartialEq)]
struct Visits {
    /// The nodes that have open calls.
    running: BTreeMap<Name, RunningNode>,
    ended: GrowingMap<Name, NodeEnd>,
}

/// The state of a visited node, as it is written.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Visit<R> {
    Running(R),
    Done,
    Skipped,
}

impl Serialize for Visits {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (node, running) in &self.running {
            map.serialize_entry(node, &Visit::Running(running))?;
        }
        self.ended.serialize_entries(&mut map)?;
        map.end()
    }
}

impl<'de> Deserialize<'de> for Visits {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut visits = Self::default();
        for (node, visit) in BTreeMap::<Name, Visit<RunningNode>>::deserialize(deserializer)? {
            let ended = match visit {
                Visit::Running(running) => {
                    visits.running.insert(node, running);
                    continue;
                }
                Visit::Done => NodeEnd::Done,
                Visit::Skipped => NodeEnd::Skipped,
            };
            visits.ended.insert(node, ended);
        }
        Ok(visits)
    }
}

/// How a visited node ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum NodeEnd {
    /// It has a result.
    Done,
    /// It cannot be reached any more.
    Skipped,
}

/// The state of a running node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct RunningNode {
    /// Number of failed attempts, by item.
    #[serde(default, skip_serializing_if = "GrowingMap::is_empty")]
    pub(crate) failures: GrowingMap<usize, u32>,
    /// The items of a `map`, and the result of each.
    #[serde(default, skip_serializing_if = "GrowingList::is_empty")]
    pub(crate) items: GrowingList<Value>,
    #[serde(default, skip_serializing_if = "GrowingMap::is_empty")]
    pub(crate) results: GrowingMap<usize, Value>,
    /// The tool calls of dispatched targets that have ended.
    #[serde(default, skip_serializing_if = "GrowingMap::is_empty")]
    pub(crate) calls: GrowingMap<usize, Vec<ToolCall>>,
    /// Number of items that were started.
    #[serde(rename = "begun", default, skip_serializing_if = "is_default")]
    pub(crate) started: usize,
    /// Context of a route node while a model decides.
    #[serde(rename = "unsure", default, skip_serializing_if = "Option::is_none")]
    pub(crate) router_context: Option<RouterContext>,
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
            state: state.into_iter().collect(),
            visits: Visits::default(),
            ways: GrowingMap::default(),
            detours: GrowingMap::default(),
            spent: BudgetUse::default(),
            done: Vec::new(),
            steps: 0,
            failed: None,
            uncertain: false,
            delivered: None,
            last: None,
            told: GrowingList::default(),
            requested: None,
            unrouted: None,
            arrivals: KnownArrivals::default(),
        }
    }

    /// Whether any node is running.
    pub(crate) fn is_busy(&self) -> bool {
        !self.visits.running.is_empty()
    }

    /// Starts a node.
    pub(crate) fn enter(&mut self, node: &Name) {
        self.visits
            .running
            .insert(node.clone(), RunningNode::default());
    }

    /// A running node.
    pub(crate) fn running(&mut self, node: &Name) -> Option<&mut RunningNode> {
        self.visits.running.get_mut(node)
    }

    /// Marks a node as done and records where its edges lead.
    pub(crate) fn leave(&mut self, workflow: &WorkflowGraph, node: &Name, left: NodeExit) {
        if workflow.is_end(node) || !self.last.as_ref().is_some_and(|last| workflow.is_end(last)) {
            self.last = Some(node.clone());
        }
        match left {
            NodeExit::ByEdges(chosen) => self.settle(workflow, node, NodeEnd::Done, chosen),
            NodeExit::To(target) => {
                self.detours.insert(node.clone(), target);
                self.settle(workflow, node, NodeEnd::Done, std::iter::repeat(None));
            }
        }
    }

    /// Records the end of a node and where its edges lead.
    fn settle(
        &mut self,
        workflow: &WorkflowGraph,
        node: &Name,
        ended: NodeEnd,
        chosen: impl IntoIterator<Item = Option<Name>>,
    ) {
        self.visits.running.remove(node);
        let before = self.visits.ended.insert(node.clone(), ended);
        let mut arrivals = self.arrivals.0.take();
        if before.is_some() {
            // A node that is left twice has its edges recorded again, so the counts are rebuilt.
            arrivals = None;
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
        if self.visits.ended.is_empty() && !self.is_busy() {
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
                if self.is_visited(&name) || found.contains(&name) {
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
                self.settle(workflow, &name, NodeEnd::Skipped, std::iter::repeat(None));
            }
        }
    }

    /// Whether a node was started or skipped.
    pub(super) fn is_visited(&self, node: &Name) -> bool {
        self.visits.running.contains_key(node) || self.visits.ended.contains_key(node)
    }

    /// The nodes that have ended.
    pub(super) fn ended(&self) -> impl Iterator<Item = &Name> {
        self.visits.ended.iter().map(|(node, _)| node)
    }

    /// Where the edges lead that were evaluated.
    pub(super) fn ways(&self) -> impl Iterator<Item = (usize, Option<&Name>)> {
        self.ways.iter().map(|(edge, to)| (*edge, to.as_ref()))
    }

    /// The target of the `on_error` of a node that failed.
    pub(super) fn detour(&self, node: &Name) -> Option<&Name> {
        self.detours.get(node)
    }

    fn arrivals(&mut self, workflow: &WorkflowGraph) -> &mut Arrivals {
        let arrivals = self.arrivals.0.take();
        let arrivals = arrivals.unwrap_or_else(|| Box::new(Arrivals::of(workflow, self)));
        self.arrivals.0.insert(arrivals)
    }

    /// The values that the nodes share, for whoever gets them as the output.
    pub(super) fn shared_values(&self) -> Map<String, Value> {
        let values = self.state.iter();
        values
            .map(|(field, value)| (field.clone(), value.clone()))
            .collect()
    }

    /// Stores a value in the state with the field's reducer.
    pub(crate) fn keep(&mut self, workflow: &WorkflowFields, field: &str, value: Value) {
        let reducer = workflow.state.get(field).map(StateField::reducer);
        let reducer = reducer.unwrap_or_default();
        match (reducer, value) {
            (Reducer::Append, Value::Array(items)) => {
                self.state.extend_list(field.to_owned(), items);
            }
            (Reducer::Append, item) => self.state.extend_list(field.to_owned(), vec![item]),
            (_, value) if self.state.contains_key(field) => self.state.change(field, |known| {
                *known = reduce(reducer, known.take(), value);
            }),
            (_, value) => {
                self.state.insert(field.to_owned(), value);
            }
        }
    }
}

/// Combines the value of a field with a new one.
fn reduce(reducer: Reducer, known: Value, new: Value) -> Value {
    let number = |value: &Value| value.as_f64().unwrap_or(0.0);
    match (reducer, known) {
        (Reducer::Merge, Value::Object(mut fields)) => match new {
            Value::Object(more) => {
                fields.extend(more);
                Value::Object(fields)
            }
            other => other,
        },
        (Reducer::Sum, known) => match (known.as_i64(), new.as_i64()) {
            (Some(known), Some(new)) => known.saturating_add(new).into(),
            _ => (number(&known) + number(&new)).into(),
        },
        (Reducer::Max, known) if number(&known) >= number(&new) => known,
        (Reducer::Set | Reducer::Append | Reducer::Merge | Reducer::Max, _) => new,
    }
}
