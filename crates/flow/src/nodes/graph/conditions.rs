//! The conditions that a workflow evaluated, with the value that each had. They make no calls, so no event tells of them.

use convoke_model::{Name, Node as Place, NodeKind};
use convoke_store::Entry;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::turn::Turn;

/// Limit of a recorded value as JSON, in bytes. Of a longer one, the beginning is kept as text.
const MAX_VALUE_BYTES: usize = 1_000;

/// A condition that was evaluated: of a node, or of an edge that leaves it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JudgedCondition {
    /// The node.
    pub node: Name,
    /// The node that the edge leads to, if it is an edge's condition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Its value, or why it has none.
    #[serde(flatten)]
    pub outcome: ConditionOutcome,
}

/// The value of a condition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConditionOutcome {
    /// It was evaluated.
    Value(Value),
    /// It could not be evaluated.
    Error(String),
}

impl JudgedCondition {
    /// The node or the edge.
    pub fn place(&self) -> String {
        match &self.to {
            Some(to) => format!("{} → {to}", self.node),
            None => self.node.to_string(),
        }
    }
}

/// Records the value of a node that decides, or why it has none.
pub(super) fn note_node(
    turn: &mut Turn<'_>,
    node: &Name,
    place: &Place,
    value: Result<&Value, &str>,
) {
    if matches!(place.kind, NodeKind::Condition | NodeKind::Check) {
        note(turn, node, None, value);
    }
}

/// Records the value of a condition, or why it has none: of an edge to a node, or of a skill's approval.
pub(crate) fn note(
    turn: &mut Turn<'_>,
    node: &Name,
    to: Option<String>,
    value: Result<&Value, &str>,
) {
    turn.state.conditions.push(JudgedCondition {
        node: node.clone(),
        to,
        outcome: match value {
            Ok(value) => ConditionOutcome::Value(short(value)),
            Err(cause) => ConditionOutcome::Error(cause.to_owned()),
        },
    });
}

fn short(value: &Value) -> Value {
    let text = value.to_string();
    if text.len() <= MAX_VALUE_BYTES {
        return value.clone();
    }
    let end = text.floor_char_boundary(MAX_VALUE_BYTES);
    format!("{}…", &text[..end]).into()
}

/// Reads the conditions that each entry of a journal evaluated. Entries are read in order, from the first one.
#[derive(Debug, Default)]
pub struct ConditionReader {
    /// Number of conditions in the entries so far.
    read: usize,
}

impl ConditionReader {
    /// The conditions of the next entry.
    pub fn next(&mut self, entry: &Entry) -> Vec<JudgedCondition> {
        #[derive(Deserialize)]
        struct State {
            program: Program,
        }
        #[derive(Deserialize)]
        struct Program {
            #[serde(default)]
            conditions: Vec<JudgedCondition>,
        }
        let Ok(state) = entry.state.read::<State>() else {
            return Vec::new();
        };
        let mut conditions = state.program.conditions;
        let new = conditions.split_off(self.read.min(conditions.len()));
        self.read += new.len();
        new
    }
}
