//! The record of an answer that failed its check, for finding out why.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::scorecard::{Criterion, Scorecard};
use crate::valid::{Report, Rules, Valid};

/// A validated validation failure.
pub type ValidationFailure = Valid<ValidationFailureFields>;

/// The record of an answer that failed its check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ValidationFailure")]
pub struct ValidationFailureFields {
    /// The task.
    pub request_id: Uuid,
    /// The user's question.
    pub original_question: String,
    /// The scorecard it was checked against.
    pub scorecard: Scorecard,
    /// The result of each criterion.
    pub validation_results: Vec<Criterion>,
    /// Whether a refinement was tried.
    #[serde(default)]
    pub refinement_attempted: bool,
    /// Whether the refined answer passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refinement_succeeded: Option<bool>,
    /// The answer that the user got.
    pub final_outcome: String,
    /// Why it failed.
    pub failure_reason: String,
    /// When this was recorded.
    pub logged_at: Timestamp,
}

impl Rules for ValidationFailureFields {
    fn rules(&self, report: &mut Report) {
        report.require(
            self.refinement_succeeded != Some(true) || self.refinement_attempted,
            "refinement_succeeded",
            "validation_failure.refinement",
            "a refinement that was not attempted cannot have succeeded",
        );
        report.require(
            !self.failure_reason.trim().is_empty(),
            "failure_reason",
            "validation_failure.reason_empty",
            "failure_reason is empty; say why the answer did not pass",
        );
        report.require(
            !self.final_outcome.trim().is_empty(),
            "final_outcome",
            "validation_failure.outcome_empty",
            "final_outcome is empty; say what the user got",
        );
    }
}
