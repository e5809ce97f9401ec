//! The refinement of an answer that failed its check.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::scorecard::{Criterion, Scorecard};
use crate::valid::{Invalid, Report, Rules, Valid};

/// Limit of refinements of one answer.
pub const MAX_REFINEMENTS: u32 = 1;

/// A validated refinement.
pub type Refinement = Valid<RefinementFields>;

/// The refinement of an answer that failed its check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Refinement")]
pub struct RefinementFields {
    /// The task.
    pub request_id: Uuid,
    /// The answer that failed.
    #[schemars(length(min = 1))]
    pub original_response: String,
    /// The criteria it failed.
    #[schemars(length(min = 1))]
    pub failed_criteria: Vec<Criterion>,
    /// The number of the attempt; always 1.
    #[serde(default = "first_attempt")]
    #[schemars(range(min = 1, max = 1))]
    pub attempt_number: u32,
    /// When it was requested.
    pub created_at: Timestamp,
}

fn first_attempt() -> u32 {
    1
}

impl Valid<RefinementFields> {
    /// The refinement that a failed evaluation asks for.
    pub fn of(
        scorecard: &Scorecard,
        original_response: impl Into<String>,
        at: Timestamp,
    ) -> Result<Self, Invalid> {
        Self::new(RefinementFields {
            request_id: scorecard.request_id,
            original_response: original_response.into(),
            failed_criteria: scorecard.failed().cloned().collect(),
            attempt_number: first_attempt(),
            created_at: at,
        })
    }
}

impl Rules for RefinementFields {
    fn rules(&self, report: &mut Report) {
        report.require(
            self.attempt_number == MAX_REFINEMENTS,
            "attempt_number",
            "refinement.attempt",
            "an answer is refined once; attempt_number must be 1",
        );
        report.require(
            !self.original_response.trim().is_empty(),
            "original_response",
            "refinement.response_empty",
            "original_response is empty; there is nothing to refine",
        );
        report.require(
            !self.failed_criteria.is_empty(),
            "failed_criteria",
            "refinement.criteria_empty",
            "failed_criteria is empty; there is no reason to refine",
        );
        report.require(
            self.failed_criteria
                .iter()
                .all(|criterion| criterion.passed == Some(false)),
            "failed_criteria",
            "refinement.criterion_not_failed",
            "failed_criteria lists only criteria that failed",
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scorecard::evaluated;

    #[test]
    fn a_passed_scorecard_gives_no_reason_to_refine() {
        let refinement = Refinement::of(&evaluated(true), "hi", Timestamp::UNIX_EPOCH);
        assert!(refinement.unwrap_err().has("refinement.criteria_empty"));
        assert!(Refinement::of(&evaluated(false), "hi", Timestamp::UNIX_EPOCH).is_ok());
    }
}
