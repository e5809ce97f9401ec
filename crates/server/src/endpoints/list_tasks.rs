//! Tasks, newest first.

use convoke::{DEFAULT_TASKS_PER_PAGE, MAX_TASKS_PER_PAGE, PageCursor, TaskPage, TaskQuery};
use convoke_model::{TaskState, UserId};
use futures::FutureExt;
use http::Method;
use serde_json::Value;
use uuid::Uuid;

use super::{limit, query, schema_of};
use crate::call::Call;
use crate::problem::Problem;
use crate::reply::Reply;
use crate::resources::TaskList;
use crate::route::{Answers, QueryParameter, Route};

/// The parameters of a list of tasks.
pub(super) const FILTERS: &[QueryParameter] = &[
    query::<TaskState>("state", "In this state. May stand there several times"),
    query::<UserId>("user", "Of this user, for operators"),
    query::<Uuid>("conversation", "Of this conversation"),
    query::<Uuid>("parent", "Parts of this task"),
    query::<String>("tag", "With this tag"),
    limit::<MAX_TASKS_PER_PAGE>("Tasks per page; 50 by default"),
    query::<String>("cursor", "`next` of the page before"),
];

pub(super) const ROUTE: Route = Route {
    method: &Method::GET,
    path: "/api/v1/tasks",
    name: "list_tasks",
    summary: "The user's tasks, newest first; for an operator, those of all users of the app",
    operated: true,
    query: FILTERS,
    answers: &[(200, Answers::Json(schema_of::<TaskList>))],
    handler: |call| list(call).boxed(),
    ..Route::OF_USERS
};

async fn list(call: Call) -> Result<Reply, Problem> {
    let runtime = call.runtime()?;
    let viewer = call.viewer(&runtime);
    Ok(reply(runtime.tasks(viewer, query_of(&call)?).await?))
}

/// The tasks that a request asks for.
pub(super) fn query_of(call: &Call) -> Result<TaskQuery, Problem> {
    let mut tasks = TaskQuery::new();
    for state in call.query_values("state") {
        let state: TaskState = serde_json::from_value(Value::String(state))
            .map_err(|_| Problem::bad_request("request.query", "there is no such `state`"))?;
        tasks = tasks.state(state);
    }
    if let Some(user) = call.query_value::<UserId>("user")? {
        tasks = tasks.user(user);
    }
    if let Some(conversation) = call.query_value::<Uuid>("conversation")? {
        tasks = tasks.conversation(conversation);
    }
    if let Some(parent) = call.query_value::<Uuid>("parent")? {
        tasks = tasks.parent(parent);
    }
    if let Some(tag) = call.query_value::<String>("tag")? {
        tasks = tasks.tag(tag);
    }
    tasks = tasks.limit(call.limit(DEFAULT_TASKS_PER_PAGE, MAX_TASKS_PER_PAGE)?);
    if let Some(cursor) = call.query_value::<PageCursor>("cursor")? {
        tasks = tasks.after(cursor);
    }
    Ok(tasks)
}

pub(super) fn reply(page: TaskPage) -> Reply {
    Reply::json(&TaskList {
        tasks: page.tasks.into_iter().map(Into::into).collect(),
        next: page.next.map(|next| next.to_string()),
    })
}
