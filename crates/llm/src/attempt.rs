//! One HTTP request and its answer.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use convoke_model::LlmConfig;
use http::header::{ACCEPT, CONTENT_TYPE, HOST, HeaderValue, USER_AGENT};
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use tokio::time::{Instant, timeout, timeout_at};

use crate::connections::{BorrowedConnection, Connections, with_causes};
use crate::endpoint::Endpoint;
use crate::error::LlmProblem;
use crate::options::Options;
use crate::reply::{Delta, Live};
use crate::request::ChatRequest;
use crate::retry::retry_after;
use crate::wire::answer::{self, Content, EmptyReason};
use crate::wire::body::Dialect;
use crate::wire::server_error::ServerError;
use crate::wire::stream::Stream;

/// Limit of an error response's body, in bytes.
const MAX_ERROR_BYTES: usize = 64 * 1024;

/// How long to wait for a stream to end after its end mark, so that the connection can be reused.
const STREAM_END_WAIT: Duration = Duration::from_millis(10);

/// How long to wait after the model has stopped: usage and end mark follow at once or never, and some
/// servers keep the connection open.
const USAGE_WAIT: Duration = Duration::from_secs(1);

/// One request to one model.
pub(crate) struct Attempt<'a> {
    pub(crate) connections: &'a Connections,
    pub(crate) options: &'a Options,
    pub(crate) endpoint: &'a Arc<Endpoint>,
    pub(crate) config: &'a LlmConfig,
    pub(crate) request: &'a ChatRequest<'a>,
    pub(crate) dialect: Dialect,
    pub(crate) deadline: Instant,
    pub(crate) live: Live<'a>,
}

/// Why an attempt gave no answer.
pub(crate) enum Failure {
    Problem(LlmProblem),
    /// The model wants another dialect, to be tried at once.
    NewDialect(Dialect),
}

impl From<LlmProblem> for Failure {
    fn from(problem: LlmProblem) -> Self {
        Self::Problem(problem)
    }
}

