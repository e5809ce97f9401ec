//! Cancels the tasks that a filter means.

use convoke::{MAX_TASKS_PER_PAGE, TaskQuery};
use convoke_model::{TaskState, UserId};
use futures::FutureExt;
use http::Method;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::schema_of;
use crate::call::Call;
use crate::problem::Problem;
use crate::reply::Reply;
use crate::route::{Answers, Route};

pub(super) const ROUTE: Route = Route {
    method: &Method::POST,
    path: "/api/v1/tasks/cancel",
    name: "cancel_tasks",
    summary: "Cancel the unfinished tasks that a filter means, the newest first",
    operated: true,
    audited: true,
    request: Some(schema_of::<Cancellation>),
    answers: &[(200, Answers::Json(schema_of::<Canceled>))],
    handler: |call| cancel(call).boxed(),
    ..Route::OF_USERS
};

/// Which tasks are cancelled, and why. Every part that is there must match; without any, `all` must be true.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Cancellation {
    /// In one of these states.
    #[serde(default)]
    state: Vec<TaskState>,
    /// Of this user, for operators.
    #[serde(default)]
    user: Option<UserId>,
    /// Of this conversation.
    #[serde(default)]
    conversation: Option<Uuid>,
    /// Parts of this task.
    #[serde(default)]
    parent: Option<Uuid>,
    /// With this tag.
    #[serde(default)]
    tag: Option<String>,
    /// All tasks that the caller sees, where nothing else is named.
    #[serde(default)]
    all: bool,
    #[serde(default)]
    reason: Option<String>,
}

/// What was cancelled.
#[derive(Debug, Serialize, JsonSchema)]
struct Canceled {
    tasks: Vec<Uuid>,
    /// Whether there may be more; the same request goes on with them.
    more: bool,
}

async fn cancel(call: Call) -> Result<Reply, Problem> {
    let runtime = call.runtime()?;
    let wanted: Cancellation = call.json()?;
    let mut query = wanted
        .state
        .into_iter()
        .fold(TaskQuery::new(), TaskQuery::state);
    if let Some(user) = wanted.user {
        query = query.user(user);
    }
    if let Some(conversation) = wanted.conversation {
        query = query.conversation(conversation);
    }
    if let Some(parent) = wanted.parent {
        query = query.parent(parent);
    }
    if let Some(tag) = wanted.tag {
        query = query.tag(tag);
    }
    if query.is_unfiltered() != wanted.all {
        let detail = "name the tasks by a filter, or all of them by `\"all\": true`, not both";
        return Err(Problem::bad_request("cancel.unfiltered", detail));
    }
    let query = query.limit(MAX_TASKS_PER_PAGE);
    let viewer = call.viewer(&runtime);
    let canceled = runtime
        .cancel_all(viewer, query, wanted.reason.as_deref())
        .await?;
    Ok(Reply::json(&Canceled {
        tasks: canceled.tasks,
        more: canceled.more,
    }))
}
