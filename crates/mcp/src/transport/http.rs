//! Streamable HTTP: the protocol library's transport, with a client that limits what it reads and
//! corrects two deviations of servers.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use convoke_model::UrlConfig;
use futures::stream::BoxStream;
use futures::{StreamExt, future};
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderName, HeaderValue, StatusCode};
use reqwest::Response;
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, ErrorCode, ErrorData, JsonRpcMessage, RequestId,
    ServerJsonRpcMessage,
};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::common::client_side_sse::SseRetryPolicy;
use rmcp::transport::common::http_header::{
    EVENT_STREAM_MIME_TYPE, HEADER_SESSION_ID, JSON_MIME_TYPE,
};
use rmcp::transport::streamable_http_client::{
    HttpStatusError, SseError, StreamableHttpClient, StreamableHttpClientTransportConfig,
    StreamableHttpError, StreamableHttpPostResponse,
};

use super::body::{self, BodyError};
use super::tracked::{DeliveryError, EndReason, SendOutcome, with_causes};
use super::wire::{self, MessageLimits};
use crate::options::Options;

/// Limit of an unexpected answer quoted in an error, in characters.
const MAX_QUOTED: usize = 300;

/// Limit of an error response's body, in bytes.
const MAX_ERROR_BYTES: usize = 64 * 1024;

/// Headers that the protocol sets, which apps must not declare.
const RESERVED: [&str; 3] = ["accept", "mcp-session-id", "last-event-id"];

/// Error code for an unknown session in servers derived from the TypeScript examples.
const UNKNOWN_SESSION: ErrorCode = ErrorCode(-32000);

/// The transport of one streamable HTTP server.
pub(crate) fn open(
    client: reqwest::Client,
    config: &UrlConfig,
    options: &Options,
) -> Result<StreamableHttpClientTransport<BoundedClient>, String> {
    let mut settings = StreamableHttpClientTransportConfig::with_uri(config.url.as_str())
        .custom_headers(super::headers(config)?)
        .max_concurrent_requests(options.max_concurrent_posts);
    settings.retry_config = Arc::new(ResumePolicy(options.clone()));
    let client = BoundedClient {
        client,
        limits: MessageLimits::of(options),
    };
    Ok(StreamableHttpClientTransport::with_client(client, settings))
}

/// How often a broken event stream is resumed, if the server supports it. A caller whose answer was lost
/// gets its error afterwards.
#[derive(Debug)]
struct ResumePolicy(Options);

impl SseRetryPolicy for ResumePolicy {
    fn retry(&self, retries: usize) -> Option<Duration> {
        let retries = u32::try_from(retries).unwrap_or(u32::MAX);
        (retries < self.0.connect_attempts).then(|| self.0.pause_after(retries.saturating_add(1)))
    }
}

impl EndReason for StreamableHttpClientTransport<BoundedClient> {}

type HttpError = StreamableHttpError<reqwest::Error>;

/// A client that associates every answer with a request and limits what it reads.
#[derive(Clone)]
pub(crate) struct BoundedClient {
    client: reqwest::Client,
    limits: MessageLimits,
}

