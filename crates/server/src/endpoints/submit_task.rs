//! Hands in a request. Once it is acknowledged, the task is in the store and will be carried out, whatever becomes of the
//! connection.

use std::time::Duration;

use convoke::{EventCursor, IncomingRequest, Runtime};
use convoke_model::{Channel, UserId, UserRole};
use futures::FutureExt;
use http::{HeaderName, Method, StatusCode};
use uuid::Uuid;

use super::{schema_of, task_events};
use crate::call::Call;
use crate::problem::Problem;
use crate::reply::Reply;
use crate::resources::{NewTask, SubmitMode, TaskResource};
use crate::route::{Access, Answers, Route, Scope};

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const TRACE_PARENT: HeaderName = HeaderName::from_static("traceparent");

pub(super) const ROUTE: Route = Route {
    method: &Method::POST,
    path: "/api/v1/tasks",
    scope: Scope::App,
    access: Access::Role(UserRole::User),
    name: "submit_task",
    summary: "Submit a request. The same `Idempotency-Key` gives the same task",
    query: &[],
    request: Some(schema_of::<NewTask>),
    answers: &[
        (201, Answers::Json(schema_of::<TaskResource>)),
        (202, Answers::Json(schema_of::<TaskResource>)),
        (200, Answers::Events),
    ],
    handler: |call| submit(call).boxed(),
};

async fn submit(call: Call) -> Result<Reply, Problem> {
    let runtime = call.runtime()?;
    let task: NewTask = call.json()?;
    let mode = match task.mode {
        SubmitMode::Wait if call.accepts_events() => SubmitMode::Stream,
        mode => mode,
    };
    let mut request = IncomingRequest::new(call.user(), task.message)
        .channel(Channel::Http)
        .tags(task.tags)
        .keep_days(task.keep_days)
        .not_before(task.delay_ms.map(Duration::from_millis))
        .trace(call.header(&TRACE_PARENT)?.map(str::to_owned));
    if let Some(conversation) = task.conversation {
        request = request.conversation(conversation);
    }
    if let Some(key) = call.header(&IDEMPOTENCY_KEY)? {
        request = request.key(key);
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

/// Waits until the task has ended or asks a person, within the limit. `202` if it still goes on.
async fn wait(call: &Call, runtime: &Runtime, task: Uuid) -> Result<StatusCode, Problem> {
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
    let resource = TaskResource::from(runtime.task(call.user(), task).await?);
    Ok(Reply::json(&resource)
        .status(status)
        .location(&location(runtime, task)))
}

/// The path of a task.
pub(super) fn location(runtime: &Runtime, task: Uuid) -> String {
    format!("/apps/{}/api/v1/tasks/{task}", runtime.app().config.name)
}
