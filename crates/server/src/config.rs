//! The settings of a service: where it listens, who may call it, and its limits. They belong to the process, not to an app.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use convoke_model::{Report, Rules};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The settings of a service.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ServerConfig {
    /// The address and port to listen on. Port 0 takes a free one.
    #[schemars(with = "String")]
    pub listen: SocketAddr,
    /// The app whose endpoints are also at the root. With a single app, it is that one.
    pub root: Option<String>,
    /// The names under which clients may address the service (`Host`). The address it listens on, `localhost` and loopback
    /// addresses are always among them.
    pub hosts: Vec<String>,
    /// Pages of other origins that may call the service from a browser.
    pub cors: CorsConfig,
    /// Who may call.
    pub auth: AuthConfig,
    /// Requests that the service makes itself.
    pub outgoing: OutgoingConfig,
    /// Every limit.
    pub limits: ServerLimits,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            listen: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8080),
            root: None,
            hosts: Vec::new(),
            cors: CorsConfig::default(),
            auth: AuthConfig::default(),
            outgoing: OutgoingConfig::default(),
            limits: ServerLimits::default(),
        }
    }
}

/// Pages of other origins.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CorsConfig {
    /// Origins such as `https://app.example.com`. A request of any other origin is refused.
    pub origins: Vec<String>,
}

/// Requests that the service makes itself, such as for an issuer's keys.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct OutgoingConfig {
    /// Hosts that may be in a private network, and be asked without TLS: names or addresses, without a port. All others must
    /// be public and speak TLS.
    pub private_hosts: Vec<String>,
}

/// Who may call the service.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AuthConfig {
    /// Whether a token is required. By default it is, unless the service listens on a loopback address and neither `jwt` nor
    /// `keys_file` is set.
    /// Without tokens, everybody who reaches the service is the user of this machine, with all rights.
    pub required: Option<bool>,
    /// JSON Web Tokens.
    pub jwt: Option<JwtConfig>,
    /// The file of API keys, which `convoke keys` writes. It is read again when it changes.
    pub keys_file: Option<String>,
}

/// How tokens are verified.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JwtConfig {
    /// The only algorithm that is accepted.
    pub algorithm: JwtAlgorithm,
    /// The shared secret, for `HS256`: at least 32 bytes.
    #[serde(default)]
    pub secret: Option<String>,
    /// A file with the issuer's public keys (JWKS), for the other algorithms. It is read again when a token names an
    /// unknown key.
    #[serde(default)]
    pub jwks_file: Option<String>,
    /// Where the issuer publishes its public keys (JWKS), instead of a file.
    #[serde(default)]
    pub jwks_url: Option<String>,
    /// Seconds after which the keys at `jwks_url` are fetched again.
    #[serde(default = "default_jwks_refresh_seconds")]
    pub jwks_refresh_seconds: u32,
    /// Seconds between two fetches at least, however many tokens name unknown keys.
    #[serde(default = "default_jwks_pause_seconds")]
    pub jwks_pause_seconds: u32,
    /// The issuer that a token must name (`iss`).
    #[serde(default)]
    pub issuer: Option<String>,
    /// The audience that a token must name (`aud`).
    #[serde(default)]
    pub audience: Option<String>,
    /// The claim with the caller's role: `user`, `operator` or `admin`. A token without it is a user's.
    #[serde(default = "default_role_claim")]
    pub role_claim: String,
    /// The claim with the apps that the token is good for: a name or a list of them. A token without it is good for all.
    #[serde(default = "default_apps_claim")]
    pub apps_claim: String,
    /// Seconds by which clocks may differ.
    #[serde(default = "default_leeway_seconds")]
    pub leeway_seconds: u32,
}

fn default_role_claim() -> String {
    "role".into()
}

fn default_apps_claim() -> String {
    "apps".into()
}

fn default_jwks_refresh_seconds() -> u32 {
    300
}

fn default_jwks_pause_seconds() -> u32 {
    30
}

fn default_leeway_seconds() -> u32 {
    60
}

/// A signature algorithm of tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum JwtAlgorithm {
    /// HMAC with SHA-256 and a shared secret.
    HS256,
    /// RSA PKCS #1 v1.5 with SHA-256.
    RS256,
    /// ECDSA over P-256 with SHA-256.
    ES256,
    /// Ed25519.
    #[serde(rename = "EdDSA")]
    EdDsa,
}

