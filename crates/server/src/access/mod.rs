//! Who calls: the principal of a request, from its verified token or key.

mod jwt;
mod keys;
mod published_keys;
mod ring_provider;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use convoke::local_user;
use convoke_model::{Clock, UserId, UserRole};
use http::{HeaderMap, HeaderValue, StatusCode, header};

use crate::config::ServerConfig;
use crate::problem::Problem;

use jwt::TokenVerifier;
use keys::KeyRing;

pub use jwt::{AccessError, NewToken, mint_token, user_of_name};
pub use keys::{KeyError, KeyFile, NewKey, StoredKey};

/// A verified caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    /// The user.
    pub user: UserId,
    /// The user's role.
    pub role: UserRole,
    /// The apps that the token or the key is good for; all without.
    pub apps: Option<Arc<[String]>>,
    /// The id of the key that was used, if it was one.
    pub key: Option<Arc<str>>,
}

/// Verifies callers.
#[derive(Debug)]
pub struct Authenticator {
    is_required: bool,
    tokens: Option<TokenVerifier>,
    keys: Option<KeyRing>,
}

/// Why a token or a key is not accepted.
#[derive(Debug)]
enum Refusal {
    /// Something about it is wrong.
    Wrong(String),
    /// Nothing can be verified now.
    KeysUnavailable,
}

impl<T: Into<String>> From<T> for Refusal {
    fn from(reason: T) -> Self {
        Self::Wrong(reason.into())
    }
}

/// When to come back while the issuer's keys cannot be had.
const KEYS_RETRY: Duration = Duration::from_secs(5);

impl Authenticator {
    /// Reads the keys. An address that others can reach is served without tokens only if the settings and `without_auth`
    /// both say so.
    pub fn new(
        config: &ServerConfig,
        without_auth: bool,
        clock: &Arc<dyn Clock>,
    ) -> Result<Self, AccessError> {
        let address = config.listen;
        let is_local = is_loopback(address.ip());
        let auth = &config.auth;
        let has_keys = auth.jwt.is_some() || auth.keys_file.is_some();
        let is_required = auth.required.unwrap_or(!is_local || has_keys);
        match (is_required, has_keys) {
            (true, false) => return Err(AccessError::NoKeys { address }),
            (false, _) if !is_local && !without_auth => {
                return Err(AccessError::ToldOnce { address });
            }
            (false, _) => {
                return Ok(Self {
                    is_required,
                    tokens: None,
                    keys: None,
                });
            }
            (true, true) => {}
        }
        let hosts = &config.outgoing.private_hosts;
        let tokens = auth.jwt.as_ref();
        let tokens = tokens.map(|jwt| TokenVerifier::new(jwt, hosts, Arc::clone(clock)));
        let keys = auth.keys_file.as_ref();
        let keys = keys.map(|file| KeyRing::new(file, Arc::clone(clock)));
        Ok(Self {
            is_required,
            tokens: tokens.transpose()?,
            keys: keys.transpose()?,
        })
    }

    /// Whether callers need a token.
    pub fn is_required(&self) -> bool {
        self.is_required
    }

    /// The caller of a request. Without tokens it is the user of this machine.
    pub(crate) async fn principal(&self, headers: &HeaderMap) -> Result<Principal, Problem> {
        if !self.is_required {
            return Ok(Principal {
                user: local_user(),
                role: UserRole::Admin,
                apps: None,
                key: None,
            });
        }
        let mut values = headers.get_all(header::AUTHORIZATION).iter();
        let token = match (values.next().map(HeaderValue::to_str), values.next()) {
            (Some(Ok(value)), None) => bearer_token(value),
            _ => None,
        };
        let Some(token) = token else {
            let detail = "the request needs a token: `Authorization: Bearer TOKEN`";
            return Err(unauthorized("auth.token_missing", detail, "Bearer"));
        };
        let verified = match (&self.keys, &self.tokens) {
            (Some(keys), _) if token.starts_with(keys::PREFIX) => {
                keys.verify(token).map_err(Refusal::from)
            }
            (_, Some(tokens)) => tokens.verify(token).await,
            (_, None) => Err("it is no valid key".into()),
        };
        verified.map_err(|refusal| match refusal {
            Refusal::Wrong(reason) => {
                let challenge = "Bearer error=\"invalid_token\"";
                unauthorized(
                    "auth.token_invalid",
                    &format!("the token is not accepted: {reason}"),
                    challenge,
                )
            }
            Refusal::KeysUnavailable => {
                let detail = "tokens cannot be verified now: the issuer's keys cannot be had";
                let status = StatusCode::SERVICE_UNAVAILABLE;
                Problem::new(status, "auth.keys_unavailable", detail).retry_after(KEYS_RETRY)
            }
        })
    }
}

fn bearer_token(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

fn unauthorized(code: &'static str, detail: &str, challenge: &'static str) -> Problem {
    Problem::new(StatusCode::UNAUTHORIZED, code, detail).header(
        header::WWW_AUTHENTICATE,
        HeaderValue::from_static(challenge),
    )
}

/// Whether only this machine can reach an address.
pub(crate) fn is_loopback(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_loopback(),
        IpAddr::V6(address) => {
            address.is_loopback() || address.to_ipv4_mapped().is_some_and(|it| it.is_loopback())
        }
    }
}

impl Principal {
    /// Whether the token or the key is good for an app.
    pub(crate) fn may_use(&self, app: &str) -> bool {
        let apps = self.apps.as_ref();
        apps.is_none_or(|apps| apps.iter().any(|known| known == app))
    }

    /// The caller of an endpoint that asks for no token. It owns nothing.
    pub(crate) fn nobody() -> Self {
        Self {
            user: UserId::from(uuid::Uuid::nil()),
            role: UserRole::User,
            apps: None,
            key: None,
        }
    }
}
