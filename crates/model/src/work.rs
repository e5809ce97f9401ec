//! The results of a task's stages so far.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::answer::Answer;
use crate::decision::Decision;
use crate::execution_plan::ExecutionPlan;
use crate::formatted_response::FormattedResponse;
use crate::refinement::MAX_REFINEMENTS;
use crate::scorecard::Scorecard;
use crate::valid::{Report, Rules};
use crate::validation_result::ValidationResult;

/// The result of each stage; unused ones stay empty. Its rules run as part of the task's rules.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Work {
    /// The routing decision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision: Option<Decision>,
    /// The plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub execution_plan: Option<ExecutionPlan>,
    /// The criteria for the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scorecard: Option<Scorecard>,
    /// Data that agents fetched, by agent.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub data: Map<String, Value>,
    /// The composed answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub composed_response: Option<Answer>,
    /// The answer, formatted for its channel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub formatted_response: Option<FormattedResponse>,
    /// The result of the check.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub validation_result: Option<ValidationResult>,
    /// Number of refinements, at most 1.
    #[schemars(range(max = 1))]
    pub refinement_count: u32,
}

impl Work {
    /// Whether no stage has a result.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub(crate) fn rules_for(&self, task: Uuid, report: &mut Report) {
        for (field, request) in [
            (
                "execution_plan",
                self.execution_plan.as_ref().map(|plan| plan.request_id),
            ),
            (
                "scorecard",
                self.scorecard
                    .as_ref()
                    .map(|scorecard| scorecard.request_id),
            ),
            (
                "formatted_response",
                self.formatted_response
                    .as_ref()
                    .map(|response| response.request_id),
            ),
            (
                "validation_result",
                self.validation_result
                    .as_ref()
                    .map(|result| result.request_id),
            ),
        ] {
            report.require(
                request.is_none_or(|request| request == task),
                field,
                "work.foreign",
                format_args!("{field} belongs to another task"),
            );
        }
        self.rules(report);
    }
}

impl Rules for Work {
    fn rules(&self, report: &mut Report) {
        report.require(
            self.refinement_count <= MAX_REFINEMENTS,
            "refinement_count",
            "work.refinements",
            "an answer is refined at most once",
        );
        if let (Some(result), Some(scorecard)) = (&self.validation_result, &self.scorecard) {
            report.within("validation_result", |report| {
                result.agreement_rules(scorecard, report);
            });
        }
    }
}
