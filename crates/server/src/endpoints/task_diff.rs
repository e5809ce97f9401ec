//! What differs between two tasks, or between two points of one.

use convoke::Difference;
use futures::FutureExt;
use http::Method;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{query, schema_of};
use crate::call::Call;
use crate::problem::Problem;
use crate::reply::Reply;
use crate::route::{Answers, Route};

pub(super) const ROUTE: Route = Route {
    method: &Method::GET,
    path: "/api/v1/tasks/{task}/diff",
    name: "task_diff",
    summary: "Where the steps of two tasks part, and how their states differ",
    operated: true,
    query: &[
        query::<Uuid>("with", "The other task; the same one by default"),
        query::<u64>("at", "The entry of this task; the newest by default"),
        query::<u64>(
            "with_at",
            "The entry of the other task; the newest by default",
        ),
    ],
    answers: &[(200, Answers::Json(schema_of::<Diff>))],
    handler: |call| read(call).boxed(),
    ..Route::OF_USERS
};

/// What differs.
#[derive(Debug, Serialize, JsonSchema)]
struct Diff {
    /// The first steps that are not the same. `null` if they all are.
    parted: Option<Parting>,
    /// Where the states differ. Ids and times are left out.
    differences: Vec<StateDifference>,
}

/// The steps at which two tasks part. One that has no more steps has `null`.
#[derive(Debug, Serialize, JsonSchema)]
struct Parting {
    one: Value,
    other: Value,
}

/// A place at which two states differ.
#[derive(Debug, Serialize, JsonSchema)]
struct StateDifference {
    /// A JSON pointer.
    place: String,
    one: Value,
    other: Value,
}

async fn read(call: Call) -> Result<Reply, Problem> {
    let runtime = call.runtime()?;
    let viewer = call.viewer(&runtime);
    let task = call.task()?;
    let other = call.query_value("with")?.unwrap_or(task);
    let (at, with_at) = (call.query_value("at")?, call.query_value("with_at")?);
    let diff = runtime.diff(viewer, (task, at), (other, with_at)).await?;
    let step = |event| match event {
        None => Value::Null,
        Some(event) => json!(event),
    };
    let parted = diff.parted.map(|(one, other)| Parting {
        one: step(one),
        other: step(other),
    });
    let place = |Difference { place, one, other }| StateDifference { place, one, other };
    Ok(Reply::json(&Diff {
        parted,
        differences: diff.differences.into_iter().map(place).collect(),
    }))
}
