//! The events of a task, from a position on, and live text between them. A client that was cut off continues with
//! `Last-Event-ID`, at any process over the same store, and gets exactly what it missed.

use std::time::Duration;

use convoke::{EventCursor, Runtime, TaskUpdate};
use futures::FutureExt;
use http::{HeaderName, Method, StatusCode};
use uuid::Uuid;

use super::query;
use crate::call::Call;
use crate::problem::Problem;
use crate::reply::Reply;
use crate::route::{Answers, Route};
use crate::sse;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

pub(super) const ROUTE: Route = Route {
    method: &Method::GET,
    path: "/api/v1/tasks/{task}/events",
    name: "task_events",
    summary: "What happened to a task after `Last-Event-ID`, and what happens from now on. `204` once there is nothing more",
    operated: true,
    query: &[query::<String>(
        "after",
        "The id of the last event that was received, for clients that cannot send `Last-Event-ID`",
    )],
    answers: &[(200, Answers::Events), (204, Answers::Nothing)],
    handler: |call| events(call).boxed(),
    ..Route::OF_USERS
};

async fn events(call: Call) -> Result<Reply, Problem> {
    let runtime = call.runtime()?;
    let task = call.task()?;
    let after = match call.header(&LAST_EVENT_ID)? {
        Some(text) if !text.is_empty() => Some(text.to_owned()),
        _ => call.query_value::<String>("after")?,
    };
    let after = match after {
        None => EventCursor::START,
        Some(text) => text.parse()?,
    };
    stream(&call, &runtime, task, after).await
}

/// The stream of a task.
pub(super) async fn stream(
    call: &Call,
    runtime: &Runtime,
    task: Uuid,
    after: EventCursor,
) -> Result<Reply, Problem> {
    let has_ended = runtime
        .task(call.viewer(runtime), task)
        .await?
        .info
        .state
        .is_final();
    let mut events = runtime.follow(call.viewer(runtime), task, after).await?;
    let mut first = Vec::new();
    if has_ended {
        // Resets may come first.
        while !first
            .iter()
            .any(|update| matches!(update, TaskUpdate::Event(_)))
        {
            match events.next().await {
                Some(update) => first.push(update?),
                // Tells a browser not to reconnect.
                None => return Ok(Reply::empty(StatusCode::NO_CONTENT)),
            }
        }
    }
    let keep_alive = Duration::from_secs(call.service.limits().keep_alive_seconds.into());
    Ok(Reply::events(sse::encode(first, events, keep_alive)))
}
