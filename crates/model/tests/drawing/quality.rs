//! Generators for planning, checking and formatting.

use convoke_model::*;

use super::Draw;

pub(crate) fn execution_step(draw: &mut Draw) -> ExecutionStep {
    ExecutionStep {
        agent: draw.name(),
        action: draw.text(),
        parameters: draw.map(),
    }
}

pub(crate) fn plan_status(draw: &mut Draw) -> PlanStatus {
    use PlanStatus::{Completed, Created, Failed, InProgress};
    draw.pick(&[Created, InProgress, Completed, Failed])
}

pub(crate) fn execution_plan(draw: &mut Draw) -> ExecutionPlan {
    let steps = draw.some(execution_step);
    ExecutionPlan::new(ExecutionPlanFields {
        request_id: draw.id(),
        user_message: draw.text(),
        channel: draw.channel(),
        data_agents: if draw.flag() {
            vec![steps[0].agent.clone()]
        } else {
            Vec::new()
        },
        steps,
        context: draw.map(),
        status: plan_status(draw),
        created_at: draw.time(),
    })
    .unwrap()
}

pub(crate) fn criterion(draw: &mut Draw) -> Criterion {
    Criterion::new(CriterionFields {
        id: draw.text(),
        description: format!("looks at {}", draw.text()),
        expected: draw.text(),
        passed: draw.maybe(Draw::flag),
        feedback: draw.maybe(Draw::text),
    })
    .unwrap()
}

pub(crate) fn scorecard(draw: &mut Draw) -> Scorecard {
    let criteria: Vec<_> = draw
        .some(criterion)
        .into_iter()
        .enumerate()
        .map(|(index, criterion)| {
            criterion
                .with(|fields| fields.id = format!("c{index}"))
                .unwrap()
        })
        .collect();
    let at = draw.time();
    let later = draw.after(at);
    let scorecard = Scorecard::create(draw.id(), draw.id(), criteria, at).unwrap();
    // A scorecard with unjudged criteria cannot be evaluated.
    if draw.flag() {
        scorecard.clone().evaluate(later).unwrap_or(scorecard)
    } else {
        scorecard
    }
}

fn evaluated(draw: &mut Draw, passed: bool) -> Scorecard {
    let scorecard = scorecard(draw);
    let ids: Vec<_> = scorecard
        .criteria
        .iter()
        .map(|criterion| criterion.id.clone())
        .collect();
    let at = draw.after(scorecard.created_at);
    ids.iter()
        .try_fold(scorecard, |scorecard, id| {
            scorecard.judge(id, passed, draw.maybe(Draw::text))
        })
        .and_then(|scorecard| scorecard.evaluate(at))
        .unwrap()
}

pub(crate) fn validation_result(draw: &mut Draw) -> ValidationResult {
    let passed = draw.flag();
    ValidationResult::of(&evaluated(draw, passed)).unwrap()
}

pub(crate) fn refinement(draw: &mut Draw) -> Refinement {
    let scorecard = evaluated(draw, false);
    Refinement::of(&scorecard, draw.text(), draw.time()).unwrap()
}

pub(crate) fn validation_failure(draw: &mut Draw) -> ValidationFailure {
    let scorecard = evaluated(draw, false);
    let refinement_attempted = draw.flag();
    ValidationFailure::new(ValidationFailureFields {
        request_id: scorecard.request_id,
        original_question: draw.text(),
        validation_results: scorecard.criteria.clone(),
        scorecard,
        refinement_attempted,
        refinement_succeeded: if refinement_attempted {
            draw.maybe(Draw::flag)
        } else {
            None
        },
        final_outcome: draw.text(),
        failure_reason: draw.text(),
        logged_at: draw.time(),
    })
    .unwrap()
}

pub(crate) fn message_part(draw: &mut Draw) -> MessagePart {
    let shares = draw.some(Draw::text);
    MessagePart::number(shares).remove(0)
}

pub(crate) fn formatted_response(draw: &mut Draw) -> FormattedResponse {
    let channel = draw.channel();
    let shares = draw.list(Draw::text);
    FormattedResponse::new(FormattedResponseFields {
        request_id: draw.id(),
        channel,
        content: if shares.is_empty() {
            draw.text()
        } else {
            shares.concat()
        },
        is_split: !shares.is_empty(),
        parts: MessagePart::number(shares),
        card: if channel == Channel::Teams {
            draw.maybe(Draw::json)
        } else {
            None
        },
        metadata: draw.map(),
        formatted_at: draw.time(),
    })
    .unwrap()
}
