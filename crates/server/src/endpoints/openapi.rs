//! The OpenAPI document.

use futures::FutureExt;
use http::Method;
use serde_json::Value;

use super::schema_of;
use crate::reply::Reply;
use crate::route::{Answers, Route, Scope};

pub(super) const ROUTE: Route = Route {
    method: &Method::GET,
    path: "/openapi.json",
    scope: Scope::Service,
    name: "openapi",
    summary: "This document",
    answers: &[(200, Answers::Json(schema_of::<Value>))],
    handler: |call| {
        async move {
            Ok(Reply::json(&crate::openapi::openapi(
                call.service.requires_token(),
            )))
        }
        .boxed()
    },
    ..Route::OF_USERS
};
