//! Verifies JSON Web Tokens: algorithm pinned, signature, times, issuer, audience; and who they name.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use convoke_model::{Clock, UserId, UserRole};
use jiff::Timestamp;
use jsonwebtoken::jwk::JwkSet;
use jsonwebtoken::{
    Algorithm, DecodingKey, EncodingKey, Header, Validation, decode, decode_header, encode,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::Principal;
use super::ring_provider::install;
use crate::config::{JwtAlgorithm, JwtConfig};

/// Why callers cannot be verified.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// Others could reach the service without a token.
    #[error("{address} needs tokens; set `auth.jwt` in the service's settings")]
    NoKeys {
        /// The address.
        address: SocketAddr,
    },
    /// Others could reach the service without a token, and only the settings say that this is meant.
    #[error(
        "{address} can be reached by others, who could do everything without a token; if that is meant, say so again with --without-auth"
    )]
    ToldOnce {
        /// The address.
        address: SocketAddr,
    },
    /// The file of keys cannot be used.
    #[error("the keys in {} cannot be used: {reason}", path.display())]
    Keys {
        /// The file.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// Tokens are made with a shared secret only.
    #[error("tokens can be made here only with `algorithm: HS256` and a `secret`")]
    NoSecret,
    /// A token could not be made.
    #[error("the token could not be made: {0}")]
    Unmade(String),
}

impl AccessError {
    /// Stable and greppable.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoKeys { .. } => "server.auth_missing",
            Self::ToldOnce { .. } => "server.auth_off",
            Self::Keys { .. } => "server.jwks",
            Self::NoSecret => "server.no_secret",
            Self::Unmade(_) => "server.token",
        }
    }
}

/// The claims that are read. Times are checked here, by the service's clock.
#[derive(Debug, Deserialize)]
struct Claims {
    sub: String,
    exp: f64,
    #[serde(default)]
    nbf: Option<f64>,
    #[serde(default)]
    iss: Option<String>,
    #[serde(flatten)]
    others: Map<String, Value>,
}

/// Verifies tokens.
pub(super) struct TokenVerifier {
    keys: Keys,
    validation: Validation,
    role_claim: String,
    leeway_seconds: f64,
    clock: Arc<dyn Clock>,
}

enum Keys {
    Shared(DecodingKey),
    Published { path: PathBuf, set: RwLock<JwkSet> },
}

impl TokenVerifier {
    pub(super) fn new(config: &JwtConfig, clock: Arc<dyn Clock>) -> Result<Self, AccessError> {
        install();
        let keys = match (&config.secret, &config.jwks_file) {
            (Some(secret), _) => Keys::Shared(DecodingKey::from_secret(secret.as_bytes())),
            (None, path) => {
                let path = PathBuf::from(path.as_deref().unwrap_or_default());
                let set = RwLock::new(read_keys(&path)?);
                Keys::Published { path, set }
            }
        };
        let mut validation = Validation::new(algorithm(config.algorithm));
        validation.required_spec_claims = ["exp", "sub"].map(Into::into).into();
        // The service's clock decides.
        validation.validate_exp = false;
        validation.validate_nbf = false;
        match &config.audience {
            Some(audience) => {
                validation.set_audience(&[audience]);
                validation.required_spec_claims.insert("aud".into());
            }
            None => validation.validate_aud = false,
        }
        if let Some(issuer) = &config.issuer {
            validation.set_issuer(&[issuer]);
            validation.required_spec_claims.insert("iss".into());
        }
        Ok(Self {
            keys,
            validation,
            role_claim: config.role_claim.clone(),
            leeway_seconds: config.leeway_seconds.into(),
            clock,
        })
    }

    /// The caller that a token names, or why it is not accepted.
    pub(super) fn verify(&self, token: &str) -> Result<Principal, String> {
        let claims = match &self.keys {
            Keys::Shared(key) => self.claims(token, key)?,
            Keys::Published { path, set } => {
                let header = decode_header(token).map_err(|_| "it is no JSON Web Token")?;
                let id = header.kid.ok_or("it names no key (`kid`)")?;
                let known = published_key(set, &id);
                // Issuers add keys before they sign with them.
                let key = known.or_else(|| {
                    let current = read_keys(path).ok()?;
                    *set.write().unwrap_or_else(PoisonError::into_inner) = current;
                    published_key(set, &id)
                });
                let key = key.ok_or("its key is unknown")?;
                self.claims(token, &key)?
            }
        };
        let now = self.clock.now().as_duration().as_secs_f64();
        if claims.exp + self.leeway_seconds <= now {
            return Err("it has expired".into());
        }
        if claims
            .nbf
            .is_some_and(|from| from > now + self.leeway_seconds)
        {
            return Err("it is not valid yet".into());
        }
        Ok(Principal {
            user: user_of(claims.iss.as_deref(), &claims.sub)?,
            role: self.role_of(&claims.others),
        })
    }

