//! The app of the path.

use futures::FutureExt;
use http::Method;

use super::{list_apps, schema_of};
use crate::reply::Reply;
use crate::resources::AppResource;
use crate::route::{Answers, Route};

pub(super) const ROUTE: Route = Route {
    method: &Method::GET,
    path: "/api/v1/app",
    name: "get_app",
    summary: "The app, its agents and what they can do",
    answers: &[(200, Answers::Json(schema_of::<AppResource>))],
    handler: |call| {
        async move { Ok(Reply::json(&list_apps::resource(&call.runtime()?.app()))) }.boxed()
    },
    ..Route::OF_USERS
};
