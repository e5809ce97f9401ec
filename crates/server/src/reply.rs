//! What an endpoint answers with, and how it becomes an HTTP response.

use std::convert::Infallible;

use bytes::Bytes;
use futures::{Stream, StreamExt};
use http::{HeaderName, HeaderValue, Response, StatusCode, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use serde::Serialize;

use crate::problem::Problem;

/// The body of a response.
pub(crate) type Body = UnsyncBoxBody<Bytes, Infallible>;

/// The answer of an endpoint.
pub(crate) struct Reply {
    status: StatusCode,
    media_type: &'static str,
    headers: Vec<(HeaderName, HeaderValue)>,
    body: Body,
}

impl Reply {
    /// A JSON document.
    pub(crate) fn json(value: &impl Serialize) -> Self {
        Self::bytes("application/json", to_json(value))
    }

    /// A document of a media type.
    pub(crate) fn bytes(media_type: &'static str, content: impl Into<Bytes>) -> Self {
        Self {
            status: StatusCode::OK,
            media_type,
            headers: Vec::new(),
            body: Full::new(content.into()).boxed_unsync(),
        }
    }

    /// A stream of server-sent events. Its items are made as fast as the client reads them.
    pub(crate) fn events(events: impl Stream<Item = Bytes> + Send + 'static) -> Self {
        Self {
            media_type: "text/event-stream",
            ..Self::stream(events)
        }
        .header(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"))
        // Proxies that buffer answers would hold events back.
        .header(
            HeaderName::from_static("x-accel-buffering"),
            HeaderValue::from_static("no"),
        )
    }

    /// A stream of bytes, made as fast as the client reads them.
    pub(crate) fn stream(content: impl Stream<Item = Bytes> + Send + 'static) -> Self {
        let frames = content.map(|content| Ok(Frame::data(content)));
        Self {
            body: StreamBody::new(frames).boxed_unsync(),
            ..Self::bytes("application/octet-stream", Bytes::new())
        }
    }

    /// Nothing but a status.
    pub(crate) fn empty(status: StatusCode) -> Self {
        Self {
            status,
            ..Self::bytes("", Bytes::new())
        }
    }

    pub(crate) fn status(mut self, status: StatusCode) -> Self {
        self.status = status;
        self
    }

    pub(crate) fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }

    /// Names the place of what was made.
    pub(crate) fn location(self, path: &str) -> Self {
        match HeaderValue::from_str(path) {
            Ok(value) => self.header(header::LOCATION, value),
            Err(_) => self,
        }
    }

    pub(crate) fn into_response(self) -> Response<Body> {
        let mut response = Response::new(self.body);
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        if !self.media_type.is_empty() {
            let value = HeaderValue::from_static(self.media_type);
            headers.insert(header::CONTENT_TYPE, value);
        }
        headers.extend(
            self.headers
                .into_iter()
                .map(|(name, value)| (Some(name), value)),
        );
        response
    }
}

impl From<Problem> for Reply {
    fn from(problem: Problem) -> Self {
        let (status, headers) = (problem.status(), problem.headers().to_vec());
        let content = to_json(&problem.details());
        Self {
            headers,
            ..Self::bytes("application/problem+json", content).status(status)
        }
    }
}

/// The types that are sent have text keys and finite numbers only, so that writing them cannot fail.
fn to_json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).unwrap_or_default()
}
