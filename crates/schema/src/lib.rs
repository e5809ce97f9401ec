//! JSON Schema validation within a budget of work.
//!
//! Schemas come from tool servers and values from models, so both may be hostile: a schema of a few
//! hundred bytes can ask for more checks than a machine can make. A [`Schema`] is compiled into a graph
//! in which each schema object occurs once. A check keeps each answer it finds, so ordinary schemas cost
//! in proportion to their size. Whatever exceeds the [`Limits`] is rejected, and rejected identically on
//! every machine, because work is counted in steps, not time.
//!
//! The graph holds the keywords that apply other schemas. All other keywords are evaluated by the
//! `jsonschema` crate, one schema object at a time, with the meaning of the draft in use (4 to 2020-12).

mod check;
mod compile;
mod error;
mod evaluated;
mod leaf;
mod limits;
mod node;
mod size;
mod violations;

use serde_json::Value;

pub use error::{CheckError, Complexity, SchemaError, Violation};
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
    /// Compiles a schema under the default limits. `$schema` selects the draft.
    pub fn compile(schema: &Value) -> Result<Self, SchemaError> {
        Self::compile_within(schema, Limits::default())
    }

    /// Compiles a schema under the given limits.
    pub fn compile_within(schema: &Value, limits: Limits) -> Result<Self, SchemaError> {
        let (nodes, root) = compile::compile(schema, &limits)?;
        Ok(Self {
            nodes,
            root,
            limits,
        })
    }

    /// Checks a value.
    pub fn check(&self, value: &Value) -> Result<(), CheckError> {
        self.check_within(value, self.limits.steps)
    }

    /// Checks a value with a budget below [`Limits::steps`], for callers that must not block.
    pub fn check_within(&self, value: &Value, steps: u64) -> Result<(), CheckError> {
        let mut check = check::Check::new(self, steps.min(self.limits.steps));
        match check.matches(self.root, value) {
            Ok(true) => Ok(()),
            Ok(false) => Err(CheckError::Violations(violations::explain(check, value))),
            Err(complexity) => Err(CheckError::TooComplex(complexity)),
        }
    }

    fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.0]
    }
}
