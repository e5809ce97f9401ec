//! Whether the process lives, and whether it takes work.

use futures::FutureExt;
use http::{Method, StatusCode};

use super::schema_of;
use crate::call::Call;
use crate::problem::Problem;
use crate::reply::Reply;
use crate::resources::Health;
use crate::route::{Access, Answers, Route, Scope};

pub(super) const LIVE: Route = Route {
    method: &Method::GET,
    path: "/healthz",
    scope: Scope::Service,
    access: Access::Public,
    name: "live",
    summary: "Whether the process answers",
    answers: &[(200, Answers::Json(schema_of::<Health>))],
    handler: |_| async { Ok(Reply::json(&health("ok"))) }.boxed(),
    ..Route::OF_USERS
};

pub(super) const READY: Route = Route {
    path: "/readyz",
    name: "ready",
    summary: "Whether the service takes work: its store can be read, and it is not stopping",
    answers: &[
        (200, Answers::Json(schema_of::<Health>)),
        (503, Answers::Json(schema_of::<Health>)),
    ],
    handler: |call| ready(call).boxed(),
    ..LIVE
};

async fn ready(call: Call) -> Result<Reply, Problem> {
    let unready = |why: &str| Ok(Reply::json(&health(why)).status(StatusCode::SERVICE_UNAVAILABLE));
    if call.service.stopping().is_cancelled() {
        return unready("stopping");
    }
    for runtime in call.service.registry().apps() {
        if let Err(error) = runtime.store().now().await {
            tracing::warn!(%error, "the service is not ready");
            return unready(error.code());
        }
    }
    Ok(Reply::json(&health("ok")))
}

fn health(status: &str) -> Health {
    Health {
        status: status.into(),
    }
}
