//! Verifies JSON Web Tokens: algorithm pinned, signature, times, issuer, audience; and who they name.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use convoke_model::{Clock, UserId, UserRole};
use jiff::Timestamp;
use jsonwebtoken::{
    Algorithm, DecodingKey, EncodingKey, Header, Validation, decode, decode_header, encode,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::keys::KeyError;
use super::published_keys::{NoKey, PublishedKeys};
use super::ring_provider::install;
use super::{Principal, Refusal};
use crate::config::{JwtAlgorithm, JwtConfig};
use crate::outgoing::{OutgoingClient, OutgoingError};

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
    /// The URL of keys cannot be used.
    #[error("`auth.jwt.jwks_url`: {0}")]
    Url(#[from] OutgoingError),
    /// The API keys cannot be used.
    #[error(transparent)]
    ApiKeys(#[from] KeyError),
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
            Self::Url(_) => "server.jwks_url",
            Self::ApiKeys(error) => error.code(),
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

const OTHER_ALGORITHM: &str = "it is signed with another algorithm";

/// Verifies tokens.
pub(super) struct TokenVerifier {
    keys: Keys,
    validation: Validation,
    role_claim: String,
    apps_claim: String,
    leeway_seconds: f64,
    clock: Arc<dyn Clock>,
}

enum Keys {
    Shared(DecodingKey),
    Published(PublishedKeys),
}

impl TokenVerifier {
    pub(super) fn new(
        config: &JwtConfig,
        private_hosts: &[String],
        clock: Arc<dyn Clock>,
    ) -> Result<Self, AccessError> {
        install();
        let pause = Duration::from_secs(config.jwks_pause_seconds.into());
        let refresh = Duration::from_secs(config.jwks_refresh_seconds.into());
        let signed = algorithm(config.algorithm);
        let keys = match (&config.secret, &config.jwks_url) {
            (Some(secret), _) => Keys::Shared(DecodingKey::from_secret(secret.as_bytes())),
            (None, Some(url)) => {
                let client = OutgoingClient::new(private_hosts)?;
                let keys = PublishedKeys::at_url(url, client, signed, refresh, pause);
                Keys::Published(keys?)
            }
            (None, None) => {
                let file = config.jwks_file.as_deref().unwrap_or_default();
                Keys::Published(PublishedKeys::in_file(file, signed, pause)?)
            }
        };
        let mut validation = Validation::new(signed);
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
            apps_claim: config.apps_claim.clone(),
            leeway_seconds: config.leeway_seconds.into(),
            clock,
        })
    }

    /// The caller that a token names, or why it is not accepted.
    pub(super) async fn verify(&self, token: &str) -> Result<Principal, Refusal> {
        let claims = match &self.keys {
            Keys::Shared(key) => self.claims(token, key)?,
            Keys::Published(keys) => {
                let header = decode_header(token).map_err(|_| "it is no JSON Web Token")?;
                if !self.validation.algorithms.contains(&header.alg) {
                    return Err(OTHER_ALGORITHM.into());
                }
                let id = header.kid.ok_or("it names no key (`kid`)")?;
                let key = keys.key(&id).await.map_err(|missing| match missing {
                    NoKey::Unknown => "its key is unknown".into(),
                    NoKey::Unavailable => Refusal::KeysUnavailable,
                })?;
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
            apps: self.apps_of(&claims.others)?,
            key: None,
        })
    }

    /// The apps that are named, if there is a claim of them. One that cannot be read is not ignored: it was meant to limit.
    fn apps_of(&self, claims: &Map<String, Value>) -> Result<Option<Arc<[String]>>, String> {
        let claim = match claims.get(&self.apps_claim) {
            None | Some(Value::Null) => return Ok(None),
            Some(Value::Array(apps)) => apps.as_slice(),
            Some(app) => std::slice::from_ref(app),
        };
        let names = claim.iter().map(|app| app.as_str().map(str::to_owned));
        let apps = names.collect::<Option<Vec<String>>>();
        let apps = apps.ok_or_else(|| format!("its `{}` are no names of apps", self.apps_claim))?;
        Ok(Some(apps.into()))
    }

    fn claims(&self, token: &str, key: &DecodingKey) -> Result<Claims, String> {
        let read = decode::<Claims>(token, key, &self.validation);
        read.map(|token| token.claims).map_err(|error| {
            use jsonwebtoken::errors::ErrorKind;
            match error.kind() {
                ErrorKind::InvalidAlgorithm => OTHER_ALGORITHM.into(),
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
    others: Map<String, Value>,
}

/// What a token says.
#[derive(Debug, Clone)]
pub struct NewToken<'a> {
    /// Whom it names: a UUID, or any name.
    pub subject: &'a str,
    /// In which role.
    pub role: UserRole,
    /// The apps that it is good for; empty for all.
    pub apps: &'a [String],
    /// For how long it is valid.
    pub lifetime: Duration,
}

/// The user that a name stands for: a UUID as it is, any other name as in the tokens of these settings.
pub fn user_of_name(config: Option<&JwtConfig>, name: &str) -> Result<UserId, String> {
    user_of(config.and_then(|jwt| jwt.issuer.as_deref()), name)
}

/// Makes a token for development, as the service accepts it. Needs the shared secret.
pub fn mint_token(
    config: &JwtConfig,
    token: &NewToken<'_>,
    now: Timestamp,
) -> Result<String, AccessError> {
    install();
    let secret = config.secret.as_ref().ok_or(AccessError::NoSecret)?;
    let seconds = i64::try_from(token.lifetime.as_secs()).unwrap_or(i64::MAX);
    let mut others = Map::from_iter([(config.role_claim.clone(), token.role.as_str().into())]);
    if !token.apps.is_empty() {
        others.insert(config.apps_claim.clone(), token.apps.into());
    }
    let claims = MintedClaims {
        sub: token.subject,
        iat: now.as_second(),
        exp: now.as_second().saturating_add(seconds),
        iss: config.issuer.as_deref(),
        aud: config.audience.as_deref(),
        others,
    };
    let key = EncodingKey::from_secret(secret.as_bytes());
    encode(&Header::new(Algorithm::HS256), &claims, &key)
        .map_err(|error| AccessError::Unmade(error.to_string()))
}
