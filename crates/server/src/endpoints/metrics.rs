//! The metrics of this process, for a Prometheus server.

use convoke_model::UserRole;
use futures::FutureExt;
use http::Method;

use crate::call::Call;
use crate::metrics::MEDIA_TYPE;
use crate::problem::Problem;
use crate::reply::Reply;
use crate::route::{Access, Answers, Route, Scope};

pub(super) const ROUTE: Route = Route {
    method: &Method::GET,
    path: "/metrics",
    scope: Scope::Service,
    access: Access::Role(UserRole::Operator),
    name: "metrics",
    summary: "The metrics of this process, in Prometheus's text format",
    answers: &[(200, Answers::Text(MEDIA_TYPE))],
    handler: |call| async move { metrics(&call) }.boxed(),
    ..Route::OF_USERS
};

fn metrics(call: &Call) -> Result<Reply, Problem> {
    let Some(collector) = call.service.metrics() else {
        let detail = "the program that runs the service collects its metrics itself";
        return Err(Problem::not_found("service.metrics_elsewhere", detail));
    };
    Ok(Reply::bytes(MEDIA_TYPE, collector.to_text()))
}
