//! The app of the path.

use convoke_model::UserRole;
use futures::FutureExt;
use http::Method;

use super::{list_apps, schema_of};
use crate::reply::Reply;
use crate::resources::AppResource;
use crate::route::{Access, Answers, Route, Scope};

pub(super) const ROUTE: Route = Route {
    method: &Method::GET,
    path: "/api/v1/app",
    scope: Scope::App,
    access: Access::Role(UserRole::User),
    name: "get_app",
    summary: "The app, its agents and what they can do",
    query: &[],
    request: None,
    answers: &[(200, Answers::Json(schema_of::<AppResource>))],
    handler: |call| {
        async move { Ok(Reply::json(&list_apps::resource(&call.runtime()?.app()))) }.boxed()
    },
};
