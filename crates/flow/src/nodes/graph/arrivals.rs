//! Counts the edges that lead to each node of a walk. Derived from the journaled state when a walk is loaded and updated
//! from there, so that a step costs only what it changes.

use std::collections::{BTreeMap, BTreeSet};

use convoke_model::Name;

use super::definition::WorkflowGraph;
use super::walk::Walk;
use crate::effort;

/// The edges to a node.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct WayCount {
    /// Edges that were taken.
    pub(super) taken: usize,
    /// Edges that may still be taken.
    pub(super) open: usize,
}

/// The edges to all nodes, and which nodes changed.
#[derive(Debug, Clone, Default)]
pub(super) struct Arrivals {
    counts: BTreeMap<Name, WayCount>,
    /// Nodes whose counts changed since the last call of [`changed`](Self::changed).
    changed: BTreeSet<Name>,
}

/// Cached arrivals. Derived state: ignored when walks are compared.
#[derive(Debug, Clone, Default)]
pub(super) struct KnownArrivals(pub(super) Option<Box<Arrivals>>);

impl PartialEq for KnownArrivals {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Arrivals {
    /// Derives the arrivals of a walk. Every node that was not visited counts as changed.
    pub(super) fn of(workflow: &WorkflowGraph, walk: &Walk) -> Self {
        let mut arrivals = Self::default();
        for edge in 0..workflow.edges.len() {
            for target in workflow.targets(edge) {
                arrivals.of_node(target).open += 1;
            }
        }
        for node in workflow.nodes.keys() {
            effort::count(1);
            if let Some(target) = workflow.detour(node) {
                arrivals.of_node(target).open += 1;
            }
        }
        for (edge, to) in walk.ways() {
            arrivals.decide(workflow, edge, to);
        }
        for node in walk.ended() {
            arrivals.decide_detour(workflow, node, walk.detour(node));
        }
        let unvisited = workflow.nodes.keys();
        let unvisited = unvisited.filter(|node| !walk.is_visited(node));
        arrivals.changed = unvisited.cloned().collect();
        arrivals
    }

    /// The edges to a node.
    pub(super) fn to(&self, node: &Name) -> WayCount {
        self.counts.get(node).copied().unwrap_or_default()
    }

    /// Takes the nodes whose counts changed since the last call, in the order of their names.
    pub(super) fn changed(&mut self) -> BTreeSet<Name> {
        std::mem::take(&mut self.changed)
    }

    /// Records where an edge leads; `None` if it is not taken.
    pub(super) fn decide(&mut self, workflow: &WorkflowGraph, edge: usize, to: Option<&Name>) {
        for target in workflow.targets(edge) {
            self.settle(target, to == Some(target));
        }
    }

    /// Records whether a node was left by its `on_error`.
    pub(super) fn decide_detour(
        &mut self,
        workflow: &WorkflowGraph,
        node: &Name,
        to: Option<&Name>,
    ) {
        if let Some(target) = workflow.detour(node) {
            self.settle(target, to == Some(target));
        }
    }

    fn settle(&mut self, target: &Name, taken: bool) {
        let count = self.of_node(target);
        count.open = count.open.saturating_sub(1);
        count.taken += usize::from(taken);
        self.changed.insert(target.clone());
    }

    fn of_node(&mut self, node: &Name) -> &mut WayCount {
        self.counts.entry(node.clone()).or_default()
    }
}
