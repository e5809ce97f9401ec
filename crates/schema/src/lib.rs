//! JSON Schemas, checked within a budget of work.
//!
//! Schemas come from tool servers and values from models, so both may be hostile: a schema of a few
//! hundred bytes can ask for more checks than a machine ever makes. A [`Schema`] is compiled into a graph
//! in which every part of it stands once, and a value is checked against that graph with each answer kept,
//! so that ordinary schemas cost what they look like. What still exceeds the [`Limits`] is refused, and the
//! same value is refused on every machine: work is counted in steps, not in time.
//!
//! The graph holds the keywords that apply other schemas. All others are left to the `jsonschema` crate,
//! one schema object at a time, so that every draft from 4 to 2020-12 means what it says.

mod check;
mod compile;
mod complaints;
mod error;
mod evaluated;
mod leaf;
mod limits;
mod node;
mod size;

use serde_json::Value;

pub use error::{Complaint, Complexity, Misfit, SchemaError};
pub use limits::Limits;
pub use size::ValueCounter;

use crate::node::{Node, NodeId};

/// A compiled schema.
#[derive(Debug)]
pub struct Schema {
    nodes: Vec<Node>,
    root: NodeId,
    limits: Limits,
}

impl Schema {
    /// Compiles a schema of whichever draft it names, under the usual limits.
    pub fn compile(schema: &Value) -> Result<Self, SchemaError> {
        Self::compile_within(schema, Limits::default())
    }

    /// Compiles a schema under limits of the caller's own.
    pub fn compile_within(schema: &Value, limits: Limits) -> Result<Self, SchemaError> {
        let (nodes, root) = compile::compile(schema, &limits)?;
        Ok(Self {
            nodes,
            root,
            limits,
        })
    }

    /// Whether a value fits, and otherwise what about it does not.
    pub fn check(&self, value: &Value) -> Result<(), Misfit> {
        self.check_within(value, self.limits.steps)
    }

    /// The same with a smaller budget, in steps, for a caller who must not wait.
    pub fn check_within(&self, value: &Value, steps: u64) -> Result<(), Misfit> {
        let mut check = check::Check::new(self, steps.min(self.limits.steps));
        match check.fits(self.root, value) {
            Ok(true) => Ok(()),
            Ok(false) => Err(Misfit::Complaints(complaints::explain(check, value))),
            Err(complexity) => Err(Misfit::TooComplex(complexity)),
        }
    }

    fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.0]
    }
}