impl Attempt<'_> {
    /// Sends the body and reads the answer.
    pub(crate) async fn run(&self, body: Bytes) -> Result<Content, Failure> {
        let request = self.http_request(body)?;
        let wait_limit = WaitLimit::new(self.options.attempt_timeout, self.deadline);
        let sent = self.connections.send(request, self.endpoint);
        let (response, connection) = wait_limit.wait(self, sent).await??;
        if !response.status().is_success() {
            return Err(Box::pin(self.server_error(response, connection, &wait_limit)).await);
        }
        let is_stream = response
            .headers()
            .get(CONTENT_TYPE)
            .is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
        if is_stream {
            return Box::pin(self.stream(response.into_body(), connection)).await;
        }
        let limit = self.options.max_response_bytes;
        let body = wait_limit
            .wait(self, read_body(response.into_body(), limit))
            .await??;
        connection.give_back();
        self.read_whole(&body)
    }

    fn http_request(&self, body: Bytes) -> Result<Request<Full<Bytes>>, LlmProblem> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.endpoint.target.clone();
        let credentials = self
            .endpoint
            .credentials(self.config)
            .map_err(|reason| LlmProblem::Misconfigured { reason })?;
        let headers = request.headers_mut();
        headers.insert(HOST, self.endpoint.host.clone());
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(
            USER_AGENT,
            HeaderValue::from_static(concat!("convoke/", env!("CARGO_PKG_VERSION"))),
        );
        if self.request.stream {
            headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        }
        if let Some((name, value)) = credentials {
            headers.insert(name, value);
        }
        Ok(request)
    }

    fn read_whole(&self, body: &[u8]) -> Result<Content, Failure> {
        // Some servers stream without saying so.
        if body.starts_with(b"data:") {
            let mut stream = Stream::default();
            return stream
                .feed(body, self.live)
                .and_then(|()| stream.end(self.live))
                .map_err(|empty| self.empty_failure(empty))?
                .ok_or_else(|| cut_off().into());
        }
        let content = answer::read(body).map_err(|empty| self.empty_failure(empty))?;
        if let Some(live) = self.live
            && !content.text.is_empty()
        {
            live(Delta::Text(&content.text));
        }
        Ok(content)
    }

    async fn stream(
        &self,
        mut body: Incoming,
        connection: BorrowedConnection<'_>,
    ) -> Result<Content, Failure> {
        let mut stream = Stream::default();
        let mut size = 0;
        let stream_error = loop {
            let mut silence = self.options.stream_idle_timeout;
            if stream.is_finished() {
                silence = silence.min(USAGE_WAIT);
            }
            let wait_limit = WaitLimit::new(silence, self.deadline);
            let chunk = match wait_limit.wait(self, body.frame()).await {
                Ok(Some(Ok(frame))) => frame.into_data().unwrap_or_default(),
                Ok(None) => break cut_off(),
                Ok(Some(Err(error))) => {
                    break LlmProblem::Broken {
                        reason: with_causes(&error),
                    };
                }
                Err(late) => break late,
            };
            size += chunk.len();
            if size > self.options.max_response_bytes {
                let limit = self.options.max_response_bytes;
                return Err(LlmProblem::TooLarge { limit }.into());
            }
            stream
                .feed(&chunk, self.live)
                .map_err(|empty| self.empty_failure(empty))?;
            if stream.is_done() {
                // A connection whose stream has not ended cannot be reused; that is not an error.
                if let Ok(None) = timeout(STREAM_END_WAIT, body.frame()).await {
                    connection.give_back();
                }
                break cut_off();
            }
        };
        // If the answer was complete before the stream broke, it counts.
        match stream.end(self.live) {
            Ok(Some(content)) => Ok(content),
            // An unreadable last line was cut off with the rest.
            Ok(None) | Err(EmptyReason::Malformed(_)) => Err(stream_error.into()),
            Err(empty) => Err(self.empty_failure(empty)),
        }
    }

    /// Reads why the server rejected the request.
    async fn server_error(
        &self,
        response: Response<Incoming>,
        connection: BorrowedConnection<'_>,
        wait_limit: &WaitLimit,
    ) -> Failure {
        let status = response.status().as_u16();
        let retry_after = retry_after(response.headers(), &*self.options.clock);
        let body = wait_limit
            .wait(self, read_body(response.into_body(), MAX_ERROR_BYTES))
            .await;
        if matches!(body, Ok(Ok(_))) {
            connection.give_back();
        }
        // If the body cannot be read, the status is enough.
        let body = body.and_then(|body| body).unwrap_or_default();
        self.classify(ServerError::read(&body), status, retry_after)
    }

    fn classify(
        &self,
        mut server_error: ServerError,
        status: u16,
        retry_after: Option<Duration>,
    ) -> Failure {
        server_error.message = self.endpoint.redact(self.config, server_error.message);
        match server_error.dialect(status, self.dialect) {
            Some(dialect) => Failure::NewDialect(dialect),
            None => server_error
                .problem(status, retry_after, self.request)
                .into(),
        }
    }

    fn empty_failure(&self, empty: EmptyReason) -> Failure {
        match empty {
            EmptyReason::Malformed(reason) => LlmProblem::Malformed {
                reason: self.endpoint.redact(self.config, reason),
            }
            .into(),
            EmptyReason::Error(error) => {
                let server_error = ServerError::from_value(&error);
                let status = server_error.inner_status();
                self.classify(server_error, status, None)
            }
        }
    }
}

/// How long one wait may take: its own limit, or the request's remaining time.
struct WaitLimit {
    limit: Duration,
    until: Instant,
    is_deadline: bool,
}

impl WaitLimit {
    fn new(limit: Duration, deadline: Instant) -> Self {
        let own = Instant::now().checked_add(limit);
        let until = own.map_or(deadline, |own| own.min(deadline));
        Self {
            limit,
            until,
            is_deadline: until == deadline,
        }
    }

    async fn wait<F: Future>(
        &self,
        attempt: &Attempt<'_>,
        future: F,
    ) -> Result<F::Output, LlmProblem> {
        timeout_at(self.until, future).await.map_err(|_| {
            if self.is_deadline {
                LlmProblem::TimedOut {
                    time: attempt.request.time_left,
                    last: None,
                }
            } else {
                LlmProblem::Stalled {
                    silence: self.limit,
                }
            }
        })
    }
}

fn cut_off() -> LlmProblem {
    LlmProblem::Broken {
        reason: "the stream ended in the middle of the answer".to_owned(),
    }
}

/// Reads a whole body. A body in a single chunk, which is usual, is not copied.
async fn read_body(mut body: Incoming, limit: usize) -> Result<Bytes, LlmProblem> {
    let mut first = Bytes::new();
    let mut rest: Vec<u8> = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| LlmProblem::Broken {
            reason: with_causes(&error),
        })?;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        if first.len() + rest.len() + data.len() > limit {
            return Err(LlmProblem::TooLarge { limit });
        }
        if first.is_empty() {
            first = data;
        } else {
            rest.extend_from_slice(&data);
        }
    }
    if rest.is_empty() {
        return Ok(first);
    }
    Ok([&first[..], &rest].concat().into())
}
