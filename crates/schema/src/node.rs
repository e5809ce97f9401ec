//! The compiled graph: every schema object once, with the keywords that apply other schemas.

use std::collections::HashMap;
use std::sync::Arc;

use jsonschema::Draft;

use crate::leaf::Leaf;

/// Index of a schema in the graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct NodeId(pub(crate) usize);

#[derive(Debug)]
pub(crate) enum Node {
    /// `true` or `false`.
    Bool(bool),
    /// A draft's own meta-schema. Checking against it takes linear work.
    Meta(Draft),
    Object(Box<ObjectNode>),
}

/// A schema object, compiled.
#[derive(Debug, Default)]
pub(crate) struct ObjectNode {
    /// The keywords that apply no other schema.
    pub(crate) leaf: Option<Arc<Leaf>>,
    pub(crate) references: Vec<NodeId>,
    pub(crate) all_of: Vec<NodeId>,
    pub(crate) any_of: Option<Vec<NodeId>>,
    pub(crate) one_of: Option<Vec<NodeId>>,
    pub(crate) not: Option<NodeId>,
    pub(crate) condition: Option<Condition>,
    /// Applied to the whole object if it has the named property.
    pub(crate) dependents: Vec<Dependent>,
    pub(crate) properties: HashMap<String, NodeId>,
    pub(crate) patterns: Vec<(Arc<Leaf>, NodeId)>,
    pub(crate) additional: Option<NodeId>,
    pub(crate) names: Option<NodeId>,
    pub(crate) unevaluated_properties: Option<NodeId>,
    /// The schemas of the first items, by position.
    pub(crate) prefix: Vec<NodeId>,
    /// The schema of all items after the prefix.
    pub(crate) items: Option<NodeId>,
    pub(crate) contains: Option<Contains>,
    pub(crate) unevaluated_items: Option<NodeId>,
}

/// `if`, `then` and `else`.
#[derive(Debug)]
pub(crate) struct Condition {
    pub(crate) when: NodeId,
    pub(crate) then: Option<NodeId>,
    pub(crate) otherwise: Option<NodeId>,
}

/// A schema that applies to an object with a property of this name.
#[derive(Debug)]
pub(crate) struct Dependent {
    pub(crate) name: String,
    pub(crate) node: NodeId,
    /// Whether the fields it checks count as evaluated: true for `dependentSchemas`, false for
    /// `dependencies`.
    pub(crate) evaluates: bool,
}

/// `contains` with its bounds.
#[derive(Debug)]
pub(crate) struct Contains {
    pub(crate) node: NodeId,
    pub(crate) least: u64,
    pub(crate) most: Option<u64>,
}

impl ObjectNode {
    /// Whether it applies other schemas, so that its result is worth caching.
    pub(crate) fn is_composed(&self) -> bool {
        self.applies_in_place() || self.looks_into_objects() || self.looks_into_arrays()
    }

    fn applies_in_place(&self) -> bool {
        !self.references.is_empty()
            || !self.all_of.is_empty()
            || self.any_of.is_some()
            || self.one_of.is_some()
            || self.not.is_some()
            || self.condition.is_some()
            || !self.dependents.is_empty()
    }

    pub(crate) fn looks_into_objects(&self) -> bool {
        !self.properties.is_empty()
            || !self.patterns.is_empty()
            || self.additional.is_some()
            || self.names.is_some()
            || self.unevaluated_properties.is_some()
    }

    pub(crate) fn looks_into_arrays(&self) -> bool {
        !self.prefix.is_empty()
            || self.items.is_some()
            || self.contains.is_some()
            || self.unevaluated_items.is_some()
    }
}
