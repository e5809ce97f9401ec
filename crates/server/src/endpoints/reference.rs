//! A page that shows the OpenAPI document to people.

use futures::FutureExt;
use http::{HeaderName, HeaderValue, Method};

use crate::reply::Reply;
use crate::route::{Access, Answers, Route, Scope};

const PAGE: &str = include_str!("reference.html");

/// The page runs its own script and style, and reads from the service only.
const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'; \
                      frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

pub(super) const ROUTE: Route = Route {
    method: &Method::GET,
    path: "/docs",
    scope: Scope::Service,
    access: Access::Public,
    name: "reference",
    summary: "A page with all endpoints",
    answers: &[(200, Answers::Text("text/html"))],
    handler: |_| {
        async {
            let policy = HeaderName::from_static("content-security-policy");
            Ok(Reply::bytes("text/html; charset=utf-8", PAGE)
                .header(policy, HeaderValue::from_static(POLICY)))
        }
        .boxed()
    },
    ..Route::OF_USERS
};
