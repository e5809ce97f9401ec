//! The one pool of connections that all models share.

use std::error::Error;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{Client, ResponseFuture};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::crypto::ring;
use rustls_platform_verifier::BuilderVerifierExt;

use crate::options::Options;

type Body = Full<Bytes>;

/// The plain connections, and the encrypted ones once somebody wants one: reading what the
/// operating system trusts takes longer than a whole answer of a local model.
#[derive(Debug)]
pub(crate) struct Connections {
    plain: Client<HttpConnector, Body>,
    encrypted: OnceLock<Result<Client<HttpsConnector<HttpConnector>, Body>, String>>,
}

impl Connections {
    pub(crate) fn new(options: &Options) -> Self {
        Self {
            plain: pool(options).build(connector(options)),
            encrypted: OnceLock::new(),
        }
    }

    /// Sends a request on a pooled connection.
    pub(crate) fn send(
        &self,
        request: Request<Body>,
        encrypted: bool,
        options: &Options,
    ) -> Result<ResponseFuture, String> {
        if !encrypted {
            return Ok(self.plain.request(request));
        }
        let client = self.encrypted.get_or_init(|| {
            let tls = tls()?;
            let mut connector = connector(options);
            connector.enforce_http(false);
            let connector = HttpsConnectorBuilder::new()
                .with_tls_config(tls)
                .https_only()
                .enable_http1()
                .wrap_connector(connector);
            Ok(pool(options).build(connector))
        });
        match client {
            Ok(client) => Ok(client.request(request)),
            Err(error) => Err(error.clone()),
        }
    }
}

fn connector(options: &Options) -> HttpConnector {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    connector.set_connect_timeout(Some(options.connect_timeout));
    connector
}

fn pool(options: &Options) -> hyper_util::client::legacy::Builder {
    let mut pool = Client::builder(TokioExecutor::new());
    pool.pool_timer(TokioTimer::new())
        .pool_idle_timeout(options.idle_connection)
        .pool_max_idle_per_host(options.max_concurrent);
    pool
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