    fn claims(&self, token: &str, key: &DecodingKey) -> Result<Claims, String> {
        let read = decode::<Claims>(token, key, &self.validation);
        read.map(|token| token.claims).map_err(|error| {
            use jsonwebtoken::errors::ErrorKind;
            match error.kind() {
                ErrorKind::InvalidAlgorithm => "it is signed with another algorithm".into(),
                ErrorKind::InvalidSignature => "its signature is wrong".into(),
                ErrorKind::InvalidIssuer => "it is of another issuer".into(),
                ErrorKind::InvalidAudience => "it is for another audience".into(),
                ErrorKind::MissingRequiredClaim(claim) => format!("it has no `{claim}`"),
                _ => "it is no JSON Web Token, or its claims cannot be read".into(),
            }
        })
    }

    /// The highest role that is named. Roles that mean nothing here give nothing.
    fn role_of(&self, claims: &Map<String, Value>) -> UserRole {
        let named = match claims.get(&self.role_claim) {
            None => &[][..],
            Some(Value::Array(roles)) => roles,
            Some(role) => std::slice::from_ref(role),
        };
        let roles = named
            .iter()
            .filter_map(|role| UserRole::deserialize(role).ok());
        roles.max().unwrap_or(UserRole::User)
    }
}

impl std::fmt::Debug for TokenVerifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TokenVerifier")
    }
}

/// The user that a token names: its subject if that is a UUID, and otherwise one made from issuer and subject, the same
/// every time.
fn user_of(issuer: Option<&str>, subject: &str) -> Result<UserId, String> {
    if subject.is_empty() {
        return Err("its subject is empty".into());
    }
    Ok(UserId::parse(subject).unwrap_or_else(|_| {
        let named = format!("{}\n{subject}", issuer.unwrap_or_default());
        UserId::from(Uuid::new_v5(&Uuid::NAMESPACE_URL, named.as_bytes()))
    }))
}

fn algorithm(algorithm: JwtAlgorithm) -> Algorithm {
    match algorithm {
        JwtAlgorithm::HS256 => Algorithm::HS256,
        JwtAlgorithm::RS256 => Algorithm::RS256,
        JwtAlgorithm::ES256 => Algorithm::ES256,
        JwtAlgorithm::EdDsa => Algorithm::EdDSA,
    }
}

fn read_keys(path: &Path) -> Result<JwkSet, AccessError> {
    let unusable = |reason: String| AccessError::Keys {
        path: path.to_owned(),
        reason,
    };
    let text = std::fs::read(path).map_err(|error| unusable(error.to_string()))?;
    serde_json::from_slice(&text).map_err(|error| unusable(error.to_string()))
}

fn published_key(set: &RwLock<JwkSet>, id: &str) -> Option<DecodingKey> {
    let set = set.read().unwrap_or_else(PoisonError::into_inner);
    DecodingKey::from_jwk(set.find(id)?).ok()
}

#[derive(Serialize)]
struct MintedClaims<'a> {
    sub: &'a str,
    iat: i64,
    exp: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    iss: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    aud: Option<&'a str>,
    #[serde(flatten)]
    role: Map<String, Value>,
}

/// Makes a token for development, as the service accepts it. Needs the shared secret.
pub fn mint_token(
    config: &JwtConfig,
    subject: &str,
    role: UserRole,
    now: Timestamp,
    lifetime: std::time::Duration,
) -> Result<String, AccessError> {
    install();
    let secret = config.secret.as_ref().ok_or(AccessError::NoSecret)?;
    let seconds = i64::try_from(lifetime.as_secs()).unwrap_or(i64::MAX);
    let claims = MintedClaims {
        sub: subject,
        iat: now.as_second(),
        exp: now.as_second().saturating_add(seconds),
        iss: config.issuer.as_deref(),
        aud: config.audience.as_deref(),
        role: [(config.role_claim.clone(), role.as_str().into())]
            .into_iter()
            .collect(),
    };
    let key = EncodingKey::from_secret(secret.as_bytes());
    encode(&Header::new(Algorithm::HS256), &claims, &key)
        .map_err(|error| AccessError::Unmade(error.to_string()))
}
