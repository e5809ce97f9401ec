//! The entries of a task's journal, and where the task stood after each.

use convoke_flow::{ConditionOutcome, ConditionReader, JudgedCondition};
use convoke_model::Redaction;
use convoke_store::Entry;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

/// One entry of a journal.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HistoryEntry {
    /// Numbered from 1.
    pub seq: u64,
    /// When it was written.
    pub at: Timestamp,
    /// What happened.
    pub kind: String,
    /// What it happened to, such as a call.
    #[serde(skip)]
    pub label: Option<String>,
    /// The state of the task after it.
    pub status: String,
    /// What was open after it: calls and questions.
    pub open: Vec<String>,
    /// The conditions of a workflow that were evaluated in it, without personal data.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<JudgedCondition>,
}

/// Reads the entries of a journal in their order, from the first on.
#[derive(Debug)]
pub struct TaskHistory {
    conditions: ConditionReader,
    redaction: Redaction,
}

impl TaskHistory {
    /// Begins before the first entry.
    pub fn new(redaction: Redaction) -> Self {
        Self {
            conditions: ConditionReader::default(),
            redaction,
        }
    }

    /// The next entry.
    pub fn next(&mut self, entry: &Entry) -> HistoryEntry {
        let state = entry.state.value();
        let conditions = self.conditions.next(entry).into_iter();
        HistoryEntry {
            seq: entry.seq,
            at: entry.at,
            kind: entry.kind.clone(),
            label: entry.event["label"].as_str().map(str::to_owned),
            status: state["status"].as_str().unwrap_or_default().to_owned(),
            open: labels(&state),
            conditions: conditions.map(|it| self.clean(it)).collect(),
        }
    }

    fn clean(&self, condition: JudgedCondition) -> JudgedCondition {
        let outcome = match condition.outcome {
            ConditionOutcome::Value(value) => ConditionOutcome::Value(self.redaction.value(&value)),
            ConditionOutcome::Error(cause) => ConditionOutcome::Error(self.redaction.text(&cause)),
        };
        JudgedCondition {
            outcome,
            ..condition
        }
    }
}

/// Open calls and questions in a state.
fn labels(state: &Value) -> Vec<String> {
    let open = state["open"].as_array();
    let label = |call: &Value| call["label"].as_str().unwrap_or_default().to_owned();
    open.into_iter().flatten().map(label).collect()
}
