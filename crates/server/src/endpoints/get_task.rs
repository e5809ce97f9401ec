//! A task as it stands.

use convoke_model::UserRole;
use futures::FutureExt;
use http::Method;

use super::schema_of;
use crate::reply::Reply;
use crate::resources::TaskResource;
use crate::route::{Access, Answers, Route, Scope};

pub(super) const ROUTE: Route = Route {
    method: &Method::GET,
    path: "/api/v1/tasks/{task}",
    scope: Scope::App,
    access: Access::Role(UserRole::User),
    name: "get_task",
    summary: "A task as it stands, with its answer and open questions",
    query: &[],
    request: None,
    answers: &[(200, Answers::Json(schema_of::<TaskResource>))],
    handler: |call| {
        async move {
            let view = call.runtime()?.task(call.user(), call.task()?).await?;
            Ok(Reply::json(&TaskResource::from(view)))
        }
        .boxed()
    },
};
