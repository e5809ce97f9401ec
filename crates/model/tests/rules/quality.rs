//! Rules of the types for planning, checking and formatting.

use convoke_model::{
    Criterion, ExecutionPlan, FormattedResponse, Refinement, Scorecard, ValidationFailure,
    ValidationResult,
};
use serde_json::{Value, json};

use super::{EARLY, LATE, NIL, rejects};

pub(crate) fn plan(request_id: &str) -> Value {
    json!({
        "request_id": request_id, "user_message": "check my timesheet", "channel": "sms",
        "steps": [{ "agent": "timesheet", "action": "extract_hours" }],
        "data_agents": ["timesheet"], "created_at": EARLY,
    })
}

fn criterion(passed: bool) -> Value {
    json!({
        "id": "correct_format", "description": "the response is plain text",
        "expected": "no markdown symbols", "passed": passed,
    })
}

pub(crate) fn scorecard(passed: bool) -> Value {
    json!({
        "id": NIL, "request_id": NIL, "criteria": [criterion(passed)], "overall_passed": passed,
        "created_at": EARLY, "evaluated_at": LATE,
    })
}

#[test]
fn a_plan_keeps_its_rules() {
    rejects::<ExecutionPlan>(
        &plan(NIL),
        &[
            (json!({ "user_message": " " }), "plan.message_empty"),
            (json!({ "steps": [] }), "plan.steps_empty"),
            (
                json!({ "steps": [{ "agent": "timesheet", "action": "" }] }),
                "plan.action_empty",
            ),
            (
                json!({ "data_agents": ["timesheet", "timesheet"] }),
                "plan.data_agent_twice",
            ),
            (
                json!({ "data_agents": ["calendar"] }),
                "plan.data_agent_without_step",
            ),
        ],
    );
}

#[test]
fn a_criterion_keeps_its_rules() {
    rejects::<Criterion>(
        &criterion(true),
        &[
            (json!({ "id": "" }), "criterion.id_empty"),
            (
                json!({ "description": "too short" }),
                "criterion.description_short",
            ),
            (json!({ "expected": "" }), "criterion.expected_empty"),
        ],
    );
}

#[test]
fn a_scorecard_keeps_its_rules() {
    let mut open = criterion(true);
    open.as_object_mut().unwrap().remove("passed");
    rejects::<Scorecard>(
        &scorecard(true),
        &[
            (json!({ "criteria": [] }), "scorecard.criteria_empty"),
            (
                json!({ "criteria": [criterion(true), criterion(true)] }),
                "scorecard.criterion_twice",
            ),
            (json!({ "criteria": [open] }), "scorecard.evaluated_early"),
            (
                json!({ "criteria": [criterion(false)] }),
                "scorecard.overall_passed",
            ),
            (
                json!({ "overall_passed": false }),
                "scorecard.overall_passed",
            ),
            (json!({ "evaluated_at": null }), "scorecard.overall_passed"),
            (
                json!({ "created_at": LATE, "evaluated_at": EARLY }),
                "scorecard.times",
            ),
        ],
    );
}

#[test]
fn a_validation_result_keeps_its_rules() {
    let failed = json!({
        "request_id": NIL, "scorecard_id": NIL, "passed": false,
        "failed_criteria_ids": ["correct_format"], "feedback": "take the stars out",
        "validated_at": LATE,
    });
    rejects::<ValidationResult>(
        &failed,
        &[
            (
                json!({ "passed": true }),
                "validation.failed_although_passed",
            ),
            (
                json!({ "failed_criteria_ids": [] }),
                "validation.failed_missing",
            ),
            (json!({ "feedback": null }), "validation.feedback_missing"),
            (json!({ "feedback": " " }), "validation.feedback_missing"),
        ],
    );
}

#[test]
fn a_refinement_keeps_its_rules() {
    let refinement = json!({
        "request_id": NIL, "original_response": "**32** hours",
        "failed_criteria": [criterion(false)], "created_at": LATE,
    });
    rejects::<Refinement>(
        &refinement,
        &[
            (json!({ "attempt_number": 2 }), "refinement.attempt"),
            (json!({ "attempt_number": 0 }), "refinement.attempt"),
            (
                json!({ "original_response": "" }),
                "refinement.response_empty",
            ),
            (
                json!({ "failed_criteria": [] }),
                "refinement.criteria_empty",
            ),
            (
                json!({ "failed_criteria": [criterion(true)] }),
                "refinement.criterion_not_failed",
            ),
        ],
    );
}

#[test]
fn a_validation_failure_keeps_its_rules() {
    let failure = json!({
        "request_id": NIL, "original_question": "my hours?", "scorecard": scorecard(false),
        "validation_results": [criterion(false)], "refinement_attempted": true,
        "refinement_succeeded": true, "final_outcome": "a graceful message",
        "failure_reason": "the composer wrote markdown", "logged_at": LATE,
    });
    rejects::<ValidationFailure>(
        &failure,
        &[
            (
                json!({ "refinement_attempted": false }),
                "validation_failure.refinement",
            ),
            (
                json!({ "failure_reason": "" }),
                "validation_failure.reason_empty",
            ),
            (
                json!({ "final_outcome": "" }),
                "validation_failure.outcome_empty",
            ),
        ],
    );
}

#[test]
fn a_formatted_response_keeps_its_rules() {
    let response = json!({
        "request_id": NIL, "channel": "sms", "content": "You've logged 32/40 hours.",
        "formatted_at": LATE,
    });
    let part = |sequence: u32, content: &str, mark: &str| json!({ "sequence": sequence, "content": content, "continuation_indicator": mark });
    let split = |parts: &[Value]| json!({ "is_split": true, "parts": parts });
    rejects::<FormattedResponse>(
        &response,
        &[
            (json!({ "content": "" }), "formatted.content_empty"),
            (json!({ "is_split": true }), "formatted.parts"),
            (
                json!({ "parts": [part(1, "a", "(1/1)")] }),
                "formatted.parts",
            ),
            (json!({ "card": {} }), "formatted.card"),
            (
                json!({ "content": "x".repeat(1_601) }),
                "formatted.too_long",
            ),
            (json!({ "content": "**32** hours" }), "formatted.markdown"),
            (
                json!({ "content": "see [this](https://example.org)" }),
                "formatted.markdown",
            ),
            (split(&[part(0, "a", "(1/1)")]), "formatted.sequence"),
            (
                split(&[part(1, "a", "(1/2)"), part(3, "b", "(2/2)")]),
                "formatted.sequence",
            ),
            (
                split(&[part(1, "a", "(1/3)"), part(2, "b", "(2/3)")]),
                "formatted.indicator",
            ),
            (split(&[part(1, " ", "(1/1)")]), "formatted.part_empty"),
            // The mark counts: 1,595 characters, a space and `(1/1)` exceed the limit by one.
            (
                split(&[part(1, &"x".repeat(1_595), "(1/1)")]),
                "formatted.too_long",
            ),
        ],
    );
    let mut long = response;
    let content = "x".repeat(3_000);
    super::merge(
        &mut long,
        &split(&[
            part(1, &content[..1_594], "(1/2)"),
            part(2, &content[1_594..], "(2/2)"),
        ]),
    );
    super::merge(&mut long, &json!({ "content": content }));
    super::read::<FormattedResponse>(&long);
}
