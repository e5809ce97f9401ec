//! The record of an answer that did not pass, for whoever finds out why.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::scorecard::{Criterion, Scorecard};
use crate::valid::{Report, Rules, Valid};

/// A validation failure whose rules hold.
pub type ValidationFailure = Valid<ValidationFailureFields>;

/// The record of an answer that did not pass, for whoever finds out why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ValidationFailure")]
pub struct ValidationFailureFields {
    /// The task whose answer did not pass.
    pub request_id: Uuid,
    /// What was asked.
    pub original_question: String,
    /// What the answer was checked against.
    pub scorecard: Scorecard,
    /// How each criterion came out.
    pub validation_results: Vec<Criterion>,
    /// Whether the answer was mended.
    #[serde(default)]
    pub refinement_attempted: bool,
    /// Whether the mended answer passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refinement_succeeded: Option<bool>,
    /// What the user got.
    pub final_outcome: String,
    /// Why it did not pass.
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
