//! Begins a task where another one stood.

use convoke::{EventCursor, ForkPoint};
use futures::FutureExt;
use http::{Method, StatusCode};

use super::{schema_of, submit_task};
use crate::call::Call;
use crate::problem::Problem;
use crate::reply::Reply;
use crate::resources::{NewFork, TaskReference};
use crate::route::{Answers, Route};

pub(super) const ROUTE: Route = Route {
    method: &Method::POST,
    path: "/api/v1/tasks/{task}/fork",
    name: "fork_task",
    summary: "Begin a task where this one stood, with other values if wanted",
    audited: true,
    request: Some(schema_of::<NewFork>),
    answers: &[(201, Answers::Json(schema_of::<TaskReference>))],
    handler: |call| fork(call).boxed(),
    ..Route::OF_USERS
};

async fn fork(call: Call) -> Result<Reply, Problem> {
    let runtime = call.runtime()?;
    let task = call.task()?;
    let fork: NewFork = call.json()?;
    let at: EventCursor = fork.at.parse()?;
    let point = fork
        .set
        .into_iter()
        .fold(ForkPoint::at(at), |point, (field, value)| {
            point.set(field, value)
        });
    let id = runtime.fork(call.user(), task, point).await?;
    Ok(Reply::json(&TaskReference { id })
        .status(StatusCode::CREATED)
        .location(&submit_task::location(&runtime, id)))
}
