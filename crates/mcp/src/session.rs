//! One connection to one server, shared by every task that calls it.

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
use crate::greeting::{self, Listener};
use crate::listing::Listing;
use crate::options::Options;
use crate::transport::{DeliveryMark, PeerEnd, SendFailure, TOO_LARGE};

/// How long the word that a call is no longer wanted may take to go out.
const CANCEL_PATIENCE: Duration = Duration::from_secs(2);

/// An established connection.
pub(crate) struct Session {
    server: String,
    peer: Peer<RoleClient>,
    running: Mutex<Option<RunningService<RoleClient, Listener>>>,
    /// The server's side has ended.
    ended: PeerEnd,
    /// No new call is to use this connection; those under way may finish.
    retired: AtomicBool,
    /// The server has answered something since it was connected to.
    proved: AtomicBool,
    /// The server has said that its list of tools changed.
    tools_changed: Arc<AtomicBool>,
    listing: tokio::sync::Mutex<Option<Arc<Listing>>>,
    tracker: TaskTracker,
    /// Owns the task that listens for changes of the tool list.
    _watch: JoinSet<()>,
}

/// One call, ready to leave.
pub(crate) struct Outgoing<'a> {
    pub(crate) tool: &'a str,
    pub(crate) arguments: Map<String, Value>,
    pub(crate) idempotency_key: &'a str,
    pub(crate) trace: Option<TraceContext>,
    pub(crate) deadline: Instant,
    /// What the caller was granted, for the error that says it was not enough.
    pub(crate) allowed: Duration,
}

impl Session {
    /// Greets the server in the newest protocol that it speaks.
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
        let running = greeting::greet(transport, &tools_changed).await?;
        let peer = running.peer().clone();
        let watch = greeting::watch_tools(&peer, &tools_changed);
        Ok(Self {
            server: server.to_owned(),
            peer,
            running: Mutex::new(Some(running)),
            ended,
            retired: AtomicBool::new(false),
            proved: AtomicBool::new(false),
            tools_changed,
            listing: tokio::sync::Mutex::default(),
            tracker,
            _watch: watch,
        })
    }

    /// Whether new calls may use this connection.
    pub(crate) fn is_usable(&self) -> bool {
        !self.retired.load(Ordering::SeqCst)
            && !self.ended.is_noted()
            && !self.peer.is_transport_closed()
    }

    /// Whether the server ever answered over this connection.
    pub(crate) fn has_proved_itself(&self) -> bool {
        self.proved.load(Ordering::SeqCst)
    }

    fn retire(&self) {
        self.retired.store(true, Ordering::SeqCst);
    }

    /// The server's tools, listed once and again when the server says that they changed.
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
            () = self.ended.noted() => {
                return Err(self.lost_while_listing(self.ended.reason().unwrap_or("it ended")));
            }
        };
        match outcome {
            Ok(Ok(read)) => {
                self.proved.store(true, Ordering::SeqCst);
                Ok(Arc::clone(listing.insert(Arc::new(read))))
            }
            Ok(Err(error)) => Err(self.lost_while_listing(&error.to_string())),
            Err(_) => {
                let words = format!(
                    "its tools were not listed within {:?}",
                    options.list_timeout
                );
                Err(self.lost_while_listing(&words))
            }
        }
    }

    /// Listing has no effect, so that however it fails, nothing was done.
    fn lost_while_listing(&self, reason: &str) -> McpError {
        self.retire();
        McpError::NotSent {
            server: self.server.clone(),
            reason: reason.to_owned(),
        }
    }

    /// Makes a call and waits for its answer.
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
                return Err(lost(LostAnswer::Broken(self.why(&error))));
            }
            Err(_) => return Err(lost(LostAnswer::TimedOut(allowed))),
        };
        let mut pending = Pending {
            handle: Some(handle),
            tracker: self.tracker.clone(),
        };
        let answer = tokio::select! {
            // An answer that came in just before the connection ended still counts.
            biased;
            answer = tokio::time::timeout_at(deadline, pending.answer()) => answer,
            () = self.ended.noted() => Ok(Err(ServiceError::TransportClosed)),
        };
        match answer {
            Ok(answer) => {
                pending.handle = None;
                self.judge(tool, answer, &lost)
            }
            Err(_) => Err(lost(LostAnswer::TimedOut(allowed))),
        }
    }

    fn judge(
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
                self.proved.store(true, Ordering::SeqCst);
                match answer {
                    ServerResult::CallToolResult(result) => Ok(result),
                    ServerResult::InputRequiredResult(_) => Err(failed(
                        None,
                        "it asks for input, which is not offered".to_owned(),
                    )),
                    ServerResult::CreateTaskResult(_) => Err(failed(
                        None,
                        "it became a background task, which is not followed".to_owned(),
                    )),
                    _ => Err(failed(None, "the answer is no tool result".to_owned())),
                }
            }
            Err(ServiceError::McpError(error)) => {
                self.proved.store(true, Ordering::SeqCst);
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
                Err(lost(LostAnswer::Broken(self.why(&error))))
            }
        }
    }

    /// Why the connection is of no more use: the transport's own reason says more than the protocol's.
    fn why(&self, error: &ServiceError) -> String {
        let reason = self.ended.reason();
        reason.map_or_else(|| error.to_string(), str::to_owned)
    }

    /// The answer is lost: what that means depends on whether the call had left.
    fn lost(&self, tool: &str, departure: &DeliveryMark, loss: LostAnswer) -> McpError {
        if departure.has_left() {
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

    /// Ends the connection and, where the server is a child of ours, the child.
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

/// The JSON-RPC errors that say that the method was not run.
fn is_refusal(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::PARSE_ERROR
            | ErrorCode::INVALID_REQUEST
            | ErrorCode::METHOD_NOT_FOUND
            | ErrorCode::INVALID_PARAMS
    )
}

/// A request whose answer is awaited. If nobody waits any more, because time ran out or the caller
/// is gone, the server is told.
struct Pending {
    handle: Option<RequestHandle<RoleClient>>,
    tracker: TaskTracker,
}

impl Pending {
    async fn answer(&mut self) -> Result<ServerResult, ServiceError> {
        match &mut self.handle {
            Some(handle) => (&mut handle.rx)
                .await
                .unwrap_or(Err(ServiceError::TransportClosed)),
            None => Err(ServiceError::TransportClosed),
        }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        let Some(handle) = self.handle.take() else {
            return;
        };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        let word = handle.cancel(Some("nobody waits for the answer any more".to_owned()));
        self.tracker.spawn_on(
            async move {
                let _ = tokio::time::timeout(CANCEL_PATIENCE, word).await;
            },
            &runtime,
        );
    }
}
