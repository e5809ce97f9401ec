//! API keys. The file has the hash of each key's secret, never the secret: who reads the file can call nobody's app.

use std::collections::HashMap;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use convoke_model::{Clock, UserId, UserRole};
use jiff::Timestamp;
use ring::digest;
use ring::rand::{SecureRandom, SystemRandom};
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq;

use super::Principal;

/// What every key begins with, so that one that leaks is recognised.
pub(super) const PREFIX: &str = "cvk_";

/// Random bytes of a secret.
const SECRET_BYTES: usize = 32;

/// Random bytes of an id.
const ID_BYTES: usize = 8;

/// Keys that a file may have.
const MAX_KEYS: usize = 10_000;

/// Bytes that a file may have.
const MAX_FILE_BYTES: u64 = 8 * 1024 * 1024;

/// Why keys cannot be used or changed.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The settings name no file.
    #[error("the settings name no file of keys; set `auth.keys_file`")]
    NoFile,
    /// The file cannot be read, written, or is no file of keys.
    #[error("the keys in {} cannot be used: {reason}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// There is no such key.
    #[error("there is no key `{0}`")]
    Unknown(String),
    /// The file is full.
    #[error("the file has {MAX_KEYS} keys already; it takes no more")]
    Full,
    /// The key was revoked before.
    #[error("the key `{0}` was revoked before")]
    Revoked(String),
}

impl KeyError {
    /// Stable and greppable.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoFile => "keys.no_file",
            Self::File { .. } => "keys.file",
            Self::Unknown(_) => "keys.not_found",
            Self::Full => "keys.full",
            Self::Revoked(_) => "keys.revoked",
        }
    }
}

/// A key without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredKey {
    /// Names the key in lists and logs.
    pub id: String,
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The SHA-256 of the secret, as hexadecimal digits.
    hash: String,
    /// Whoever calls with it is this user.
    pub user: UserId,
    /// In this role.
    pub role: UserRole,
    /// The apps that it is good for; empty for all.
    #[serde(default)]
    pub apps: Vec<String>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it ends.
    pub expires_at: Timestamp,
    /// When it was revoked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<Timestamp>,
}

/// What a key is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewKey {
    /// What it is for.
    pub name: Option<String>,
    /// Whoever calls with it is this user.
    pub user: UserId,
    /// In this role.
    pub role: UserRole,
    /// The apps that it is good for; empty for all.
    pub apps: Vec<String>,
    /// When it is made.
    pub created_at: Timestamp,
    /// When it ends.
    pub expires_at: Timestamp,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Keys {
    keys: Vec<StoredKey>,
}

impl StoredKey {
    /// Whether it is neither over nor revoked.
    pub fn is_valid(&self, now: Timestamp) -> bool {
        self.revoked_at.is_none() && now < self.expires_at
    }
}

/// A file of keys. Processes that change it take turns, and a reader sees it before or after a change.
#[derive(Debug, Clone)]
pub struct KeyFile {
    path: PathBuf,
}

impl KeyFile {
    /// The file at a path. It need not exist.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// All keys, oldest first.
    pub fn keys(&self) -> Result<Vec<StoredKey>, KeyError> {
        match File::open(&self.path) {
            Ok(file) => self.read(file),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(self.unusable(&error)),
        }
    }

    /// Makes a key. Its text is known to nobody else and is not stored.
    pub fn create(&self, new: NewKey) -> Result<(StoredKey, String), KeyError> {
        let id = hexadecimal(&self.random::<ID_BYTES>()?);
        let secret = URL_SAFE_NO_PAD.encode(self.random::<SECRET_BYTES>()?);
        let key = StoredKey {
            id,
            name: new.name,
            hash: hash_of(&secret),
            user: new.user,
            role: new.role,
            apps: new.apps,
            created_at: new.created_at,
            expires_at: new.expires_at,
            revoked_at: None,
        };
        let text = format!("{PREFIX}{}_{secret}", key.id);
        self.change(|keys| {
            if keys.len() >= MAX_KEYS {
                return Err(KeyError::Full);
            }
            keys.push(key.clone());
            Ok(())
        })?;
        Ok((key, text))
    }

    /// Ends a key from now on.
    pub fn revoke(&self, id: &str, now: Timestamp) -> Result<StoredKey, KeyError> {
        self.change(|keys| {
            let key = keys.iter_mut().find(|key| key.id == id);
            let key = key.ok_or_else(|| KeyError::Unknown(id.to_owned()))?;
            if key.revoked_at.is_some() {
                return Err(KeyError::Revoked(id.to_owned()));
            }
            key.revoked_at = Some(now);
            Ok(key.clone())
        })
    }

