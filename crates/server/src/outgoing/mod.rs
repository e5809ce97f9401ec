//! Requests that the service makes itself. A guard keeps them out of private networks: names are resolved first, and only
//! addresses that it permits are connected to. Redirects are not followed.

mod guard;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use reqwest::Url;
use reqwest::redirect::Policy;
use rustls_platform_verifier::BuilderVerifierExt;

use guard::{GuardedResolver, PermittedHosts};

/// Time limit of a request, with its answer.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Why a request was not answered.
#[derive(Debug, thiserror::Error)]
pub enum OutgoingError {
    /// The URL is none that may be asked.
    #[error(
        "`{0}` is no https:// URL of a public host; list a host of your own network in `outgoing.private_hosts`"
    )]
    Refused(String),
    /// TLS cannot be set up on this machine.
    #[error("the HTTP client cannot be set up: {0}")]
    Setup(String),
    /// There was no answer, or none that can be used.
    #[error("{0}")]
    Failed(String),
}

/// A client for requests that the service makes itself.
#[derive(Clone)]
pub(crate) struct OutgoingClient {
    client: reqwest::Client,
    permitted: Arc<PermittedHosts>,
}

impl OutgoingClient {
    /// A client that reaches these hosts of private networks and all public ones.
    pub(crate) fn new(private_hosts: &[String]) -> Result<Self, OutgoingError> {
        let permitted = Arc::new(PermittedHosts::new(private_hosts));
        let setup = |error: &dyn std::fmt::Display| OutgoingError::Setup(error.to_string());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .and_then(BuilderVerifierExt::with_platform_verifier)
            .map_err(|error| setup(&error))?
            .with_no_client_auth();
        let client = reqwest::Client::builder()
            .tls_backend_preconfigured(tls)
            .redirect(Policy::none())
            // A proxy would resolve names past the guard.
            .no_proxy()
            .timeout(TIMEOUT)
            .dns_resolver(Arc::new(GuardedResolver::new(Arc::clone(&permitted))))
            .build()
            .map_err(|error| setup(&error))?;
        Ok(Self { client, permitted })
    }

    /// Reads a URL, or says why it may not be asked.
    pub(crate) fn url(&self, text: &str) -> Result<Url, OutgoingError> {
        let refused = || OutgoingError::Refused(text.to_owned());
        let url = Url::parse(text).map_err(|_| refused())?;
        let has_no_name = url.username().is_empty() && url.password().is_none();
        if has_no_name && self.permitted.permits(&url) {
            return Ok(url);
        }
        Err(refused())
    }

    /// What is at a URL, of at most this many bytes.
    pub(crate) async fn get(&self, url: &Url, most_bytes: usize) -> Result<Bytes, OutgoingError> {
        let failed = |error: reqwest::Error| OutgoingError::Failed(causes(&error.without_url()));
        let sent = self.client.get(url.clone()).send().await;
        let mut response = sent.map_err(failed)?;
        let status = response.status();
        if status != http::StatusCode::OK {
            return Err(OutgoingError::Failed(format!(
                "the server answered {status}"
            )));
        }
        let mut content = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(failed)? {
            if content.len() + chunk.len() > most_bytes {
                let message = format!("the answer has more than {most_bytes} bytes");
                return Err(OutgoingError::Failed(message));
            }
            content.extend_from_slice(&chunk);
        }
        Ok(content.into())
    }
}

/// An error with its causes.
fn causes(error: &dyn std::error::Error) -> String {
    let mut message = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        message = format!("{message}: {next}");
        cause = next.source();
    }
    message
}

impl std::fmt::Debug for OutgoingClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OutgoingClient")
    }
}
