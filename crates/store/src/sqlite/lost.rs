//! Detects committed changes that are missing because the write-ahead log was truncated or removed.
//!
//! SQLite opens such a file without a word: it reads as far as the log goes. But the log's index, the
//! `-shm` file, outlives a process that did not close the store, and says how far the log went. The layout
//! of both is part of SQLite's documented file format.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The version of the index's layout; there is only one.
const INDEX_VERSION: u32 = 3_007_000;

/// Length of the index's header. The header is stored twice, followed by how much of the log was copied into the
/// database.
const INDEX_HEADER: usize = 48;
const LOG_HEADER: usize = 32;
const FRAME_HEADER: u64 = 24;

/// Committed changes that are lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LostChanges {
    /// The number of missing pages of the log.
    pub pages: u32,
}

/// The extent of the log.
#[derive(Debug, PartialEq, Eq)]
struct Index {
    page_size: u64,
    /// The last frame that was committed.
    frames: u32,
    /// The last frame that was copied into the database.
    copied: u32,
    salt: [u8; 8],
}

/// What is missing from the log of the store at a path. Must be called before the store is opened, which creates a new
/// index.
pub(super) fn look(path: &Path) -> Option<LostChanges> {
    let index = read_index(path)?;
    let there = frames_there(path, &index);
    let pages = index.frames.saturating_sub(there.max(index.copied));
    // A process that closed the store meanwhile has removed both files or changed the index.
    (pages > 0 && read_index(path).as_ref() == Some(&index)).then_some(LostChanges { pages })
}

fn read_index(path: &Path) -> Option<Index> {
    let mut bytes = [0; 2 * INDEX_HEADER + 4];
    let mut file = File::open(beside(path, "-shm")).ok()?;
    file.read_exact(&mut bytes).ok()?;
    let (first, rest) = bytes.split_at(INDEX_HEADER);
    let (second, copied) = rest.split_at(INDEX_HEADER);
    let whole = first == second && number(first, 0)? == INDEX_VERSION && first[12] != 0;
    if !whole {
        return None;
    }
    let page_size = u16::from_ne_bytes(first.get(14..16)?.try_into().ok()?);
    Some(Index {
        // A page of 65,536 bytes does not fit, and is written as 1.
        page_size: if page_size == 1 {
            65_536
        } else {
            page_size.into()
        },
        frames: number(first, 16)?,
        copied: number(copied, 0)?,
        salt: first.get(32..40)?.try_into().ok()?,
    })
}

/// The number of the index's frames that are in the log.
fn frames_there(path: &Path, index: &Index) -> u32 {
    let read = || -> Option<u32> {
        let mut file = File::open(beside(path, "-wal")).ok()?;
        let length = file.metadata().ok()?.len();
        let mut header = [0; LOG_HEADER];
        file.read_exact(&mut header).ok()?;
        if header.get(16..24)? != index.salt {
            return None;
        }
        u32::try_from((length - LOG_HEADER as u64) / (FRAME_HEADER + index.page_size)).ok()
    };
    read().unwrap_or(0)
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at + 4)?.try_into().ok()?;
    Some(u32::from_ne_bytes(bytes))
}

pub(super) fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(OsStr::new(ending));
    name.into()
}
