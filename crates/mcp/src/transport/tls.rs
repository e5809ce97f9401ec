//! The HTTP client shared by all servers.

use std::sync::Arc;
use std::time::Duration;

use reqwest::redirect::Policy;
use rustls::crypto::ring;
use rustls_platform_verifier::BuilderVerifierExt;

/// Limit of redirects. Redirects to another origin are never followed, because they would leak the
/// server's headers.
const MAX_REDIRECTS: usize = 3;

/// How long an idle connection is kept.
const IDLE_CONNECTION: Duration = Duration::from_secs(30);

/// A client with the system's certificates and the ring provider.
pub(crate) fn http_client() -> Result<reqwest::Client, String> {
    let tls = rustls::ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(BuilderVerifierExt::with_platform_verifier)
        .map_err(|error| format!("TLS cannot be set up: {error}"))?
        .with_no_client_auth();
    reqwest::Client::builder()
        .tls_backend_preconfigured(tls)
        .redirect(Policy::custom(|attempt| {
            let same_origin = attempt
                .previous()
                .last()
                .is_some_and(|from| from.origin() == attempt.url().origin());
            if same_origin && attempt.previous().len() <= MAX_REDIRECTS {
                attempt.follow()
            } else {
                attempt.stop()
            }
        }))
        .pool_idle_timeout(IDLE_CONNECTION)
        .build()
        .map_err(|error| format!("the HTTP client cannot be set up: {error}"))
}
