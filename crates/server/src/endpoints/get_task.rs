//! A task as it stands.

use futures::FutureExt;
use http::Method;

use super::schema_of;
use crate::reply::Reply;
use crate::resources::TaskResource;
use crate::route::{Answers, Route};

pub(super) const ROUTE: Route = Route {
    method: &Method::GET,
    path: "/api/v1/tasks/{task}",
    name: "get_task",
    summary: "A task as it stands, with its answer and open questions",
    operated: true,
    answers: &[(200, Answers::Json(schema_of::<TaskResource>))],
    handler: |call| {
        async move {
            let runtime = call.runtime()?;
            let viewer = call.viewer(&runtime);
            let view = runtime.task(viewer, call.task()?).await?;
            Ok(Reply::json(&TaskResource::from(view)))
        }
        .boxed()
    },
    ..Route::OF_USERS
};
