//! Blobs: large values stored beside the journal under the SHA-256 of their content.

use std::sync::Arc;

use convoke_model::BlobHash;
use sha2::{Digest, Sha256};

use crate::error::StoreError;

/// Default limit of the bytes in one blob.
pub const BLOB_BYTES: u64 = 64 * 1024 * 1024;

/// Default limit of the bytes of a value within the journal.
pub const INLINE_BYTES: usize = 64 * 1024;

/// A value with its hash. Creating one takes time proportional to its size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blob {
    hash: BlobHash,
    content: Arc<[u8]>,
}

impl Blob {
    /// A blob of at most `limit` bytes.
    pub fn new(content: Arc<[u8]>, limit_bytes: u64) -> Result<Self, StoreError> {
        let bytes = content.len() as u64;
        if bytes > limit_bytes {
            return Err(StoreError::BlobTooLarge { bytes, limit_bytes });
        }
        Ok(Self::of(content))
    }

    /// A blob of any size.
    pub(crate) fn of(content: Arc<[u8]>) -> Self {
        Self {
            hash: hash_of(&content),
            content,
        }
    }

    /// Its hash.
    pub fn hash(&self) -> BlobHash {
        self.hash
    }

    /// Its content.
    pub fn content(&self) -> &Arc<[u8]> {
        &self.content
    }

    /// Its hash and size.
    pub fn info(&self) -> BlobInfo {
        BlobInfo {
            hash: self.hash,
            bytes: self.content.len() as u64,
        }
    }
}

/// The hash of a content.
pub(crate) fn hash_of(content: &[u8]) -> BlobHash {
    BlobHash::of_digest(Sha256::digest(content).into())
}

/// The hash and size of a blob.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct BlobInfo {
    /// The SHA-256 of its content.
    pub hash: BlobHash,
    /// Its size in bytes.
    pub bytes: u64,
}

/// A part of a blob.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlobRange {
    /// The size of the whole blob, in bytes.
    pub bytes: u64,
    /// The bytes in the range. Shorter than requested only at the end of the blob.
    pub content: Vec<u8>,
}