/// The limits of a service.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ServerLimits {
    /// Open connections. Further ones wait to be accepted.
    pub connections: u32,
    /// Bytes of a request's line and headers.
    pub header_bytes: u32,
    /// Bytes of a request's body.
    pub body_bytes: u32,
    /// Seconds in which a request's headers must have arrived, and then its body.
    pub read_seconds: u32,
    /// Seconds that a request waits for its task; it is then told where the task stands.
    pub wait_seconds: u32,
    /// Seconds between comments on a stream without events, so that proxies keep it open.
    pub keep_alive_seconds: u32,
    /// Seconds of silence after which the operating system asks a client whether it is still there, and for which it waits
    /// for each answer. A stream to a client that is gone ends after a few times that.
    pub probe_seconds: u32,
    /// Requests per user and minute, on average.
    pub requests_per_minute: u32,
    /// Requests that a user may make at once beyond the average.
    pub request_burst: u32,
    /// Combinations of labels that a metric may have. What goes beyond is counted under `_OTHER`.
    pub metric_series: u32,
    /// Seconds that stopping waits for answers on their way.
    pub shutdown_seconds: u32,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            connections: 20_000,
            header_bytes: 16 * 1024,
            body_bytes: 1024 * 1024,
            read_seconds: 30,
            wait_seconds: 60,
            keep_alive_seconds: 15,
            probe_seconds: 60,
            requests_per_minute: 1_200,
            request_burst: 200,
            metric_series: 1_000,
            shutdown_seconds: 10,
        }
    }
}

/// Bytes that a shared secret has at least: as many as the hash.
const MIN_SECRET_BYTES: usize = 32;

/// Bytes that the HTTP parser needs at least.
const MIN_HEADER_BYTES: u32 = 8 * 1024;

impl Rules for ServerConfig {
    fn rules(&self, report: &mut Report) {
        report.within("limits", |report| check_limits(&self.limits, report));
        if let Some(jwt) = &self.auth.jwt {
            report.within("auth", |report| {
                report.within("jwt", |report| check_jwt(jwt, report));
            });
        }
        report.within("cors", |report| {
            report.within("origins", |report| {
                for (index, origin) in self.cors.origins.iter().enumerate() {
                    let has_scheme = ["http://", "https://"].iter().any(|it| origin.starts_with(it));
                    report.require(
                        has_scheme && origin.matches('/').count() == 2,
                        index,
                        "server.origin",
                        "an origin is a scheme, a host and a port, such as `https://app.example.com`",
                    );
                }
            });
        });
    }
}

fn check_limits(limits: &ServerLimits, report: &mut Report) {
    let positive = [
        ("connections", limits.connections),
        ("body_bytes", limits.body_bytes),
        ("read_seconds", limits.read_seconds),
        ("wait_seconds", limits.wait_seconds),
        ("keep_alive_seconds", limits.keep_alive_seconds),
        ("probe_seconds", limits.probe_seconds),
        ("requests_per_minute", limits.requests_per_minute),
        ("request_burst", limits.request_burst),
        ("metric_series", limits.metric_series),
    ];
    for (name, value) in positive {
        report.require(
            value > 0,
            name,
            "server.limit_zero",
            "the limit is at least 1",
        );
    }
    report.require(
        limits.header_bytes >= MIN_HEADER_BYTES,
        "header_bytes",
        "server.header_bytes",
        format_args!("the limit is at least {MIN_HEADER_BYTES}"),
    );
}

fn check_jwt(jwt: &JwtConfig, report: &mut Report) {
    let is_symmetric = jwt.algorithm == JwtAlgorithm::HS256;
    let length = jwt.secret.as_ref().map_or(0, String::len);
    if is_symmetric {
        report.require(
            length >= MIN_SECRET_BYTES,
            "secret",
            "server.jwt_secret",
            format_args!("`HS256` needs a secret of at least {MIN_SECRET_BYTES} bytes"),
        );
    } else {
        let message = "a shared secret is for `HS256` only";
        report.require(jwt.secret.is_none(), "secret", "server.jwt_secret", message);
    }
    let sources = usize::from(jwt.jwks_file.is_some()) + usize::from(jwt.jwks_url.is_some());
    report.require(
        sources == usize::from(!is_symmetric),
        "jwks_file",
        "server.jwt_keys",
        "`RS256`, `ES256` and `EdDSA` need the issuer's keys, from `jwks_file` or from `jwks_url`, and `HS256` has none",
    );
    for (name, value) in [
        ("jwks_refresh_seconds", jwt.jwks_refresh_seconds),
        ("jwks_pause_seconds", jwt.jwks_pause_seconds),
    ] {
        let message = "the limit is at least 1";
        report.require(value > 0, name, "server.limit_zero", message);
    }
}
