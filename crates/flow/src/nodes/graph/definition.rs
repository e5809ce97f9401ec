//! A workflow with an index of its edges by source node, so that a step reads only the edges of its own node.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;

use convoke_model::{Edge, Name, OnError, WorkflowFields};

use crate::effort;

/// A compiled workflow.
pub(crate) struct WorkflowGraph {
    fields: WorkflowFields,
    /// Indexes of the edges that leave each node, in their order.
    leaving: BTreeMap<Name, Vec<usize>>,
}

impl Deref for WorkflowGraph {
    type Target = WorkflowFields;

    fn deref(&self) -> &WorkflowFields {
        &self.fields
    }
}

impl WorkflowGraph {
    pub(crate) fn of(workflow: &WorkflowFields) -> Self {
        let mut leaving: BTreeMap<Name, Vec<usize>> = BTreeMap::new();
        for (place, edge) in workflow.edges.iter().enumerate() {
            leaving.entry(edge.from.clone()).or_default().push(place);
        }
        Self {
            fields: workflow.clone(),
            leaving,
        }
    }

    /// The edges that leave a node, with their indexes.
    pub(super) fn leaving<'a>(&'a self, node: &Name) -> impl Iterator<Item = (usize, &'a Edge)> {
        let places = self.leaving.get(node).into_iter().flatten();
        places.filter_map(|place| {
            effort::count(1);
            Some((*place, self.edges.get(*place)?))
        })
    }

    /// Whether no edge leaves a node.
    pub(super) fn is_end(&self, node: &Name) -> bool {
        self.leaving(node)
            .all(|(_, edge)| edge.to.nodes().next().is_none())
    }

    /// The nodes that an edge may lead to. Two keys with the same target count once.
    pub(super) fn targets(&self, edge: usize) -> BTreeSet<&Name> {
        let edge = self.edges.get(edge).into_iter();
        let targets = edge.flat_map(|edge| edge.to.nodes());
        targets.inspect(|_| effort::count(1)).collect()
    }

    /// The target of a node's `on_error`.
    pub(super) fn detour(&self, node: &Name) -> Option<&Name> {
        match &self.nodes.get(node)?.on_error {
            OnError::Goto(target) => Some(target),
            _ => None,
        }
    }
}
