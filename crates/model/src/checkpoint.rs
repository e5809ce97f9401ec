//! A saved point of a task, at which a person can decide how it continues.

use std::fmt;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::approvers::Answerer;
use crate::name::Name;
use crate::state::State;
use crate::valid::{Report, Rules, Valid};

/// A validated checkpoint.
pub type Checkpoint = Valid<CheckpointFields>;

/// One saved point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Checkpoint")]
pub struct CheckpointFields {
    /// Identifies the checkpoint.
    pub checkpoint_id: Uuid,
    /// The task.
    pub task_id: Uuid,
    /// The task's state at this point.
    pub state: State,
    /// The workflow node the task was at.
    pub position: Name,
    /// Sequence number, increasing within a task.
    pub sequence: u64,
    /// When it was saved.
    pub created_at: Timestamp,
    /// Whether the task waits for a person here.
    #[serde(default)]
    pub awaiting_human: bool,
    /// The person's answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feedback: Option<HumanFeedback>,
    /// When the task continued.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resumed_at: Option<Timestamp>,
}

/// Validated feedback of a person.
pub type HumanFeedback = Valid<HumanFeedbackFields>;

/// A person's answer at a checkpoint.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "HumanFeedback")]
pub struct HumanFeedbackFields {
    /// What to do next.
    pub action: FeedbackAction,
    /// A reason or further instructions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Changed fields of a workflow's state.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub state_updates: Map<String, Value>,
    /// Changed arguments, if a tool call is waiting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Map<String, Value>>,
    /// The result of a call whose outcome was unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    /// Who answered. Absent if nobody did in time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Answerer>,
}

/// What a person decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FeedbackAction {
    /// Continue as proposed.
    Approve,
    /// Do not do this.
    Reject,
    /// Continue with changes.
    Modify,
}

impl fmt::Display for FeedbackAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Approve => "approve",
            Self::Reject => "reject",
            Self::Modify => "modify",
        })
    }
}

impl Rules for CheckpointFields {
    fn rules(&self, report: &mut Report) {
        report.require(
            self.feedback.is_none() || !self.awaiting_human,
            "awaiting_human",
            "checkpoint.awaiting_answered",
            "a checkpoint that has been answered does not await a person",
        );
        report.require(
            self.feedback.is_some() == self.resumed_at.is_some(),
            "resumed_at",
            "checkpoint.resumed_at",
            "a checkpoint has resumed_at exactly when it has been answered",
        );
        report.require(
            self.resumed_at
                .is_none_or(|resumed| self.created_at <= resumed),
            "resumed_at",
            "checkpoint.times",
            "resumed_at cannot be before created_at",
        );
    }
}

impl Rules for HumanFeedbackFields {
    fn rules(&self, report: &mut Report) {
        let changes =
            !self.state_updates.is_empty() || self.arguments.is_some() || self.result.is_some();
        report.require(
            self.action != FeedbackAction::Modify || changes,
            "state_updates",
            "feedback.nothing_modified",
            "modify needs state_updates, arguments or a result; use approve to change nothing",
        );
        report.require(
            self.action == FeedbackAction::Modify || !changes,
            "state_updates",
            "feedback.changes_unasked",
            format_args!(
                "{} takes no changes; use modify to change something",
                self.action
            ),
        );
    }
}
