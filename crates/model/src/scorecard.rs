//! The criteria an answer is checked against, and the results.

use std::collections::BTreeSet;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::valid::{Invalid, Report, Rules, Valid};

/// Minimum length of a description, in characters.
pub const MIN_CRITERION_DESCRIPTION: usize = 10;

/// A validated scorecard.
pub type Scorecard = Valid<ScorecardFields>;

/// The criteria for one answer. It passes only if all criteria pass.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Scorecard")]
pub struct ScorecardFields {
    /// Identifies the scorecard.
    pub id: Uuid,
    /// The task.
    pub request_id: Uuid,
    /// The criteria.
    #[schemars(length(min = 1))]
    pub criteria: Vec<Criterion>,
    /// Whether all criteria passed.
    #[serde(default)]
    pub overall_passed: bool,
    /// When it was drawn up.
    pub created_at: Timestamp,
    /// When the last criterion had been judged and the scorecard was evaluated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evaluated_at: Option<Timestamp>,
}

/// A validated criterion.
pub type Criterion = Valid<CriterionFields>;

/// One criterion for an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Criterion")]
pub struct CriterionFields {
    /// Unique within its scorecard.
    pub id: String,
    /// What is checked, specific enough to be measured.
    #[schemars(length(min = 10))]
    pub description: String,
    /// The expected result.
    pub expected: String,
    /// Whether it passed; not judged if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passed: Option<bool>,
    /// What to change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feedback: Option<String>,
}

impl Valid<CriterionFields> {
    /// A criterion that has not been judged.
    pub fn open(
        id: impl Into<String>,
        description: impl Into<String>,
        expected: impl Into<String>,
    ) -> Result<Self, Invalid> {
        Self::new(CriterionFields {
            id: id.into(),
            description: description.into(),
            expected: expected.into(),
            passed: None,
            feedback: None,
        })
    }
}

impl Valid<ScorecardFields> {
    /// A scorecard whose criteria have not been judged.
    pub fn create(
        id: Uuid,
        request_id: Uuid,
        criteria: Vec<Criterion>,
        at: Timestamp,
    ) -> Result<Self, Invalid> {
        Self::new(ScorecardFields {
            id,
            request_id,
            criteria,
            overall_passed: false,
            created_at: at,
            evaluated_at: None,
        })
    }

    /// Judges one criterion. Judging after the evaluation reopens the scorecard.
    pub fn judge(
        self,
        criterion: &str,
        passed: bool,
        feedback: Option<String>,
    ) -> Result<Self, Invalid> {
        let Some(index) = self.criteria.iter().position(|known| known.id == criterion) else {
            return Err(Invalid::one(
                "scorecard.criterion_unknown",
                format!("the scorecard has no criterion `{criterion}`"),
            ));
        };
        let judged = self.criteria[index].clone().with(|criterion| {
            criterion.passed = Some(passed);
            criterion.feedback = feedback;
        })?;
        self.with(|scorecard| {
            scorecard.criteria[index] = judged;
            scorecard.overall_passed = false;
            scorecard.evaluated_at = None;
        })
    }

    /// Evaluates the scorecard. All criteria must have been judged.
    pub fn evaluate(self, at: Timestamp) -> Result<Self, Invalid> {
        if let Some(open) = self.open().next() {
            return Err(Invalid::one(
                "scorecard.open",
                format!(
                    "`{}` has not been judged; judge every criterion first",
                    open.id
                ),
            ));
        }
        self.with(|scorecard| {
            scorecard.overall_passed = scorecard.all_passed();
            scorecard.evaluated_at = Some(at);
        })
    }
}

impl ScorecardFields {
    /// The criteria that failed.
    pub fn failed(&self) -> impl Iterator<Item = &Criterion> {
        self.criteria
            .iter()
            .filter(|criterion| criterion.passed == Some(false))
    }

    /// The criteria that have not been judged.
    pub fn open(&self) -> impl Iterator<Item = &Criterion> {
        self.criteria
            .iter()
            .filter(|criterion| criterion.passed.is_none())
    }

