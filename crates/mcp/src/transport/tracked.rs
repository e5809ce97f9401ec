//! A transport that knows which requests have left.
//!
//! Whether a call may be made again hangs on whether it can have reached the server. The protocol
//! layer does not say, so every transport is wrapped: a request carries a [`DeliveryMark`], which is
//! marked at the moment its first byte may go out, and a failed send says whether anything did.

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

/// Whether a request may have reached its server. Travels with the request, never on the wire.
#[derive(Debug, Clone, Default)]
pub(crate) struct DeliveryMark(Arc<AtomicBool>);

impl DeliveryMark {
    /// Whether the request may have left.
    pub(crate) fn has_left(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    fn leave(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    fn come_back(&self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

/// What a failed send says of the message and of the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SendOutcome {
    /// Nothing went out: there is no connection.
    NeverLeft,
    /// The server turned the message away unread, over a connection that works.
    TurnedAway,
    /// The server has the message and answered badly, over a connection that works.
    AnsweredBadly,
    /// The connection broke with the message under way.
    Broken,
}

/// A transport's error that can say what became of the message.
pub(crate) trait DeliveryError: std::error::Error + Send + Sync + 'static {
    /// What became of the message.
    fn fate(&self) -> SendOutcome;

    /// What went wrong, without addresses and other things that may hold a secret.
    fn words(&self) -> String;
}

/// Whether the server's side of a connection has ended, and why if that is known.
#[derive(Debug, Clone, Default)]
pub(crate) struct PeerEnd {
    token: CancellationToken,
    reason: Arc<OnceLock<String>>,
}

impl PeerEnd {
    /// Notes the end. The first reason stands.
    fn note(&self, reason: Option<String>) {
        if let Some(reason) = reason {
            let _ = self.reason.set(reason);
        }
        self.token.cancel();
    }

    pub(crate) fn is_noted(&self) -> bool {
        self.token.is_cancelled()
    }

    pub(crate) async fn noted(&self) {
        self.token.cancelled().await;
    }

    /// Why it ended, in the words of the transport.
    pub(crate) fn reason(&self) -> Option<&str> {
        self.reason.get().map(String::as_str)
    }
}

/// A transport that may know why its server's side has ended.
pub(crate) trait EndReason {
    /// Why, once it has.
    fn reason(&self) -> Option<String> {
        None
    }
}

/// Why a message could not be sent.
#[derive(Debug)]
pub(crate) struct SendFailure {
    words: String,
    /// Whether the connection is of no more use.
    pub(crate) ends_connection: bool,
}

impl SendFailure {
    fn of(error: &impl DeliveryError) -> Self {
        Self {
            words: error.words(),
            ends_connection: matches!(error.fate(), SendOutcome::NeverLeft | SendOutcome::Broken),
        }
    }
}

impl fmt::Display for SendFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}

impl std::error::Error for SendFailure {}

/// The wrapper around each of the three transports.
pub(crate) struct TrackedTransport<T> {
    inner: T,
    /// Noted as soon as the server's side has ended, long before the transport is closed.
    ended: PeerEnd,
    discover_timeout: Option<Duration>,
    /// The first question in the newest protocol, and when it is given up.
    discovering: Option<(RequestId, Instant)>,
    /// Questions given up, whose late answers nobody expects any more.
    given_up: HashSet<RequestId>,
    /// While this is there, so is the connection.
    _alive: TaskTrackerToken,
}

impl<T> TrackedTransport<T> {
    /// Wraps a transport. With a `discover_timeout`, a server that leaves `server/discover`
    /// unanswered is taken to be an older one.
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
            given_up: HashSet::new(),
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

    /// Answers the first question in the server's place, as an older server would.
    fn give_up_discovering(&mut self) -> Option<ServerJsonRpcMessage> {
        let (id, _) = self.discovering.take()?;
        self.given_up.insert(id.clone());
        let silence = ErrorData::new(
            ErrorCode::METHOD_NOT_FOUND,
            "the server left server/discover unanswered",
            None,
        );
        Some(JsonRpcMessage::error(silence, Some(id)))
    }

    /// Whether a message is the late answer to a question that was given up.
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
            .is_some_and(|(asked, _)| asked == id)
        {
            self.discovering = None;
        }
        self.given_up.remove(id)
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
            departure.leave();
            send.await.map_err(|error| {
                if matches!(
                    error.fate(),
                    SendOutcome::NeverLeft | SendOutcome::TurnedAway
                ) {
                    departure.come_back();
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
                        Err(_) => return self.give_up_discovering(),
                    }
                }
            };
            match received {
                None => {
                    self.ended.note(self.inner.reason());
                    return None;
                }
                Some(message) if self.is_late(&message) => {}
                Some(message) => return Some(message),
            }
        }
    }

    async fn close(&mut self) -> Result<(), SendFailure> {
        self.ended.note(None);
        self.inner
            .close()
            .await
            .map_err(|error| SendFailure::of(&error))
    }
}

/// An error with all its causes, since the outermost one alone says too little.
pub(crate) fn with_causes(
    text: String,
    mut cause: Option<&(dyn std::error::Error + 'static)>,
) -> String {
    let mut text = text;
    while let Some(error) = cause {
        let words = error.to_string();
        if !text.contains(&words) {
            text.push_str(": ");
            text.push_str(&words);
        }
        cause = error.source();
    }
    text
}
