//! A transport that tracks which requests have been sent.
//!
//! Whether a call may be repeated depends on whether it can have reached the server. The protocol
//! library does not report this, so every transport is wrapped: a request carries a [`DeliveryMark`],
//! which is set when its first byte may be sent, and a failed send reports whether anything was sent.

use std::collections::HashSet;
use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::{
    ClientRequest, ErrorCode, ErrorData, GetExtensions, JsonRpcMessage, RequestId,
    ServerJsonRpcMessage,
};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// Whether a request may have reached its server. Attached to the request, never serialized.
#[derive(Debug, Clone, Default)]
pub(crate) struct DeliveryMark(Arc<AtomicBool>);

impl DeliveryMark {
    /// Whether the request may have been sent.
    pub(crate) fn may_have_left(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    fn mark(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    fn unmark(&self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

/// What a failed send means for the message and the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SendOutcome {
    /// Nothing was sent: there is no connection.
    NeverLeft,
    /// The server rejected the message unread; the connection works.
    RejectedUnread,
    /// The server read the message and failed; the connection works.
    FailedAfterReading,
    /// The connection broke while sending.
    Broken,
}

/// A transport's error that reports what happened to the message.
pub(crate) trait DeliveryError: std::error::Error + Send + Sync + 'static {
    /// What happened to the message.
    fn outcome(&self) -> SendOutcome;

    /// What went wrong, without addresses and other possible secrets.
    fn message(&self) -> String;
}

/// Whether the server's side of a connection has ended, with the reason if known.
#[derive(Debug, Clone, Default)]
pub(crate) struct PeerEnd {
    token: CancellationToken,
    reason: Arc<OnceLock<String>>,
}

impl PeerEnd {
    /// Records the end. The first reason is kept.
    fn record(&self, reason: Option<String>) {
        if let Some(reason) = reason {
            let _ = self.reason.set(reason);
        }
        self.token.cancel();
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.token.is_cancelled()
    }

    pub(crate) async fn ended(&self) {
        self.token.cancelled().await;
    }

    /// The reason given by the transport.
    pub(crate) fn reason(&self) -> Option<&str> {
        self.reason.get().map(String::as_str)
    }
}

/// A transport that may know why its server's side has ended.
pub(crate) trait EndReason {
    /// The reason, after it has ended.
    fn reason(&self) -> Option<String> {
        None
    }
}

/// Why a message could not be sent.
#[derive(Debug)]
pub(crate) struct SendFailure {
    message: String,
    /// Whether the connection is unusable.
    pub(crate) ends_connection: bool,
}

impl SendFailure {
    fn of(error: &impl DeliveryError) -> Self {
        Self {
            message: error.message(),
            ends_connection: matches!(
                error.outcome(),
                SendOutcome::NeverLeft | SendOutcome::Broken
            ),
        }
    }
}

impl fmt::Display for SendFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for SendFailure {}

/// Wraps each of the three transports.
pub(crate) struct TrackedTransport<T> {
    inner: T,
    /// Set as soon as the server's side has ended, long before the transport is closed.
    ended: PeerEnd,
    discover_timeout: Option<Duration>,
    /// The pending first request of the newest protocol, and its deadline.
    discovering: Option<(RequestId, Instant)>,
    /// Requests that were given up; their late answers are ignored.
    abandoned: HashSet<RequestId>,
    /// Held as long as the connection exists.
    _alive: TaskTrackerToken,
}

impl<T> TrackedTransport<T> {
    /// Wraps a transport. With a `discover_timeout`, a server that does not answer `server/discover` is
    /// treated as an older one.
    pub(crate) fn new(
        inner: T,
        ended: PeerEnd,
        discover_timeout: Option<Duration>,
        alive: TaskTrackerToken,
    ) -> Self {
        Self {
            inner,
            ended,
            discover_timeout,
            discovering: None,
            abandoned: HashSet::new(),
            _alive: alive,
        }
    }

    fn note_discover(&mut self, message: &TxJsonRpcMessage<RoleClient>) {
        if let (Some(timeout), JsonRpcMessage::Request(request)) = (self.discover_timeout, message)
            && matches!(request.request, ClientRequest::DiscoverRequest(_))
        {
            self.discovering = Some((request.id.clone(), Instant::now() + timeout));
        }
    }

    /// Answers the first request in place of the server, like an older server would.
    fn answer_discovery(&mut self) -> Option<ServerJsonRpcMessage> {
        let (id, _) = self.discovering.take()?;
        self.abandoned.insert(id.clone());
        let silence = ErrorData::new(
            ErrorCode::METHOD_NOT_FOUND,
            "the server did not answer server/discover",
            None,
        );
        Some(JsonRpcMessage::error(silence, Some(id)))
    }

    /// Whether a message answers a request that was given up.
    fn is_late(&mut self, message: &ServerJsonRpcMessage) -> bool {
        let id = match message {
            JsonRpcMessage::Response(response) => Some(&response.id),
            JsonRpcMessage::Error(error) => error.id.as_ref(),
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => None,
        };
        let Some(id) = id else { return false };
        if self
            .discovering
            .as_ref()
            .is_some_and(|(request_id, _)| request_id == id)
        {
            self.discovering = None;
        }
        self.abandoned.remove(id)
    }
}

impl<T> Transport<RoleClient> for TrackedTransport<T>
where
    T: Transport<RoleClient, Error: DeliveryError> + EndReason + 'static,
{
    type Error = SendFailure;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), SendFailure>> + Send + 'static {
        self.note_discover(&message);
        let departure = match &message {
            JsonRpcMessage::Request(request) => {
                request.request.extensions().get::<DeliveryMark>().cloned()
            }
            _ => None,
        }
        .unwrap_or_default();
        let send = self.inner.send(message);
        async move {
            departure.mark();
            send.await.map_err(|error| {
                if matches!(
                    error.outcome(),
                    SendOutcome::NeverLeft | SendOutcome::RejectedUnread
                ) {
                    departure.unmark();
                }
                SendFailure::of(&error)
            })
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let received = match &self.discovering {
                None => self.inner.receive().await,
                Some((_, until)) => {
                    let until = *until;
                    match tokio::time::timeout_at(until, self.inner.receive()).await {
                        Ok(received) => received,
                        Err(_) => return self.answer_discovery(),
                    }
                }
            };
            match received {
                None => {
                    self.ended.record(self.inner.reason());
                    return None;
                }
                Some(message) if self.is_late(&message) => {}
                Some(message) => return Some(message),
            }
        }
    }

    async fn close(&mut self) -> Result<(), SendFailure> {
        self.ended.record(None);
        self.inner
            .close()
            .await
            .map_err(|error| SendFailure::of(&error))
    }
}

/// An error with all its causes, because the outermost one is too unspecific.
pub(crate) fn with_causes(
    text: String,
    mut cause: Option<&(dyn std::error::Error + 'static)>,
) -> String {
    let mut text = text;
    while let Some(error) = cause {
        let message = error.to_string();
        if !text.contains(&message) {
            text.push_str(": ");
            text.push_str(&message);
        }
        cause = error.source();
    }
    text
}
