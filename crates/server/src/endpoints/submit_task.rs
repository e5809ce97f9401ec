//! Hands in a request. Once it is acknowledged, the task is in the store and will be carried out, whatever becomes of the
//! connection.

use std::time::Duration;

use convoke::{EventCursor, IncomingRequest, Runtime};
use convoke_model::{Channel, UserId};
use futures::FutureExt;
use http::{HeaderName, Method, StatusCode};
use uuid::Uuid;

use super::{schema_of, task_events};
use crate::call::Call;
use crate::problem::Problem;
use crate::reply::Reply;
use crate::resources::{NewTask, SubmitMode, TaskResource};
use crate::route::{Answers, Route};

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const TRACE_PARENT: HeaderName = HeaderName::from_static("traceparent");

pub(super) const ROUTE: Route = Route {
    method: &Method::POST,
    path: "/api/v1/tasks",
    name: "submit_task",
    summary: "Submit a request. The same `Idempotency-Key` gives the same task",
    request: Some(schema_of::<NewTask>),
    answers: &[
        (201, Answers::Json(schema_of::<TaskResource>)),
        (202, Answers::Json(schema_of::<TaskResource>)),
        (200, Answers::Events),
    ],
    handler: |call| submit(call).boxed(),
    ..Route::OF_USERS
};

async fn submit(call: Call) -> Result<Reply, Problem> {
    let runtime = call.runtime()?;
    let task: NewTask = call.json()?;
    let mode = match task.mode {
        SubmitMode::Wait if call.accepts_events() => SubmitMode::Stream,
        mode => mode,
    };
    let delay = match (task.delay_ms, task.not_before) {
        (Some(_), Some(_)) => {
            let detail = "a task has `delay_ms` or `not_before`, not both";
            return Err(Problem::bad_request("request.delay", detail));
        }
        (delay, None) => delay.map(Duration::from_millis),
        (None, Some(at)) => {
            let until = at.duration_since(runtime.clock().now());
            // A time that is over delays nothing.
            Duration::try_from(until).ok()
        }
    };
    let mut request = incoming(&call, task.message)?
        .tags(task.tags)
        .keep_days(task.keep_days)
        .while_busy(task.while_busy)
        .not_before(delay);
    if let Some(conversation) = task.conversation {
        request = request.conversation(conversation);
    }
    let id = runtime.submit(request).await?;
    match mode {
        SubmitMode::Background => standing(&call, &runtime, id, StatusCode::ACCEPTED).await,
        SubmitMode::Wait => {
            let status = wait(&call, &runtime, id).await?;
            standing(&call, &runtime, id, status).await
        }
        SubmitMode::Stream => {
            let reply = task_events::stream(&call, &runtime, id, EventCursor::START).await?;
            Ok(reply.location(&location(&runtime, id)))
        }
    }
}

/// A message of the caller, with what its headers say of it.
pub(super) fn incoming(call: &Call, message: String) -> Result<IncomingRequest, Problem> {
    let request = IncomingRequest::new(call.user(), message)
        .channel(Channel::Http)
        .trace(call.header(&TRACE_PARENT)?.map(str::to_owned));
    Ok(match call.header(&IDEMPOTENCY_KEY)? {
        Some(key) => request.key(key),
        None => request,
    })
}

/// Waits until the task has ended or asks a person, within the limit. `202` if it still goes on.
pub(super) async fn wait(
    call: &Call,
    runtime: &Runtime,
    task: Uuid,
) -> Result<StatusCode, Problem> {
    let user: UserId = call.user();
    let limit = Duration::from_secs(call.service.limits().wait_seconds.into());
    match tokio::time::timeout(limit, runtime.wait(user, task)).await {
        Ok(outcome) => outcome.map(|_| StatusCode::CREATED).map_err(Into::into),
        Err(_) => Ok(StatusCode::ACCEPTED),
    }
}

/// The task as it stands.
pub(super) async fn standing(
    call: &Call,
    runtime: &Runtime,
    task: Uuid,
    status: StatusCode,
) -> Result<Reply, Problem> {
    let resource = TaskResource::from(runtime.task(call.viewer(runtime), task).await?);
    Ok(Reply::json(&resource)
        .status(status)
        .location(&location(runtime, task)))
}

/// The path of a task.
pub(super) fn location(runtime: &Runtime, task: Uuid) -> String {
    format!("/apps/{}/api/v1/tasks/{task}", runtime.app().config.name)
}
