//! Connections to model servers, reused between requests.

use std::error::Error;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, Uri};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::rt::{Executor, Read, Write};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls::crypto::ring;
use rustls_platform_verifier::BuilderVerifierExt;
use tokio::time::Instant;
use tower_service::Service;

use crate::endpoint::Endpoint;
use crate::error::LlmProblem;
use crate::options::Options;

type Body = Full<Bytes>;

/// Opens connections. TLS is set up on first use, because loading the system's certificates takes longer
/// than a whole answer of a local model.
#[derive(Debug)]
pub(crate) struct Connections {
    plain: HttpConnector,
    encrypted: OnceLock<Result<HttpsConnector<HttpConnector>, String>>,
    /// How long an idle connection is kept, and how many per endpoint.
    idle_time: Duration,
    most_idle: usize,
}

/// Idle connections of one endpoint, the last used one on top.
#[derive(Debug, Default)]
pub(crate) struct IdleConnections(Mutex<Vec<(SendRequest<Body>, Instant)>>);

/// A connection in use. It is closed unless it is given back.
pub(crate) struct BorrowedConnection<'a> {
    sender: SendRequest<Body>,
    endpoint: &'a Endpoint,
    most_idle: usize,
}

impl BorrowedConnection<'_> {
    /// Returns the connection after its answer has been read to the end.
    pub(crate) fn give_back(self) {
        let mut idle = self.endpoint.idle.lock();
        if idle.len() < self.most_idle && !self.sender.is_closed() {
            idle.push((self.sender, Instant::now()));
        }
    }
}

impl IdleConnections {
    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<(SendRequest<Body>, Instant)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An open connection. Closes those that were idle too long.
    fn take(&self, idle_time: Duration) -> Option<SendRequest<Body>> {
        let mut idle = self.lock();
        while let Some((sender, since)) = idle.pop() {
            if since.elapsed() >= idle_time {
                // Those below have been idle even longer.
                idle.clear();
                return None;
            }
            if !sender.is_closed() {
                return Some(sender);
            }
        }
        None
    }
}

impl Connections {
    pub(crate) fn new(options: &Options) -> Self {
        let mut plain = HttpConnector::new();
        plain.set_nodelay(true);
        plain.set_connect_timeout(Some(options.connect_timeout));
        Self {
            plain,
            encrypted: OnceLock::new(),
            idle_time: options.idle_connection,
            most_idle: options.max_concurrent,
        }
    }

    /// Sends a request. If a reused connection turns out to be closed before the request is sent, opens
    /// a new one.
    pub(crate) async fn send<'a>(
        &self,
        mut request: Request<Body>,
        endpoint: &'a Endpoint,
    ) -> Result<(Response<Incoming>, BorrowedConnection<'a>), LlmProblem> {
        loop {
            let reused = endpoint.idle.take(self.idle_time);
            let is_kept = reused.is_some();
            let mut sender = match reused {
                Some(sender) => sender,
                // Boxed because it is rare and large, and would enlarge the future of every request.
                None => Box::pin(self.connect(endpoint)).await?,
            };
            if is_kept && sender.ready().await.is_err() {
                continue;
            }
            match sender.try_send_request(request).await {
                Ok(response) => {
                    let connection = BorrowedConnection {
                        sender,
                        endpoint,
                        most_idle: self.most_idle,
                    };
                    return Ok((response, connection));
                }
                Err(mut failed) => match failed.take_message() {
                    Some(unsent) if is_kept => request = unsent,
                    _ => {
                        return Err(LlmProblem::Broken {
                            reason: with_causes(failed.error()),
                        });
                    }
                },
            }
        }
    }

    async fn connect(&self, endpoint: &Endpoint) -> Result<SendRequest<Body>, LlmProblem> {
        let address = endpoint.uri.clone();
        if !endpoint.is_encrypted() {
            return dial(self.plain.clone(), address).await;
        }
        let connector = self.encrypted.get_or_init(|| {
            let mut plain = self.plain.clone();
            plain.enforce_http(false);
            Ok(HttpsConnectorBuilder::new()
                .with_tls_config(tls()?)
                .https_only()
                .enable_http1()
                .wrap_connector(plain))
        });
        match connector {
            Ok(connector) => dial(connector.clone(), address).await,
            Err(reason) => Err(LlmProblem::Misconfigured {
                reason: reason.clone(),
            }),
        }
    }
}

async fn dial<C>(mut connector: C, address: Uri) -> Result<SendRequest<Body>, LlmProblem>
where
    C: Service<Uri, Error: Into<Box<dyn Error + Send + Sync>>>,
    C::Response: Read + Write + Unpin + Send + 'static,
{
    let unreachable = |error: Box<dyn Error + Send + Sync>| LlmProblem::Unreachable {
        reason: with_causes(&*error),
    };
    std::future::poll_fn(|context| connector.poll_ready(context))
        .await
        .map_err(|error| unreachable(error.into()))?;
    let stream = connector
        .call(address)
        .await
        .map_err(|error| unreachable(error.into()))?;
    let (sender, connection) = handshake(stream)
        .await
        .map_err(|error| unreachable(error.into()))?;
    // Ends when its sender is dropped.
    TokioExecutor::new().execute(async move {
        if let Err(error) = connection.await {
            tracing::debug!(error = with_causes(&error), "a connection to a model ended");
        }
    });
    Ok(sender)
}

/// TLS with the system's certificates and the ring provider.
fn tls() -> Result<rustls::ClientConfig, String> {
    let tls = rustls::ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(BuilderVerifierExt::with_platform_verifier)
        .map_err(|error| format!("TLS cannot be set up: {error}"))?
        .with_no_client_auth();
    Ok(tls)
}

/// An error with its causes, because the outermost one only says that something failed.
pub(crate) fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        cause = error.source();
    }
    text
}
