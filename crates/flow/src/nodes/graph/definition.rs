//! A workflow with an index of its edges by source node, so that a step reads only the edges of its own node.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;

use convoke_app::STATE_FIELDS;
use convoke_model::{Edge, Name, OnError, Reducer, StateField, WorkflowFields};
use convoke_schema::Schema;
use serde_json::Value;

use crate::effort;

/// A compiled workflow.
pub(crate) struct WorkflowGraph {
    fields: WorkflowFields,
    /// Indexes of the edges that leave each node, in their order.
    leaving: BTreeMap<Name, Vec<usize>>,
    /// Fields of the state that nodes or people set.
    known_fields: BTreeSet<String>,
    /// The types of fields that declare one.
    types: BTreeMap<String, Schema>,
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
        let outputs = workflow.nodes.iter().map(|(name, node)| {
            let field = node.output.as_ref().unwrap_or(name);
            field.to_string()
        });
        let declared = workflow.state.keys().map(ToString::to_string);
        let inputs = workflow.inputs.iter().map(ToString::to_string);
        let always = STATE_FIELDS.map(str::to_owned);
        Self {
            known_fields: outputs
                .chain(declared)
                .chain(inputs)
                .chain(always)
                .collect(),
            types: types_of(workflow),
            fields: workflow.clone(),
            leaving,
        }
    }

    /// Whether a field of the state may have a value. Any other name is a mistake.
    pub(super) fn knows(&self, field: &str) -> bool {
        self.known_fields.contains(field)
    }

    /// Checks a value that a person gives a field against the field's type. Of a list that is added to one, each item.
    pub(super) fn check_value(&self, field: &str, value: &Value) -> Result<(), String> {
        let Some(schema) = self.types.get(field) else {
            return Ok(());
        };
        let reducer = self.state.get(field).map(StateField::reducer);
        let items = match value {
            Value::Array(items) if reducer == Some(Reducer::Append) => items.as_slice(),
            value => std::slice::from_ref(value),
        };
        items
            .iter()
            .try_for_each(|item| schema.check(item))
            .map_err(|error| error.to_string())
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

/// The compiled types of fields. A schema that cannot be compiled is refused when the app is read.
fn types_of(workflow: &WorkflowFields) -> BTreeMap<String, Schema> {
    let fields = workflow.state.iter();
    fields
        .filter_map(|(name, field)| {
            let schema = Schema::compile(field.schema()?).ok()?;
            Some((name.clone(), schema))
        })
        .collect()
}