    fn change<T>(
        &self,
        change: impl FnOnce(&mut Vec<StoredKey>) -> Result<T, KeyError>,
    ) -> Result<T, KeyError> {
        let beside = |extension: &str| {
            let mut name = self.path.clone().into_os_string();
            name.push(extension);
            PathBuf::from(name)
        };
        let private = |path: &Path| {
            let mut options = OpenOptions::new();
            options.write(true).create(true).truncate(true).mode(0o600);
            options.open(path)
        };
        let turn = private(&beside(".lock")).map_err(|error| self.unusable(&error))?;
        turn.lock().map_err(|error| self.unusable(&error))?;
        let mut keys = Keys { keys: self.keys()? };
        let changed = change(&mut keys.keys)?;
        let new = beside(".new");
        let written = (|| {
            let mut file = private(&new)?;
            file.write_all(&serde_json::to_vec_pretty(&keys)?)?;
            file.sync_all()?;
            std::fs::rename(&new, &self.path)
        })();
        written.map_err(|error| self.unusable(&error))?;
        Ok(changed)
    }

    fn read(&self, file: File) -> Result<Vec<StoredKey>, KeyError> {
        let mut text = Vec::new();
        let read = file.take(MAX_FILE_BYTES + 1).read_to_end(&mut text);
        read.map_err(|error| self.unusable(&error))?;
        if text.len() as u64 > MAX_FILE_BYTES {
            return Err(self.unusable(&"it is too large"));
        }
        let keys: Keys = serde_json::from_slice(&text).map_err(|error| self.unusable(&error))?;
        Ok(keys.keys)
    }

    fn random<const BYTES: usize>(&self) -> Result<[u8; BYTES], KeyError> {
        let mut bytes = [0; BYTES];
        let filled = SystemRandom::new().fill(&mut bytes);
        filled.map_err(|_| self.unusable(&"the machine gives no random numbers"))?;
        Ok(bytes)
    }

    fn unusable(&self, reason: &dyn std::fmt::Display) -> KeyError {
        KeyError::File {
            path: self.path.clone(),
            reason: reason.to_string(),
        }
    }
}

/// The keys that a service accepts, read again whenever their file changes.
pub(super) struct KeyRing {
    file: KeyFile,
    known: RwLock<Arc<KnownKeys>>,
    clock: Arc<dyn Clock>,
}

/// The content of a file of keys.
#[derive(Default)]
struct KnownKeys {
    version: Option<FileVersion>,
    keys: HashMap<String, StoredKey>,
}

/// Differs whenever a file was replaced or written.
#[derive(PartialEq, Eq)]
struct FileVersion {
    inode: u64,
    bytes: u64,
    seconds: i64,
    nanoseconds: i64,
}

impl FileVersion {
    fn of(file: &Metadata) -> Self {
        Self {
            inode: file.ino(),
            bytes: file.size(),
            seconds: file.mtime(),
            nanoseconds: file.mtime_nsec(),
        }
    }
}

/// Compared with where there is no key of an id, so that the answer takes as long.
const NO_HASH: &str = "0000000000000000000000000000000000000000000000000000000000000000";

impl KeyRing {
    /// Reads the keys. A file that is not there has none.
    pub(super) fn new(path: &str, clock: Arc<dyn Clock>) -> Result<Self, KeyError> {
        let file = KeyFile::new(path);
        file.keys()?;
        Ok(Self {
            file,
            known: RwLock::default(),
            clock,
        })
    }

    /// The caller that a key stands for, or why it is not accepted.
    pub(super) fn verify(&self, text: &str) -> Result<Principal, &'static str> {
        const REFUSED: &str = "it is no valid key";
        let known = self.known().map_err(|error| {
            tracing::error!(%error, "no key is accepted");
            REFUSED
        })?;
        let rest = text.strip_prefix(PREFIX).unwrap_or_default();
        let (id, secret) = rest.split_once('_').unwrap_or_default();
        let key = known.keys.get(id);
        let expected = key.map_or(NO_HASH, |key| &key.hash);
        let fits = bool::from(hash_of(secret).as_bytes().ct_eq(expected.as_bytes()));
        let key = key.filter(|key| fits && key.is_valid(self.clock.now()));
        let key = key.ok_or(REFUSED)?;
        Ok(Principal {
            user: key.user,
            role: key.role,
            apps: (!key.apps.is_empty()).then(|| key.apps.clone().into()),
            key: Some(key.id.as_str().into()),
        })
    }

    fn known(&self) -> Result<Arc<KnownKeys>, KeyError> {
        let version = match std::fs::metadata(&self.file.path) {
            Ok(file) => Some(FileVersion::of(&file)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => return Err(self.file.unusable(&error)),
        };
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        if known.version == version {
            return Ok(Arc::clone(&known));
        }
        drop(known);
        let keys = self.file.keys()?.into_iter();
        let known = Arc::new(KnownKeys {
            version,
            keys: keys.map(|key| (key.id.clone(), key)).collect(),
        });
        let mut current = self.known.write().unwrap_or_else(PoisonError::into_inner);
        current.clone_from(&known);
        Ok(known)
    }
}

impl std::fmt::Debug for KeyRing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("KeyRing")
    }
}

/// A secret has 256 random bits, so that a plain hash cannot be reversed.
fn hash_of(secret: &str) -> String {
    hexadecimal(digest::digest(&digest::SHA256, secret.as_bytes()).as_ref())
}

fn hexadecimal(bytes: &[u8]) -> String {
    let digits = bytes.iter().map(|byte| format!("{byte:02x}"));
    digits.collect()
}
