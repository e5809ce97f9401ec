//! The steps of a task, with times, tokens and errors.

use convoke_model::Trace;
use futures::FutureExt;
use http::Method;

use super::schema_of;
use crate::call::Call;
use crate::problem::Problem;
use crate::reply::Reply;
use crate::route::{Answers, Route};

pub(super) const ROUTE: Route = Route {
    method: &Method::GET,
    path: "/api/v1/tasks/{task}/trace",
    name: "task_trace",
    summary: "The steps of a task, with times, tokens and errors",
    operated: true,
    answers: &[(200, Answers::Json(schema_of::<Trace>))],
    handler: |call| read(call).boxed(),
    ..Route::OF_USERS
};

async fn read(call: Call) -> Result<Reply, Problem> {
    let runtime = call.runtime()?;
    let viewer = call.viewer(&runtime);
    let trace = runtime.trace(viewer, call.task()?).await?;
    Ok(Reply::json(&trace))
}
