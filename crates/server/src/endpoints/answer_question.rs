//! Answers a question of a task. Of several answers to one question exactly one is taken.

use std::time::Duration;

use convoke::{Answerer, QuestionAnswer};
use futures::FutureExt;
use http::{Method, StatusCode};

use super::{schema_of, submit_task};
use crate::call::Call;
use crate::problem::Problem;
use crate::reply::Reply;
use crate::resources::{AnswerAction, NewAnswer, TaskResource};
use crate::route::{Answers, Route};

pub(super) const ROUTE: Route = Route {
    method: &Method::POST,
    path: "/api/v1/tasks/{task}/answer",
    name: "answer_question",
    summary: "Answer a question, and wait for what comes of it",
    operated: true,
    audited: true,
    request: Some(schema_of::<NewAnswer>),
    answers: &[
        (200, Answers::Json(schema_of::<TaskResource>)),
        (202, Answers::Json(schema_of::<TaskResource>)),
    ],
    handler: |call| answer(call).boxed(),
    ..Route::OF_USERS
};

async fn answer(call: Call) -> Result<Reply, Problem> {
    let runtime = call.runtime()?;
    let task = call.task()?;
    let given: NewAnswer = call.json()?;
    let question = given.question;
    let answer = read(given)?;
    let answerer = Answerer {
        user: call.user(),
        role: call.role(),
    };
    let limit = Duration::from_secs(call.service.limits().wait_seconds.into());
    let given = runtime
        .give_answer(answerer, task, question, answer)
        .await?;
    let status = match tokio::time::timeout(limit, runtime.wait_beyond(given)).await {
        Ok(outcome) => outcome.map(|_| StatusCode::OK)?,
        Err(_) => StatusCode::ACCEPTED,
    };
    submit_task::standing(&call, &runtime, task, status).await
}

fn read(given: NewAnswer) -> Result<QuestionAnswer, Problem> {
    let NewAnswer {
        action,
        message,
        value,
        pause_ms,
        question: _,
    } = given;
    let expected = match (action, &message, &value, pause_ms) {
        (AnswerAction::Approve | AnswerAction::Reject, _, None, None)
        | (AnswerAction::Modify, None, Some(_), None)
        | (AnswerAction::Snooze, None, None, Some(_)) => None,
        (AnswerAction::Approve | AnswerAction::Reject, ..) => Some("at most a `message`"),
        (AnswerAction::Modify, ..) => Some("a `value` and nothing else"),
        (AnswerAction::Snooze, ..) => Some("a `pause_ms` and nothing else"),
    };
    if let Some(expected) = expected {
        let detail = format!("this `action` takes {expected}");
        return Err(Problem::bad_request("answer.unusable", detail));
    }
    Ok(match action {
        AnswerAction::Approve => QuestionAnswer::Approve { message },
        AnswerAction::Reject => QuestionAnswer::Reject { message },
        AnswerAction::Modify => QuestionAnswer::Modify {
            value: value.unwrap_or_default(),
        },
        AnswerAction::Snooze => QuestionAnswer::Snooze {
            pause_ms: pause_ms.unwrap_or_default(),
        },
    })
}
