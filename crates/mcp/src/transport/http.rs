//! Streamable HTTP: the protocol layer's own transport over a client that corrects two habits of
//! servers.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use convoke_model::UrlConfig;
use futures::stream::BoxStream;
use http::{HeaderName, HeaderValue};
use rmcp::model::{
    ClientJsonRpcMessage, ErrorCode, JsonRpcMessage, RequestId, ServerJsonRpcMessage,
};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::common::client_side_sse::SseRetryPolicy;
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpClientTransportConfig, StreamableHttpError,
    StreamableHttpPostResponse,
};

use super::tracked::{Arrival, Fate, with_causes};
use crate::backoff;
use crate::options::Options;

/// How much of a server's unexpected answer an error repeats, in characters.
const MAX_QUOTED: usize = 300;

/// The code that servers made after the TypeScript examples answer an unknown session with.
const UNKNOWN_SESSION: ErrorCode = ErrorCode(-32000);

/// The transport of one streamable HTTP server.
pub(crate) fn open(
    client: reqwest::Client,
    config: &UrlConfig,
    options: &Options,
) -> Result<StreamableHttpClientTransport<Corrected>, String> {
    let mut settings = StreamableHttpClientTransportConfig::with_uri(config.url.as_str())
        .custom_headers(super::headers(config)?)
        .max_concurrent_requests(options.max_concurrent_posts)
        .max_sse_event_size(options.max_message_bytes);
    settings.retry_config = Arc::new(Resuming(options.clone()));
    Ok(StreamableHttpClientTransport::with_client(
        Corrected(client),
        settings,
    ))
}

/// How often a broken event stream is taken up where it ended, as servers may offer. A caller
/// whose answer was to come over it learns afterwards that it is lost.
#[derive(Debug)]
struct Resuming(Options);

impl SseRetryPolicy for Resuming {
    fn retry(&self, retries: usize) -> Option<Duration> {
        let retries = u32::try_from(retries).unwrap_or(u32::MAX);
        (retries < self.0.connect_attempts)
            .then(|| backoff::pause(&self.0, retries.saturating_add(1)))
    }
}

type HttpError = StreamableHttpError<reqwest::Error>;

/// A client whose answers always belong to a request.
#[derive(Clone)]
pub(crate) struct Corrected(reqwest::Client);

impl StreamableHttpClient for Corrected {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, HttpError> {
        let asked = asked(&message);
        let in_session = session_id.is_some();
        let response = self
            .0
            .post_message(uri, message, session_id, auth_header, custom_headers)
            .await?;
        corrected(response, asked, in_session)
    }

    async fn post_message_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
        max_sse_event_size: usize,
    ) -> Result<StreamableHttpPostResponse, HttpError> {
        let asked = asked(&message);
        let in_session = session_id.is_some();
        let response = self
            .0
            .post_message_with_max_sse_event_size(
                uri,
                message,
                session_id,
                auth_header,
                custom_headers,
                max_sse_event_size,
            )
            .await?;
        corrected(response, asked, in_session)
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), HttpError> {
        self.0
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
        self.0
            .get_stream(uri, session_id, last_event_id, auth_header, custom_headers)
            .await
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
        max_sse_event_size: usize,
    ) -> Result<BoxStream<'static, Result<sse_stream::Sse, SseError>>, HttpError> {
        self.0
            .get_stream_with_max_sse_event_size(
                uri,
                session_id,
                last_event_id,
                auth_header,
                custom_headers,
                max_sse_event_size,
            )
            .await
    }
}

fn asked(message: &ClientJsonRpcMessage) -> Option<RequestId> {
    match message {
        JsonRpcMessage::Request(request) => Some(request.id.clone()),
        _ => None,
    }
}

/// An error without an id in the response to a request's own POST belongs to that request, though
/// the protocol layer would leave its caller waiting. Where it says that the session is unknown, as
/// after a restart of the server, nothing was run and a new session may be opened.
fn corrected(
    response: StreamableHttpPostResponse,
    asked: Option<RequestId>,
    in_session: bool,
) -> Result<StreamableHttpPostResponse, HttpError> {
    match (response, asked) {
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

impl Arrival for HttpError {
    fn fate(&self) -> Fate {
        match self {
            Self::Client(error) => fate_of(error),
            Self::HttpStatus(error) if error.status == 429 => Fate::TurnedAway,
            Self::AuthRequired(_)
            | Self::InsufficientScope(_)
            | Self::ReservedHeaderConflict(_) => Fate::TurnedAway,
            // Every other status of the kind that blames the request comes as words only.
            Self::UnexpectedServerResponse(words) if words.starts_with("HTTP 4") => {
                Fate::TurnedAway
            }
            Self::SessionExpired | Self::ReinitializationFailed(_) => Fate::NeverLeft,
            Self::HttpStatus(_)
            | Self::UnexpectedServerResponse(_)
            | Self::UnexpectedContentType(_)
            | Self::Deserialize(_) => Fate::AnsweredBadly,
            _ => Fate::Broken,
        }
    }

    fn words(&self) -> String {
        match self {
            Self::Client(error) => without_address(error),
            other => other.to_string().chars().take(MAX_QUOTED).collect(),
        }
    }
}

/// What became of a request that failed on its way.
pub(super) fn fate_of(error: &reqwest::Error) -> Fate {
    if error.is_connect() || error.is_builder() {
        Fate::NeverLeft
    } else {
        Fate::Broken
    }
}

/// What went wrong with a request, without its address, which may hold a secret.
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
