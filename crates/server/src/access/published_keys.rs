//! The issuer's public keys: from a file, or from a URL where they are kept for a while.

use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use jsonwebtoken::jwk::{Jwk, JwkSet, KeyAlgorithm, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey};
use reqwest::Url;
use tokio::sync::Mutex;

use super::AccessError;
use crate::outgoing::{OutgoingClient, OutgoingError};

/// Bytes that a set of keys may have.
const MAX_SET_BYTES: usize = 256 * 1024;

/// Keys that a set may have.
const MAX_KEYS: usize = 100;

/// How long keys are used while no new ones can be had.
const MAX_AGE: Duration = Duration::from_hours(24);

/// Why there is no key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoKey {
    /// The issuer has no such key.
    Unknown,
    /// The issuer's keys cannot be had.
    Unavailable,
}

/// The keys of an issuer.
pub(super) struct PublishedKeys {
    source: Source,
    algorithm: Algorithm,
    known: RwLock<Option<KnownSet>>,
    /// When the source was asked last. Held while it is asked.
    asked: Mutex<Option<Instant>>,
    /// How old keys are before they are asked for again.
    refresh: Duration,
    /// The least time between two requests for keys.
    pause: Duration,
}

enum Source {
    File(PathBuf),
    Url(Url, OutgoingClient),
}

#[derive(Clone)]
struct KnownSet {
    keys: Arc<JwkSet>,
    since: Instant,
}

impl PublishedKeys {
    /// Reads the file, which must be usable.
    pub(super) fn in_file(
        path: &str,
        algorithm: Algorithm,
        pause: Duration,
    ) -> Result<Self, AccessError> {
        let path = PathBuf::from(path);
        let keys = read_file(&path).map_err(|reason| AccessError::Keys {
            path: path.clone(),
            reason,
        })?;
        let source = Source::File(path);
        let published = Self::new(source, algorithm, MAX_AGE, pause);
        published.keep(keys);
        Ok(published)
    }

    /// Asks the URL once a token is verified.
    pub(super) fn at_url(
        url: &str,
        client: OutgoingClient,
        algorithm: Algorithm,
        refresh: Duration,
        pause: Duration,
    ) -> Result<Self, OutgoingError> {
        let source = Source::Url(client.url(url)?, client);
        Ok(Self::new(source, algorithm, refresh, pause))
    }

    fn new(source: Source, algorithm: Algorithm, refresh: Duration, pause: Duration) -> Self {
        Self {
            source,
            algorithm,
            known: RwLock::default(),
            asked: Mutex::default(),
            refresh,
            pause,
        }
    }

    /// The key of an id. Issuers add keys before they sign with them, so an unknown id may mean that there are new ones;
    /// but tokens of anybody can name unknown ids, so the source is asked only so often.
    pub(super) async fn key(&self, id: &str) -> Result<DecodingKey, NoKey> {
        let before = self.known();
        let found = before.as_ref().and_then(|known| self.find(&known.keys, id));
        let is_fresh = before
            .as_ref()
            .is_some_and(|known| known.since.elapsed() < self.refresh);
        if let Some(key) = &found
            && is_fresh
        {
            return Ok(key.clone());
        }
        match (self.asked.try_lock(), found) {
            // Somebody else is asking. Meanwhile the old keys do.
            (Err(_), Some(key)) => return Ok(key),
            (Ok(asked), _) => self.ask(asked).await,
            (Err(_), None) => self.ask(self.asked.lock().await).await,
        }
        let known = self.known().ok_or(NoKey::Unavailable)?;
        self.find(&known.keys, id).ok_or(NoKey::Unknown)
    }

    async fn ask(&self, mut asked: tokio::sync::MutexGuard<'_, Option<Instant>>) {
        if asked.is_some_and(|last| last.elapsed() < self.pause) {
            return;
        }
        let read = match &self.source {
            Source::File(path) => read_file(path),
            Source::Url(url, client) => match client.get(url, MAX_SET_BYTES).await {
                Ok(content) => read_set(&content),
                Err(error) => Err(error.to_string()),
            },
        };
        *asked = Some(Instant::now());
        match read {
            Ok(keys) => self.keep(keys),
            Err(reason) => tracing::warn!(reason, "the issuer's keys cannot be had"),
        }
    }

    fn keep(&self, keys: JwkSet) {
        let known = KnownSet {
            keys: Arc::new(keys),
            since: Instant::now(),
        };
        *self.known.write().unwrap_or_else(PoisonError::into_inner) = Some(known);
    }

    /// The keys, unless they are too old.
    fn known(&self) -> Option<KnownSet> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known
            .clone()
            .filter(|known| known.since.elapsed() < MAX_AGE)
    }

    fn find(&self, keys: &JwkSet, id: &str) -> Option<DecodingKey> {
        let key = keys.find(id).filter(|key| self.signs(key))?;
        DecodingKey::from_jwk(key).ok()
    }

    /// Whether the issuer signs with a key, and by the algorithm of the settings.
    fn signs(&self, key: &Jwk) -> bool {
        let expected = match self.algorithm {
            Algorithm::RS256 => KeyAlgorithm::RS256,
            Algorithm::ES256 => KeyAlgorithm::ES256,
            Algorithm::EdDSA => KeyAlgorithm::EdDSA,
            _ => return false,
        };
        let common = &key.common;
        let is_for_signatures =
            matches!(common.public_key_use, None | Some(PublicKeyUse::Signature));
        is_for_signatures
            && common
                .key_algorithm
                .is_none_or(|algorithm| algorithm == expected)
    }
}

fn read_file(path: &std::path::Path) -> Result<JwkSet, String> {
    let content = std::fs::read(path).map_err(|error| error.to_string())?;
    read_set(&content)
}

/// Reads a set of keys. Keys of kinds that are not known here are left out: an issuer may have them for others.
fn read_set(content: &[u8]) -> Result<JwkSet, String> {
    #[derive(serde::Deserialize)]
    struct AnySet {
        keys: Vec<serde_json::Value>,
    }
    if content.len() > MAX_SET_BYTES {
        return Err(format!("the keys have more than {MAX_SET_BYTES} bytes"));
    }
    let set: AnySet = serde_json::from_slice(content).map_err(|error| error.to_string())?;
    if set.keys.len() > MAX_KEYS {
        return Err(format!("there are more than {MAX_KEYS} keys"));
    }
    let keys = set.keys.into_iter();
    Ok(JwkSet {
        keys: keys
            .filter_map(|key| serde_json::from_value(key).ok())
            .collect(),
    })
}
