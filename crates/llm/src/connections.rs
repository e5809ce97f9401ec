//! Connections to model servers: kept open between requests, and used again.

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

/// Makes connections, plain ones and, once somebody wants one, encrypted ones: reading what the
/// operating system trusts takes longer than a whole answer of a local model.
#[derive(Debug)]
pub(crate) struct Connections {
    plain: HttpConnector,
    encrypted: OnceLock<Result<HttpsConnector<HttpConnector>, String>>,
    /// How long an idle connection is kept, and how many of them for each endpoint.
    idle_time: Duration,
    most_idle: usize,
}

/// The connections of one endpoint that nobody uses at present, the one used last on top.
#[derive(Debug, Default)]
pub(crate) struct IdleConnections(Mutex<Vec<(SendRequest<Body>, Instant)>>);

/// A connection that is in use. It is closed unless it is given back.
pub(crate) struct BorrowedConnection<'a> {
    sender: SendRequest<Body>,
    endpoint: &'a Endpoint,
    most_idle: usize,
}

impl BorrowedConnection<'_> {
    /// The answer has been read to its end, so that the connection can take the next request.
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

    /// A connection that is still open. Those that were idle for too long are let go.
    fn take(&self, idle_time: Duration) -> Option<SendRequest<Body>> {
        let mut idle = self.lock();
        while let Some((sender, since)) = idle.pop() {
            if since.elapsed() >= idle_time {
                // Those below have been idle for longer still.
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

    /// Sends a request. Where a kept connection turns out to have been closed before the request was
    /// on its way, another is taken.
    pub(crate) async fn send<'a>(
        &self,
        mut request: Request<Body>,
        endpoint: &'a Endpoint,
    ) -> Result<(Response<Incoming>, BorrowedConnection<'a>), LlmProblem> {
        loop {
            let kept = endpoint.idle.take(self.idle_time);
            let is_kept = kept.is_some();
            let mut sender = match kept {
                Some(sender) => sender,
                // Rare and large, so that it is not carried along by every request.
                None => Box::pin(self.connect(endpoint)).await?,
            };
            if is_kept && sender.ready().await.is_err() {
                continue;
            }
            match sender.try_send_request(request).await {
                Ok(response) => {
                    let lent = BorrowedConnection {
                        sender,
                        endpoint,
                        most_idle: self.most_idle,
                    };
                    return Ok((response, lent));
                }
                Err(mut failed) => match failed.take_message() {
                    Some(unsent) if is_kept => request = unsent,
                    _ => {
                        return Err(LlmProblem::Broken {
                            reason: explained(failed.error()),
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
        reason: explained(&*error),
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
    // It ends by itself once its sender is dropped.
    TokioExecutor::new().execute(async move {
        if let Err(error) = connection.await {
            tracing::debug!(error = explained(&error), "a connection to a model ended");
        }
    });
    Ok(sender)
}

/// Trusts what the operating system trusts, and does its cryptography with ring.
fn tls() -> Result<rustls::ClientConfig, String> {
    let tls = rustls::ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(BuilderVerifierExt::with_platform_verifier)
        .map_err(|error| format!("TLS cannot be set up: {error}"))?
        .with_no_client_auth();
    Ok(tls)
}

/// An error with what lies under it, because the outermost one only says that something failed.
pub(crate) fn explained(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut below = error.source();
    while let Some(error) = below {
        let more = error.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        below = error.source();
    }
    text
}
