//! The result of checking an answer against its scorecard.

use std::collections::BTreeSet;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::scorecard::Scorecard;
use crate::valid::{Invalid, Report, Rules, Valid};

/// A validated validation result.
pub type ValidationResult = Valid<ValidationResultFields>;

/// The result of checking an answer against its scorecard.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ValidationResult")]
pub struct ValidationResultFields {
    /// The task.
    pub request_id: Uuid,
    /// The scorecard.
    pub scorecard_id: Uuid,
    /// Whether the answer passed.
    pub passed: bool,
    /// The criteria that failed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed_criteria_ids: Vec<String>,
    /// What to change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feedback: Option<String>,
    /// When it was checked.
    pub validated_at: Timestamp,
}

impl Valid<ValidationResultFields> {
    /// The result of an evaluated scorecard. Feedback is that of the failed criteria, or what they
    /// expected.
    pub fn of(scorecard: &Scorecard) -> Result<Self, Invalid> {
        let Some(validated_at) = scorecard.evaluated_at else {
            return Err(Invalid::one(
                "validation.scorecard_open",
                "the scorecard has not been evaluated; evaluate it first",
            ));
        };
        let lines: Vec<_> = scorecard
            .failed()
            .map(|failed| {
                let feedback = failed
                    .feedback
                    .as_deref()
                    .filter(|feedback| !feedback.trim().is_empty());
                format!(
                    "{}: {}",
                    failed.description,
                    feedback.unwrap_or(&failed.expected)
                )
            })
            .collect();
        Self::new(ValidationResultFields {
            request_id: scorecard.request_id,
            scorecard_id: scorecard.id,
            passed: scorecard.overall_passed,
            failed_criteria_ids: scorecard.failed().map(|failed| failed.id.clone()).collect(),
            feedback: (!lines.is_empty()).then(|| lines.join("\n")),
            validated_at,
        })
    }
}

impl ValidationResultFields {
    /// Checks that the result agrees with the scorecard.
    pub fn check_against(&self, scorecard: &Scorecard) -> Result<(), Invalid> {
        let mut report = Report::default();
        self.agreement_rules(scorecard, &mut report);
        report.finish()
    }

    pub(crate) fn agreement_rules(&self, scorecard: &Scorecard, report: &mut Report) {
        report.require(
            self.scorecard_id == scorecard.id && self.request_id == scorecard.request_id,
            "scorecard_id",
            "validation.scorecard_other",
            "the result belongs to another scorecard",
        );
        report.require(
            self.passed == scorecard.overall_passed,
            "passed",
            "validation.disagrees",
            "the result and its scorecard disagree about whether the answer passed",
        );
        let failed: BTreeSet<_> = scorecard
            .failed()
            .map(|failed| failed.id.as_str())
            .collect();
        let named: BTreeSet<_> = self
            .failed_criteria_ids
            .iter()
            .map(String::as_str)
            .collect();
        report.require(
            failed == named,
            "failed_criteria_ids",
            "validation.disagrees",
            "the result and its scorecard disagree about what failed",
        );
    }
}

impl Rules for ValidationResultFields {
    fn rules(&self, report: &mut Report) {
        report.require(
            !self.passed || self.failed_criteria_ids.is_empty(),
            "failed_criteria_ids",
            "validation.failed_although_passed",
            "an answer that passed has no failed criteria",
        );
        report.require(
            self.passed || !self.failed_criteria_ids.is_empty(),
            "failed_criteria_ids",
            "validation.failed_missing",
            "an answer that did not pass names what it failed",
        );
        report.require(
            self.passed
                || self
                    .feedback
                    .as_ref()
                    .is_some_and(|feedback| !feedback.trim().is_empty()),
            "feedback",
            "validation.feedback_missing",
            "an answer that did not pass has feedback that says what to change",
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scorecard::evaluated;

    #[test]
    fn a_result_made_from_a_scorecard_agrees_with_it() {
        for passed in [true, false] {
            let result = ValidationResult::of(&evaluated(passed)).unwrap();
            assert_eq!(result.passed, passed);
            assert_eq!(result.check_against(&evaluated(passed)), Ok(()));
            let disagreement = result.check_against(&evaluated(!passed)).unwrap_err();
            assert!(disagreement.has("validation.disagrees"));
        }
    }

    #[test]
    fn feedback_falls_back_on_what_was_expected() {
        let result = ValidationResult::of(&evaluated(false)).unwrap();
        assert_eq!(
            result.feedback.as_deref(),
            Some("the answer is short: one line")
        );
    }
}
