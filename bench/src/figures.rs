//! Statistics of repeated runs, of this process, and of a store's file.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use rusqlite::{Connection, OpenFlags};
use serde::Serialize;

/// Durations of repeated runs, in milliseconds.
#[derive(Debug, Serialize)]
pub(crate) struct Times {
    pub(crate) median: f64,
    pub(crate) p95: f64,
    pub(crate) p99: f64,
    pub(crate) max: f64,
}

impl Times {
    pub(crate) fn of(mut times: Vec<Duration>) -> Self {
        times.sort();
        let at = |percent: usize| {
            let index = times.len().saturating_sub(1) * percent / 100;
            let time = times.get(index).copied().unwrap_or_default();
            time.as_secs_f64() * 1_000.0
        };
        Self {
            median: at(50),
            p95: at(95),
            p99: at(99),
            max: at(100),
        }
    }
}

/// Resources used by this process.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Process {
    pub(crate) threads: u64,
    pub(crate) resident_bytes: u64,
}

impl Process {
    /// Reads them from the kernel.
    pub(crate) fn now() -> anyhow::Result<Self> {
        let status = std::fs::read_to_string("/proc/self/status")
            .context("the kernel tells nothing of this process; Linux is needed")?;
        let number = |key: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(key));
            let number = line.and_then(|line| line.split_whitespace().next());
            let number = number.with_context(|| format!("the kernel tells no `{key}`"))?;
            anyhow::Ok(number.parse::<u64>()?)
        };
        Ok(Self {
            threads: number("Threads:")?,
            resident_bytes: number("VmRSS:")? * 1_024,
        })
    }
}

/// The size of a store, including its write-ahead log.
pub(crate) fn store_bytes(path: &Path) -> anyhow::Result<u64> {
    let connection = open(path)?;
    let number = |what: &str| -> anyhow::Result<u64> {
        Ok(connection.query_row(&format!("PRAGMA {what}"), [], |row| row.get(0))?)
    };
    Ok(number("page_count")? * number("page_size")?)
}

/// The size of a store's journals.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct JournalBytes {
    pub(crate) entries: u64,
    pub(crate) event: u64,
    pub(crate) state: u64,
    pub(crate) messages: u64,
}

impl JournalBytes {
    pub(crate) fn of(path: &Path) -> anyhow::Result<Self> {
        let sums = "SELECT count(*), sum(octet_length(event)), sum(octet_length(state)), \
                    coalesce(sum(octet_length(messages)), 0) FROM entries";
        let read = |row: &rusqlite::Row<'_>| {
            Ok(Self {
                entries: row.get(0)?,
                event: row.get(1)?,
                state: row.get(2)?,
                messages: row.get(3)?,
            })
        };
        Ok(open(path)?.query_row(sums, [], read)?)
    }

    pub(crate) fn all(&self) -> u64 {
        self.event + self.state + self.messages
    }
}

fn open(path: &Path) -> anyhow::Result<Connection> {
    // Reading the write-ahead log requires write access to its index.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(path, flags).with_context(|| format!("{}", path.display()))
}

/// A ratio of bytes or counts.
#[expect(clippy::cast_precision_loss, reason = "a figure needs no more digits")]
pub(crate) fn per(all: u64, parts: u64) -> f64 {
    all as f64 / parts.max(1) as f64
}
