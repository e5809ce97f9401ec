//! One connection to one server, shared by all tasks that call it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use convoke_telemetry::TraceContext;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResult, ClientRequest, ErrorCode,
    RequestMetaObject, ServerResult,
};
use rmcp::service::{PeerRequestOptions, RequestHandle, RunningService, ServiceError};
use rmcp::transport::Transport;
use rmcp::{Peer, RoleClient};
use serde_json::{Map, Value};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use crate::call::IDEMPOTENCY_KEY;
use crate::error::{LostAnswer, McpError, Refusal};
use crate::greeting::{self, NotificationHandler};
use crate::listing::Listing;
use crate::options::Options;
use crate::transport::{DeliveryMark, PeerEnd, SendFailure, TOO_LARGE};

/// Time limit for sending a cancellation.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(2);

/// An established connection.
pub(crate) struct Session {
    server: String,
    peer: Peer<RoleClient>,
    running: Mutex<Option<RunningService<RoleClient, NotificationHandler>>>,
    /// Whether the server's side has ended.
    ended: PeerEnd,
    /// Whether new calls must use another connection; running ones may finish.
    is_retired: AtomicBool,
    /// Whether the server has answered since it was connected.
    has_answered: AtomicBool,
    /// Whether the server has reported a change of its tools.
    tools_changed: Arc<AtomicBool>,
    listing: tokio::sync::Mutex<Option<Arc<Listing>>>,
    tracker: TaskTracker,
    /// Owns the task that listens for changes of the tool list.
    _watch: JoinSet<()>,
}

/// One call, ready to be sent.
pub(crate) struct Outgoing<'a> {
    pub(crate) tool: &'a str,
    pub(crate) arguments: Map<String, Value>,
    pub(crate) idempotency_key: &'a str,
    pub(crate) trace: Option<TraceContext>,
    pub(crate) deadline: Instant,
    /// The caller's time limit, for the error message.
    pub(crate) allowed: Duration,
}

impl Session {
    /// Initialises the session in the newest protocol version that the server supports.
    pub(crate) async fn establish<T>(
        server: &str,
        transport: T,
        ended: PeerEnd,
        tracker: TaskTracker,
    ) -> Result<Self, String>
    where
        T: Transport<RoleClient, Error = SendFailure> + 'static,
    {
        let tools_changed = Arc::new(AtomicBool::new(false));
        let running = greeting::initialise(transport, &tools_changed).await;
        // The transport knows better than the protocol why the connection ended.
        let running = running.map_err(|reason| ended.reason().map_or(reason, str::to_owned))?;
        let peer = running.peer().clone();
        let watch = greeting::subscribe_to_tools(&peer, &tools_changed);
        Ok(Self {
            server: server.to_owned(),
            peer,
            running: Mutex::new(Some(running)),
            ended,
            is_retired: AtomicBool::new(false),
            has_answered: AtomicBool::new(false),
            tools_changed,
            listing: tokio::sync::Mutex::default(),
            tracker,
            _watch: watch,
        })
    }

    /// Whether new calls may use this connection.
    pub(crate) fn is_usable(&self) -> bool {
        !self.is_retired.load(Ordering::SeqCst)
            && !self.ended.has_ended()
            && !self.peer.is_transport_closed()
    }

    /// Whether the server has ever answered over this connection.
    pub(crate) fn has_ever_answered(&self) -> bool {
        self.has_answered.load(Ordering::SeqCst)
    }

    fn retire(&self) {
        self.is_retired.store(true, Ordering::SeqCst);
    }

    /// The server's tools. They are listed once, and again after the server reports a change.
    pub(crate) async fn listing(&self, options: &Options) -> Result<Arc<Listing>, McpError> {
        let mut listing = self.listing.lock().await;
        if self.tools_changed.swap(false, Ordering::SeqCst) {
            *listing = None;
        }
        if let Some(listing) = &*listing {
            return Ok(Arc::clone(listing));
        }
        let read = Listing::read(&self.server, &self.peer, options);
        let outcome = tokio::select! {
            biased;
            outcome = tokio::time::timeout(options.list_timeout, read) => outcome,
            () = self.ended.ended() => {
                return Err(self.listing_failed(self.ended.reason().unwrap_or("it ended")));
            }
        };
        match outcome {
            Ok(Ok(read)) => {
                self.has_answered.store(true, Ordering::SeqCst);
                Ok(Arc::clone(listing.insert(Arc::new(read))))
            }
            Ok(Err(error)) => Err(self.listing_failed(&error.to_string())),
            Err(_) => {
                let message = format!(
                    "its tools were not listed within {:?}",
                    options.list_timeout
                );
                Err(self.listing_failed(&message))
            }
        }
    }

    /// Listing has no effect, so a failure means that nothing was done.
    fn listing_failed(&self, reason: &str) -> McpError {
        self.retire();
        McpError::NotSent {
            server: self.server.clone(),
            reason: reason.to_owned(),
        }
    }