    fn all_passed(&self) -> bool {
        self.criteria
            .iter()
            .all(|criterion| criterion.passed == Some(true))
    }
}

impl Rules for CriterionFields {
    fn rules(&self, report: &mut Report) {
        report.require(
            !self.id.trim().is_empty(),
            "id",
            "criterion.id_empty",
            "id is empty; give the criterion a short name",
        );
        report.require(
            self.description.trim().chars().count() >= MIN_CRITERION_DESCRIPTION,
            "description",
            "criterion.description_short",
            format_args!(
                "a description has at least {MIN_CRITERION_DESCRIPTION} characters; say what is \
                 measured"
            ),
        );
        report.require(
            !self.expected.trim().is_empty(),
            "expected",
            "criterion.expected_empty",
            "expected is empty; say what should be found",
        );
    }
}

impl Rules for ScorecardFields {
    fn rules(&self, report: &mut Report) {
        report.require(
            !self.criteria.is_empty(),
            "criteria",
            "scorecard.criteria_empty",
            "a scorecard has at least one criterion",
        );
        let mut ids = BTreeSet::new();
        report.within("criteria", |report| {
            for (index, criterion) in self.criteria.iter().enumerate() {
                report.require(
                    ids.insert(&criterion.id),
                    index,
                    "scorecard.criterion_twice",
                    format_args!("there is already a criterion `{}`", criterion.id),
                );
            }
        });
        report.require(
            self.evaluated_at.is_none() || self.open().next().is_none(),
            "evaluated_at",
            "scorecard.evaluated_early",
            "a scorecard is not evaluated while a criterion is open",
        );
        report.require(
            self.overall_passed == (self.evaluated_at.is_some() && self.all_passed()),
            "overall_passed",
            "scorecard.overall_passed",
            "overall_passed is true exactly when it was evaluated and every criterion passed",
        );
        report.require(
            self.evaluated_at
                .is_none_or(|evaluated| self.created_at <= evaluated),
            "evaluated_at",
            "scorecard.times",
            "a scorecard cannot be evaluated before it is created",
        );
    }
}

/// A scorecard with one criterion, evaluated.
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests fail by panicking")]
pub(crate) fn evaluated(passed: bool) -> Scorecard {
    let at = Timestamp::UNIX_EPOCH;
    let criterion = Criterion::open("short", "the answer is short", "one line").unwrap();
    Scorecard::create(Uuid::nil(), Uuid::nil(), vec![criterion], at)
        .and_then(|scorecard| scorecard.judge("short", passed, None))
        .and_then(|scorecard| scorecard.evaluate(at))
        .unwrap()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scorecard() -> Scorecard {
        let criteria = ["short", "polite"]
            .map(|id| Criterion::open(id, format!("the answer is {id}"), "it is").unwrap());
        let at = Timestamp::UNIX_EPOCH;
        Scorecard::create(Uuid::nil(), Uuid::nil(), criteria.to_vec(), at).unwrap()
    }

    #[test]
    fn a_scorecard_passes_only_if_every_criterion_does() {
        let at = Timestamp::UNIX_EPOCH;
        let half = scorecard().judge("short", true, None).unwrap();
        assert!(half.clone().evaluate(at).unwrap_err().has("scorecard.open"));

        let failed = half
            .clone()
            .judge("polite", false, Some("say please".into()))
            .unwrap();
        let failed = failed.evaluate(at).unwrap();
        assert!(!failed.overall_passed);
        assert_eq!(
            failed
                .failed()
                .map(|criterion| criterion.id.as_str())
                .collect::<Vec<_>>(),
            ["polite"]
        );

        assert!(
            half.judge("polite", true, None)
                .unwrap()
                .evaluate(at)
                .unwrap()
                .overall_passed
        );
    }

    #[test]
    fn an_unknown_criterion_cannot_be_judged() {
        let judged = scorecard().judge("long", true, None);
        assert!(judged.unwrap_err().has("scorecard.criterion_unknown"));
    }
}
