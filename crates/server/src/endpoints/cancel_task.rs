//! Cancels a task: it makes no further call.

use futures::FutureExt;
use http::{Method, StatusCode};

use super::{schema_of, submit_task};
use crate::call::Call;
use crate::problem::Problem;
use crate::reply::Reply;
use crate::resources::{Cancellation, TaskResource};
use crate::route::{Answers, Route};

pub(super) const ROUTE: Route = Route {
    method: &Method::POST,
    path: "/api/v1/tasks/{task}/cancel",
    name: "cancel_task",
    summary: "Cancel a task. It makes no further call",
    operated: true,
    audited: true,
    request: Some(schema_of::<Cancellation>),
    answers: &[(200, Answers::Json(schema_of::<TaskResource>))],
    handler: |call| cancel(call).boxed(),
    ..Route::OF_USERS
};

async fn cancel(call: Call) -> Result<Reply, Problem> {
    let runtime = call.runtime()?;
    let task = call.task()?;
    let cancellation: Cancellation = if call.body.is_empty() {
        Cancellation::default()
    } else {
        call.json()?
    };
    runtime
        .cancel(call.viewer(&runtime), task, cancellation.reason.as_deref())
        .await?;
    submit_task::standing(&call, &runtime, task, StatusCode::OK).await
}
