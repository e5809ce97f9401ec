//! A request as an endpoint gets it: the caller and the app are known, the body has been read.

use std::str::FromStr;
use std::sync::Arc;

use bytes::Bytes;
use convoke::{Runtime, Viewer};
use convoke_model::{UserId, UserRole};
use http::{HeaderMap, HeaderName, StatusCode, header};
use serde::de::DeserializeOwned;
use uuid::Uuid;

use crate::access::Principal;
use crate::problem::Problem;
use crate::route::PathParameters;
use crate::service::Service;

/// A request.
pub(crate) struct Call {
    pub(crate) service: Service,
    /// The app of the path; that of the root where the path names none.
    pub(crate) app: Option<Arc<Runtime>>,
    pub(crate) principal: Principal,
    /// Whether an operator sees the things of all users here.
    pub(crate) operated: bool,
    pub(crate) parameters: PathParameters,
    /// The query as it was written.
    pub(crate) query: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Call {
    /// The user who calls, from the verified token.
    pub(crate) fn user(&self) -> UserId {
        self.principal.user
    }

    pub(crate) fn role(&self) -> UserRole {
        self.principal.role
    }

    /// Who looks: the user, or an operator where the endpoint is for operators, too.
    pub(crate) fn viewer(&self, runtime: &Runtime) -> Viewer {
        if self.operated && self.role() >= UserRole::Operator {
            runtime.operator_viewer()
        } else {
            runtime.viewer(self.user())
        }
    }

    /// The app that is asked.
    pub(crate) fn runtime(&self) -> Result<Arc<Runtime>, Problem> {
        self.app.clone().ok_or_else(|| {
            let detail = "several apps run here; name one as in `/apps/NAME/…`";
            Problem::not_found("service.app_missing", detail)
        })
    }

    /// The task of the path. An id that is none names no task.
    pub(crate) fn task(&self) -> Result<Uuid, Problem> {
        let text = self.parameters.get("task").unwrap_or_default();
        Uuid::parse_str(text).map_err(|_| unknown_task())
    }

    /// The conversation of the path. An id that is none names no conversation.
    pub(crate) fn conversation(&self) -> Result<Uuid, Problem> {
        let text = self.parameters.get("conversation").unwrap_or_default();
        Uuid::parse_str(text).map_err(|_| unknown_conversation())
    }

    /// The body as JSON.
    pub(crate) fn json<T: DeserializeOwned>(&self) -> Result<T, Problem> {
        let media_type = self.headers.get(header::CONTENT_TYPE);
        let media_type = media_type
            .and_then(|value| value.to_str().ok())
            .unwrap_or("");
        let essence = media_type.split(';').next().unwrap_or_default().trim();
        if !essence.eq_ignore_ascii_case("application/json") {
            let detail = "the body is JSON; say so with `Content-Type: application/json`";
            let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
            return Err(Problem::new(status, "request.media_type", detail));
        }
        serde_json::from_slice(&self.body).map_err(|error| {
            Problem::bad_request("request.body", format!("the body does not fit: {error}"))
        })
    }

    /// The values of a query parameter, in their order.
    pub(crate) fn query_values(&self, name: &str) -> Vec<String> {
        let pairs = form_urlencoded::parse(self.query.as_bytes());
        let values = pairs.filter(|(key, _)| key == name);
        values.map(|(_, value)| value.into_owned()).collect()
    }

    /// The only value of a query parameter.
    pub(crate) fn query_value<T: FromStr>(&self, name: &str) -> Result<Option<T>, Problem> {
        let values = self.query_values(name);
        let text = match values.as_slice() {
            [] => return Ok(None),
            [one] => one,
            _ => return Err(unusable_parameter(name, "it stands there more than once")),
        };
        let value = text.parse();
        value
            .map(Some)
            .map_err(|_| unusable_parameter(name, "its value cannot be read"))
    }

    /// The query parameter `limit`.
    pub(crate) fn limit(&self, default: usize, most: usize) -> Result<usize, Problem> {
        let limit = self.query_value("limit")?.unwrap_or(default);
        if (1..=most).contains(&limit) {
            return Ok(limit);
        }
        Err(unusable_parameter("limit", &format!("it is 1 to {most}")))
    }

    /// A header's value as text.
    pub(crate) fn header(&self, name: &HeaderName) -> Result<Option<&str>, Problem> {
        let text = self
            .headers
            .get(name)
            .map(http::HeaderValue::to_str)
            .transpose();
        text.map_err(|_| {
            let detail = format!("the header `{name}` has characters that are not ASCII");
            Problem::bad_request("request.header", detail)
        })
    }

    /// Whether the client asks for a stream of events.
    pub(crate) fn accepts_events(&self) -> bool {
        let accept = self
            .headers
            .get(header::ACCEPT)
            .and_then(|value| value.to_str().ok());
        accept.is_some_and(|accept| accept.contains("text/event-stream"))
    }
}

pub(crate) fn unknown_task() -> Problem {
    Problem::not_found("task.not_found", "there is no such task")
}

pub(crate) fn unknown_conversation() -> Problem {
    Problem::not_found("conversation.not_found", "there is no such conversation")
}

fn unusable_parameter(name: &str, why: &str) -> Problem {
    Problem::bad_request(
        "request.query",
        format!("the query parameter `{name}` is unusable: {why}"),
    )
}
