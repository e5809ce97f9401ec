//! The tasks of all apps and all users, for administrators.

use convoke::Viewer;
use convoke_model::UserRole;
use futures::FutureExt;
use http::Method;

use super::{list_tasks, schema_of};
use crate::call::Call;
use crate::problem::Problem;
use crate::reply::Reply;
use crate::resources::TaskList;
use crate::route::{Access, Answers, Route, Scope};

pub(super) const ROUTE: Route = Route {
    method: &Method::GET,
    path: "/api/v1/all/tasks",
    scope: Scope::Service,
    access: Access::Role(UserRole::Admin),
    name: "all_tasks",
    summary: "The tasks of all apps and all users, newest first",
    query: list_tasks::FILTERS,
    answers: &[(200, Answers::Json(schema_of::<TaskList>))],
    handler: |call| list(call).boxed(),
    ..Route::OF_USERS
};

async fn list(call: Call) -> Result<Reply, Problem> {
    let query = list_tasks::query_of(&call)?;
    // All apps share one store.
    let runtimes = call.service.registry().apps();
    let runtime = runtimes.first().ok_or_else(Problem::unknown_app)?;
    let page = runtime.tasks(Viewer::System, query).await?;
    Ok(list_tasks::reply(page))
}
