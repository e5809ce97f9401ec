//! How many ways lead to each node of a walk. Worked out from the journaled part of the walk once it is in memory, and
//! kept up from there, so that a step costs what it changes.

use std::collections::{BTreeMap, BTreeSet};

use convoke_model::Name;

use super::definition::WorkflowGraph;
use super::walk::Visit;
use crate::effort;

/// The ways to a node.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct WayCount {
    /// Ways that were taken.
    pub(super) taken: usize,
    /// Ways that may still be taken.
    pub(super) open: usize,
}

/// The ways to all nodes, and what changed about them.
#[derive(Debug, Clone, Default)]
pub(super) struct Arrivals {
    counts: BTreeMap<Name, WayCount>,
    /// Nodes under way.
    pub(super) running: usize,
    /// Nodes to which a way was decided about since [`changed`](Self::changed) was asked last.
    changed: BTreeSet<Name>,
}

/// The arrivals of a walk that is in memory. They are no part of what a walk is: two walks that differ in nothing else
/// are the same.
#[derive(Debug, Clone, Default)]
pub(super) struct KnownArrivals(pub(super) Option<Box<Arrivals>>);

impl PartialEq for KnownArrivals {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Arrivals {
    /// The arrivals of a walk that stands here. Every node that was not come to counts as changed.
    pub(super) fn of(
        workflow: &WorkflowGraph,
        visits: &BTreeMap<Name, Visit>,
        ways: &BTreeMap<usize, Option<Name>>,
        detours: &BTreeMap<Name, Name>,
    ) -> Self {
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
        for (edge, to) in ways {
            arrivals.decide(workflow, *edge, to.as_ref());
        }
        for (node, visit) in visits {
            match visit {
                Visit::Running(_) => arrivals.running += 1,
                Visit::Done | Visit::Skipped => {
                    arrivals.decide_detour(workflow, node, detours.get(node));
                }
            }
        }
        let unvisited = workflow.nodes.keys();
        let unvisited = unvisited.filter(|node| !visits.contains_key(*node));
        arrivals.changed = unvisited.cloned().collect();
        arrivals
    }

    /// The ways to a node.
    pub(super) fn to(&self, node: &Name) -> WayCount {
        self.counts.get(node).copied().unwrap_or_default()
    }

    /// The nodes whose ways changed since this was asked last, in the order of their names.
    pub(super) fn changed(&mut self) -> BTreeSet<Name> {
        std::mem::take(&mut self.changed)
    }

    /// An edge leads there, or nowhere.
    pub(super) fn decide(&mut self, workflow: &WorkflowGraph, edge: usize, to: Option<&Name>) {
        for target in workflow.targets(edge) {
            self.settle(target, to == Some(target));
        }
    }

    /// A node was left, to where its `on_error` says or not.
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
