//! The three transports, and the tracking of sent requests that they share.

mod body;
mod child_end;
mod http;
mod sse;
mod stdio;
mod tls;
mod tracked;
pub(crate) mod wire;

use std::collections::HashMap;

use ::http::{HeaderName, HeaderValue};
use convoke_model::UrlConfig;
use rmcp::model::{ClientJsonRpcMessage, GetMeta, JsonRpcMessage};

pub(crate) use child_end::WatchedChild;
pub(crate) use http::open as open_http;
pub(crate) use sse::SseTransport;
pub(crate) use stdio::StdioTransport;
pub(crate) use tls::http_client;
pub(crate) use tracked::{DeliveryMark, PeerEnd, SendFailure, TrackedTransport};
pub(crate) use wire::{MessageLimits, TOO_LARGE};

/// The header that says to which span of a trace a request belongs.
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// The span that a message belongs to, as its `_meta` has it.
fn traceparent(message: &ClientJsonRpcMessage) -> Option<&str> {
    let JsonRpcMessage::Request(request) = message else {
        return None;
    };
    request.request.get_meta().get_traceparent()
}

/// The headers that an app declares for a server.
fn headers(config: &UrlConfig) -> Result<HashMap<HeaderName, HeaderValue>, String> {
    config
        .headers
        .iter()
        .map(|(name, value)| {
            let parsed_name = HeaderName::try_from(name)
                .map_err(|_| format!("`{name}` is not a valid header name"))?;
            // The value may be a secret and is never quoted.
            let mut parsed_value = HeaderValue::try_from(value)
                .map_err(|_| format!("the value of the header `{name}` cannot be sent"))?;
            parsed_value.set_sensitive(true);
            Ok((parsed_name, parsed_value))
        })
        .collect()
}