    /// Sends a call and waits for its answer.
    pub(crate) async fn call(&self, outgoing: Outgoing<'_>) -> Result<CallToolResult, McpError> {
        let Outgoing {
            tool,
            arguments,
            idempotency_key,
            trace,
            deadline,
            allowed,
        } = outgoing;
        let departure = DeliveryMark::default();
        let params = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        let mut request = CallToolRequest::new(params);
        request.extensions.insert(departure.clone());
        let mut meta = RequestMetaObject::new();
        meta.insert(IDEMPOTENCY_KEY.to_owned(), Value::from(idempotency_key));
        if let Some(trace) = trace {
            meta.set_traceparent(trace.to_string());
        }
        let options = PeerRequestOptions::no_options().with_meta(meta);

        let lost = |loss: LostAnswer| self.lost(tool, &departure, loss);
        let sending = self
            .peer
            .send_cancellable_request(ClientRequest::CallToolRequest(request), options);
        let handle = match tokio::time::timeout_at(deadline, sending).await {
            Ok(Ok(handle)) => handle,
            Ok(Err(error)) => {
                self.retire();
                return Err(lost(LostAnswer::Broken(self.end_reason(&error))));
            }
            Err(_) => return Err(lost(LostAnswer::TimedOut(allowed))),
        };
        let mut pending = PendingRequest {
            handle: Some(handle),
            tracker: self.tracker.clone(),
        };
        let answer = tokio::select! {
            // An answer that arrived just before the connection ended still counts.
            biased;
            answer = tokio::time::timeout_at(deadline, pending.answer()) => answer,
            () = self.ended.ended() => Ok(Err(ServiceError::TransportClosed)),
        };
        match answer {
            Ok(answer) => {
                pending.handle = None;
                self.interpret(tool, answer, &lost)
            }
            Err(_) => Err(lost(LostAnswer::TimedOut(allowed))),
        }
    }

    fn interpret(
        &self,
        tool: &str,
        answer: Result<ServerResult, ServiceError>,
        lost: &impl Fn(LostAnswer) -> McpError,
    ) -> Result<CallToolResult, McpError> {
        let failed = |rpc_code: Option<i32>, message: String| McpError::Failed {
            server: self.server.clone(),
            tool: tool.to_owned(),
            rpc_code,
            message,
        };
        match answer {
            Ok(answer) => {
                self.has_answered.store(true, Ordering::SeqCst);
                match answer {
                    ServerResult::CallToolResult(result) => Ok(result),
                    ServerResult::InputRequiredResult(_) => Err(failed(
                        None,
                        "it asks for input, which is not supported".to_owned(),
                    )),
                    ServerResult::CreateTaskResult(_) => Err(failed(
                        None,
                        "it became a background task, which is not supported".to_owned(),
                    )),
                    _ => Err(failed(None, "the answer is not a tool result".to_owned())),
                }
            }
            Err(ServiceError::McpError(error)) => {
                self.has_answered.store(true, Ordering::SeqCst);
                let message = error.message.into_owned();
                if error.code == TOO_LARGE {
                    Err(McpError::TooLarge {
                        server: self.server.clone(),
                        tool: tool.to_owned(),
                        message,
                    })
                } else if is_refusal(error.code) {
                    Err(McpError::Refused(Refusal::ByServer {
                        server: self.server.clone(),
                        tool: tool.to_owned(),
                        message,
                    }))
                } else {
                    Err(failed(Some(error.code.0), message))
                }
            }
            Err(ServiceError::TransportSend(error)) => {
                let failure = error.error.downcast_ref::<SendFailure>();
                if failure.is_none_or(|failure| failure.ends_connection) {
                    self.retire();
                }
                Err(lost(LostAnswer::Broken(error.error.to_string())))
            }
            Err(error) => {
                self.retire();
                Err(lost(LostAnswer::Broken(self.end_reason(&error))))
            }
        }
    }

    /// Why the connection is unusable: the transport's reason is more specific than the protocol's.
    fn end_reason(&self, error: &ServiceError) -> String {
        let reason = self.ended.reason();
        reason.map_or_else(|| error.to_string(), str::to_owned)
    }

    /// The error of a lost answer, which depends on whether the call was sent.
    fn lost(&self, tool: &str, departure: &DeliveryMark, loss: LostAnswer) -> McpError {
        if departure.may_have_left() {
            McpError::Unknown {
                server: self.server.clone(),
                tool: tool.to_owned(),
                loss,
            }
        } else {
            McpError::NotSent {
                server: self.server.clone(),
                reason: loss.to_string(),
            }
        }
    }

    /// Closes the connection and ends the child process, if there is one.
    pub(crate) async fn close(&self) {
        self.retire();
        let running = self
            .running
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(running) = running
            && let Err(error) = running.cancel().await
        {
            tracing::warn!(server = self.server, %error, "the connection did not end cleanly");
        }
    }
}

/// JSON-RPC errors which mean that the method was not run.
fn is_refusal(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::PARSE_ERROR
            | ErrorCode::INVALID_REQUEST
            | ErrorCode::METHOD_NOT_FOUND
            | ErrorCode::INVALID_PARAMS
    )
}

/// A request waiting for its answer. When dropped without one, it sends a cancellation.
struct PendingRequest {
    handle: Option<RequestHandle<RoleClient>>,
    tracker: TaskTracker,
}

impl PendingRequest {
    async fn answer(&mut self) -> Result<ServerResult, ServiceError> {
        match &mut self.handle {
            Some(handle) => (&mut handle.rx)
                .await
                .unwrap_or(Err(ServiceError::TransportClosed)),
            None => Err(ServiceError::TransportClosed),
        }
    }
}

impl Drop for PendingRequest {
    fn drop(&mut self) {
        let Some(handle) = self.handle.take() else {
            return;
        };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        let word = handle.cancel(Some("the caller no longer waits for the answer".to_owned()));
        self.tracker.spawn_on(
            async move {
                let _ = tokio::time::timeout(CANCEL_TIMEOUT, word).await;
            },
            &runtime,
        );
    }
}
