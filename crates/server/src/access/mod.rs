//! Who calls: the principal of a request, from its verified token.

mod jwt;
mod ring_provider;

use std::net::IpAddr;
use std::sync::Arc;

use convoke::local_user;
use convoke_model::{Clock, UserId, UserRole};
use http::{HeaderMap, HeaderValue, StatusCode, header};

use crate::config::ServerConfig;
use crate::problem::Problem;

use jwt::TokenVerifier;
pub use jwt::{AccessError, mint_token};

/// A verified caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Principal {
    /// The user.
    pub user: UserId,
    /// The user's role.
    pub role: UserRole,
}

/// Verifies callers.
#[derive(Debug)]
pub struct Authenticator {
    verifier: Option<TokenVerifier>,
}

impl Authenticator {
    /// Reads the keys. An address that others can reach is served without tokens only if the settings and `without_auth`
    /// both say so.
    pub fn new(
        config: &ServerConfig,
        without_auth: bool,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, AccessError> {
        let address = config.listen;
        let is_local = is_loopback(address.ip());
        let jwt = config.auth.jwt.as_ref();
        let is_required = config.auth.required.unwrap_or(!is_local || jwt.is_some());
        let verifier = match (is_required, jwt) {
            (true, None) => return Err(AccessError::NoKeys { address }),
            (true, Some(jwt)) => Some(TokenVerifier::new(jwt, clock)?),
            (false, _) if is_local || without_auth => None,
            (false, _) => return Err(AccessError::ToldOnce { address }),
        };
        Ok(Self { verifier })
    }

    /// Whether callers need a token.
    pub fn is_required(&self) -> bool {
        self.verifier.is_some()
    }

    /// The caller of a request. Without tokens it is the user of this machine.
    pub(crate) fn principal(&self, headers: &HeaderMap) -> Result<Principal, Problem> {
        let Some(verifier) = &self.verifier else {
            return Ok(Principal {
                user: local_user(),
                role: UserRole::Admin,
            });
        };
        let mut values = headers.get_all(header::AUTHORIZATION).iter();
        let token = match (values.next().map(HeaderValue::to_str), values.next()) {
            (Some(Ok(value)), None) => bearer_token(value),
            _ => None,
        };
        let Some(token) = token else {
            let detail = "the request needs a token: `Authorization: Bearer TOKEN`";
            return Err(unauthorized("auth.token_missing", detail, "Bearer"));
        };
        verifier.verify(token).map_err(|reason| {
            let challenge = "Bearer error=\"invalid_token\"";
            unauthorized(
                "auth.token_invalid",
                &format!("the token is not accepted: {reason}"),
                challenge,
            )
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
    /// The caller of an endpoint that asks for no token. It owns nothing.
    pub(crate) fn nobody() -> Self {
        Self {
            user: UserId::from(uuid::Uuid::nil()),
            role: UserRole::User,
        }
    }
}