impl StreamableHttpClient for BoundedClient {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, HttpError> {
        let mut request = self.client.post(uri.as_ref()).header(
            ACCEPT,
            format!("{EVENT_STREAM_MIME_TYPE}, {JSON_MIME_TYPE}"),
        );
        if let Some(token) = auth_header {
            request = request.bearer_auth(token);
        }
        for (name, value) in custom_headers {
            if RESERVED.contains(&name.as_str()) {
                return Err(StreamableHttpError::ReservedHeaderConflict(
                    name.to_string(),
                ));
            }
            request = request.header(name, value);
        }
        let in_session = session_id.is_some();
        if let Some(session) = session_id {
            request = request.header(HEADER_SESSION_ID, session.as_ref());
        }
        let response = request.json(&message).send().await?;
        let post = Post {
            request_id: request_id(&message),
            is_discovery: is_discovery(&message),
            in_session,
            limits: self.limits,
        };
        let answer = if response.status().is_success() {
            post.answer(response).await?
        } else {
            post.failure(response).await?
        };
        assign_to_request(answer, post.request_id, in_session)
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), HttpError> {
        self.client
            .delete_session(uri, session_id, auth_header, custom_headers)
            .await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<sse_stream::Sse, SseError>>, HttpError> {
        let limits = self.limits;
        let events = self
            .client
            .get_stream_with_max_sse_event_size(
                uri,
                session_id,
                last_event_id,
                auth_header,
                custom_headers,
                limits.bytes,
            )
            .await?;
        let within_limits_or_error =
            move |event| future::ready(body::within_limits_or_error(event, &limits, None));
        Ok(events.filter_map(within_limits_or_error).boxed())
    }
}

/// A posted message, and how to read its response.
struct Post {
    /// The request id, if the message is a request.
    request_id: Option<RequestId>,
    /// Whether it is the first request of the newest protocol, which older servers reject.
    is_discovery: bool,
    in_session: bool,
    limits: MessageLimits,
}

impl Post {
    async fn answer(&self, response: Response) -> Result<StreamableHttpPostResponse, HttpError> {
        let no_answer = matches!(
            response.status(),
            StatusCode::ACCEPTED | StatusCode::NO_CONTENT
        );
        let is_empty = self.request_id.is_none() && response.content_length() == Some(0);
        if no_answer || is_empty {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        let session = session_of(&response);
        match kind_of(&response) {
            Kind::Events => {
                let events = body::events(response, self.limits, self.request_id.clone());
                Ok(StreamableHttpPostResponse::Sse(events, session))
            }
            Kind::Json => {
                let message = match body::whole(response, self.limits.bytes).await {
                    Ok(body) => self.message(&body)?,
                    Err(BodyError::TooLarge) => self.too_large(self.limits.too_many_bytes()),
                    Err(BodyError::Broken(error)) => return Err(error.into()),
                };
                Ok(
                    message.map_or(StreamableHttpPostResponse::Accepted, |message| {
                        StreamableHttpPostResponse::Json(message, session)
                    }),
                )
            }
            Kind::Other(kind) => Err(StreamableHttpError::UnexpectedContentType(kind)),
        }
    }

    /// The message in a body. Required only for requests.
    fn message(&self, body: &[u8]) -> Result<Option<ServerJsonRpcMessage>, HttpError> {
        if !self.limits.allow_values_of(body) {
            return Ok(self.too_large(self.limits.too_many_values()));
        }
        match serde_json::from_slice(body) {
            Ok(message) => Ok(Some(message)),
            Err(_) if self.request_id.is_none() => Ok(None),
            Err(problem) => Err(StreamableHttpError::Deserialize(problem)),
        }
    }

    fn too_large(&self, message: String) -> Option<ServerJsonRpcMessage> {
        let id = self.request_id.clone()?;
        Some(wire::too_large(id, message))
    }

    /// The error of an unsuccessful status, with the start of the body.
    async fn failure(&self, response: Response) -> Result<StreamableHttpPostResponse, HttpError> {
        let status = response.status();
        if status == StatusCode::NOT_FOUND && self.in_session {
            return Err(StreamableHttpError::SessionExpired);
        }
        let refused = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
        let passing = status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS;
        let is_json = matches!(kind_of(&response), Kind::Json);
        let session = session_of(&response);
        // If the body cannot be read, the status is enough.
        let body = if status == StatusCode::TOO_MANY_REQUESTS || (passing && !is_json) {
            Vec::new()
        } else {
            let limit = MAX_ERROR_BYTES.min(self.limits.bytes);
            body::whole(response, limit).await.unwrap_or_default()
        };
        let error = match serde_json::from_slice(&body) {
            Ok(ServerJsonRpcMessage::Error(error)) if self.limits.allow_values_of(&body) => {
                Some(error)
            }
            _ => None,
        };
        if self.is_discovery
            && status.is_client_error()
            && !refused
            && !self.in_session
            && let Some(id) = &self.request_id
        {
            let error = error.map_or_else(
                || ErrorData::invalid_request(format!("HTTP {status}"), None),
                |error| error.error,
            );
            let message = ServerJsonRpcMessage::error(error, Some(id.clone()));
            return Ok(StreamableHttpPostResponse::Json(message, None));
        }
        match error {
            Some(error) if is_json && !refused => Ok(StreamableHttpPostResponse::Json(
                ServerJsonRpcMessage::Error(error),
                session,
            )),
            _ if passing => Err(HttpStatusError::new(status.as_u16(), None).into()),
            _ => {
                let message = String::from_utf8_lossy(&body);
                let message: String = message.chars().take(MAX_QUOTED).collect();
                let message = format!("HTTP {status}: {message}");
                Err(StreamableHttpError::UnexpectedServerResponse(
                    message.into(),
                ))
            }
        }
    }
}

/// The kind of a response body.
enum Kind {
    Json,
    Events,
    Other(Option<String>),
}

fn kind_of(response: &Response) -> Kind {
    let kind = response.headers().get(CONTENT_TYPE);
    let kind = kind.map(|kind| String::from_utf8_lossy(kind.as_bytes()).into_owned());
    match kind {
        Some(kind) if kind.starts_with(EVENT_STREAM_MIME_TYPE) => Kind::Events,
        Some(kind) if kind.starts_with(JSON_MIME_TYPE) => Kind::Json,
        other => Kind::Other(other),
    }
}

fn session_of(response: &Response) -> Option<String> {
    let session = response.headers().get(HEADER_SESSION_ID)?;
    session.to_str().ok().map(str::to_owned)
}

fn is_discovery(message: &ClientJsonRpcMessage) -> bool {
    matches!(
        message,
        JsonRpcMessage::Request(request)
            if matches!(request.request, ClientRequest::DiscoverRequest(_))
    )
}

fn request_id(message: &ClientJsonRpcMessage) -> Option<RequestId> {
    match message {
        JsonRpcMessage::Request(request) => Some(request.id.clone()),
        _ => None,
    }
}

/// An error without an id in the response to a request's own POST belongs to that request; the protocol
/// library would leave the caller waiting. If it means that the session is unknown, as after a restart
/// of the server, nothing was run and a new session may be opened.
fn assign_to_request(
    response: StreamableHttpPostResponse,
    request_id: Option<RequestId>,
    in_session: bool,
) -> Result<StreamableHttpPostResponse, HttpError> {
    match (response, request_id) {
        (
            StreamableHttpPostResponse::Json(ServerJsonRpcMessage::Error(mut error), session),
            Some(id),
        ) if error.id.is_none() => {
            if in_session && error.error.code == UNKNOWN_SESSION {
                return Err(StreamableHttpError::SessionExpired);
            }
            error.id = Some(id);
            Ok(StreamableHttpPostResponse::Json(
                ServerJsonRpcMessage::Error(error),
                session,
            ))
        }
        (response, _) => Ok(response),
    }
}

impl DeliveryError for HttpError {
    fn outcome(&self) -> SendOutcome {
        match self {
            Self::Client(error) => outcome_of(error),
            Self::HttpStatus(error) if error.status == 429 => SendOutcome::RejectedUnread,
            Self::AuthRequired(_)
            | Self::InsufficientScope(_)
            | Self::ReservedHeaderConflict(_) => SendOutcome::RejectedUnread,
            // Other client errors are reported only as text.
            Self::UnexpectedServerResponse(message) if message.starts_with("HTTP 4") => {
                SendOutcome::RejectedUnread
            }
            Self::SessionExpired | Self::ReinitializationFailed(_) => SendOutcome::NeverLeft,
            Self::HttpStatus(_)
            | Self::UnexpectedServerResponse(_)
            | Self::UnexpectedContentType(_)
            | Self::Deserialize(_) => SendOutcome::FailedAfterReading,
            _ => SendOutcome::Broken,
        }
    }

    fn message(&self) -> String {
        match self {
            Self::Client(error) => without_address(error),
            other => other.to_string().chars().take(MAX_QUOTED).collect(),
        }
    }
}

/// What happened to a request that failed.
pub(super) fn outcome_of(error: &reqwest::Error) -> SendOutcome {
    if error.is_connect() || error.is_builder() {
        SendOutcome::NeverLeft
    } else {
        SendOutcome::Broken
    }
}

/// The error of a request, without its address, which may contain a secret.
pub(super) fn without_address(error: &reqwest::Error) -> String {
    let kind = if error.is_connect() {
        "no connection"
    } else if error.is_timeout() {
        "no answer in time"
    } else {
        "the request failed"
    };
    with_causes(kind.to_owned(), std::error::Error::source(error))
}
