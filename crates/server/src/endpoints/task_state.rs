//! A task's state after an entry of its journal.

use futures::FutureExt;
use http::Method;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::{query, schema_of};
use crate::call::Call;
use crate::problem::Problem;
use crate::reply::Reply;
use crate::route::{Answers, Route};

pub(super) const ROUTE: Route = Route {
    method: &Method::GET,
    path: "/api/v1/tasks/{task}/state",
    name: "task_state",
    summary: "A task's state after an entry of its journal",
    operated: true,
    query: &[query::<u64>("at", "The entry; the newest by default")],
    answers: &[(200, Answers::Json(schema_of::<TaskPoint>))],
    handler: |call| read(call).boxed(),
    ..Route::OF_USERS
};

/// A task as it stood.
#[derive(Debug, Serialize, JsonSchema)]
struct TaskPoint {
    /// The entry.
    seq: u64,
    at: Timestamp,
    /// What happened.
    kind: String,
    /// Personal data is removed, as the app's `redaction` says.
    state: Value,
}

async fn read(call: Call) -> Result<Reply, Problem> {
    let runtime = call.runtime()?;
    let viewer = call.viewer(&runtime);
    let at = call.query_value("at")?;
    let point = runtime.state_at(viewer, call.task()?, at).await?;
    Ok(Reply::json(&TaskPoint {
        seq: point.seq,
        at: point.at,
        kind: point.kind,
        state: point.state,
    }))
}
