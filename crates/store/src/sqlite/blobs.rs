//! Blobs as rows, each stored once in chunks for partial reads, and the tasks that name them.

use std::ops::Range;

use convoke_model::BlobHash;
use rusqlite::{Connection, OptionalExtension, params};
use uuid::Uuid;

use super::columns;
use super::read::{self, rows};
use crate::blob::{Blob, BlobInfo, BlobRange, hash_of};
use crate::error::StoreError;
use crate::journal::NewMessage;
use crate::viewer::Viewer;

/// What names a blob for a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NamedBy {
    /// An explicit `put_blob`, or a message.
    Caller,
    /// A reference in the texts of the task's entries.
    Journal,
}

/// Size of a chunk in bytes.
const CHUNK_BYTES: usize = 256 * 1024;

pub(super) fn put(
    connection: &Connection,
    viewer: &Viewer,
    task: Uuid,
    blob: &Blob,
) -> Result<bool, StoreError> {
    let Some(ordinal) = read::ordinal(connection, viewer, task)? else {
        return Ok(false);
    };
    keep_attached(connection, column(ordinal), blob)?;
    Ok(true)
}

/// Stores a blob for a task that names it as its own.
pub(super) fn keep_attached(
    connection: &Connection,
    task: i64,
    blob: &Blob,
) -> Result<(), StoreError> {
    keep(
        connection,
        task,
        blob.hash(),
        blob.content(),
        NamedBy::Caller,
    )
}

/// Stores a content, unless it is stored already, and records that a task names it.
pub(super) fn keep(
    connection: &Connection,
    task: i64,
    hash: BlobHash,
    content: &[u8],
    by: NamedBy,
) -> Result<(), StoreError> {
    let hash = hash.to_string();
    let known: Option<i64> = connection
        .prepare_cached("SELECT id FROM blobs WHERE hash = ?1")?
        .query_row([&hash], |row| row.get(0))
        .optional()?;
    let id = match known {
        Some(id) => id,
        None => insert(connection, &hash, content)?,
    };
    connection
        .prepare_cached(
            "INSERT INTO task_blobs (task, blob, journal) VALUES (?1, ?2, ?3) \
             ON CONFLICT DO UPDATE SET journal = min(journal, excluded.journal)",
        )?
        .execute(params![task, id, by == NamedBy::Journal])?;
    Ok(())
}

fn insert(connection: &Connection, hash: &str, content: &[u8]) -> Result<i64, StoreError> {
    connection
        .prepare_cached("INSERT INTO blobs (hash, bytes) VALUES (?1, ?2)")?
        .execute(params![hash, column(content.len() as u64)])?;
    let id = connection.last_insert_rowid();
    let mut statement = connection
        .prepare_cached("INSERT INTO blob_chunks (blob, place, content) VALUES (?1, ?2, ?3)")?;
    for (place, chunk) in (0_i64..).zip(content.chunks(CHUNK_BYTES)) {
        statement.execute(params![id, place, chunk])?;
    }
    Ok(id)
}

/// Records the blobs in a task's messages. Knowing a hash must not give access to the content, so only blobs that
/// another task of the same owner and app names are recorded.
pub(super) fn name_carried(
    connection: &Connection,
    task: i64,
    messages: &[NewMessage],
) -> Result<(), StoreError> {
    for hash in messages.iter().flat_map(|message| &message.blobs) {
        connection
            .prepare_cached(
                "INSERT INTO task_blobs (task, blob, journal) \
                 SELECT t.ordinal, b.id, 0 FROM tasks t, blobs b WHERE t.ordinal = ?1 AND b.hash = ?2 \
                 AND EXISTS (SELECT 1 FROM task_blobs n JOIN tasks o ON o.ordinal = n.task \
                   WHERE n.blob = b.id AND o.owner = t.owner AND o.app = t.app) \
                 ON CONFLICT DO UPDATE SET journal = 0",
            )?
            .execute(params![task, hash.to_string()])?;
    }
    Ok(())
}

/// Removes a task's names, and blobs without names.
pub(super) fn release(connection: &Connection, task: i64) -> Result<(), StoreError> {
    let named: Vec<i64> = rows(
        connection,
        "SELECT blob FROM task_blobs WHERE task = ?1",
        [task],
        |row| Ok(row.get(0)?),
    )?;
    connection
        .prepare_cached("DELETE FROM task_blobs WHERE task = ?1")?
        .execute([task])?;
    for blob in named {
        let is_named = connection
            .prepare_cached("SELECT 1 FROM task_blobs WHERE blob = ?1")?
            .exists([blob])?;
        if !is_named {
            connection
                .prepare_cached("DELETE FROM blob_chunks WHERE blob = ?1")?
                .execute([blob])?;
            connection
                .prepare_cached("DELETE FROM blobs WHERE id = ?1")?
                .execute([blob])?;
        }
    }
    Ok(())
}

/// The blobs that a task names, if the viewer sees the task.
pub(super) fn of_task(
    connection: &Connection,
    viewer: &Viewer,
    task: Uuid,
) -> Result<Vec<BlobInfo>, StoreError> {
    read::part_of(connection, viewer, task, |ordinal| {
        named(connection, ordinal)
    })
}

fn named(connection: &Connection, task: u64) -> Result<Vec<BlobInfo>, StoreError> {
    rows(
        connection,
        "SELECT b.hash, b.bytes FROM task_blobs n JOIN blobs b ON b.id = n.blob \
         WHERE n.task = ?1 AND NOT n.journal ORDER BY b.hash",
        [column(task)],
        |row| {
            Ok(BlobInfo {
                hash: columns::hash(&row.get::<_, String>(0)?)?,
                bytes: row.get(1)?,
            })
        },
    )
}

/// A part of a blob that a task names.
pub(super) fn range(
    connection: &Connection,
    viewer: &Viewer,
    task: Uuid,
    hash: BlobHash,
    range: &Range<u64>,
) -> Result<Option<BlobRange>, StoreError> {
    read::in_snapshot(connection, || {
        let Some(task) = read::ordinal(connection, viewer, task)? else {
            return Ok(None);
        };
        let named: Option<(i64, u64)> = connection
            .prepare_cached(
                "SELECT b.id, b.bytes FROM blobs b JOIN task_blobs n ON n.blob = b.id \
                 WHERE b.hash = ?1 AND n.task = ?2 AND NOT n.journal",
            )?
            .query_row(params![hash.to_string(), column(task)], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })
            .optional()?;
        let Some((blob, bytes)) = named else {
            return Ok(None);
        };
        let range = range.start.min(bytes)..range.end.min(bytes);
        let content = chunks(connection, blob, &range)?;
        Ok(Some(BlobRange { bytes, content }))
    })
}

/// A whole blob, without a check of names.
pub(super) fn whole(connection: &Connection, hash: BlobHash) -> Result<Vec<u8>, StoreError> {
    let known: Option<(i64, u64)> = connection
        .prepare_cached("SELECT id, bytes FROM blobs WHERE hash = ?1")?
        .query_row([hash.to_string()], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let missing = || StoreError::Corrupt(format!("the blob {hash} is missing"));
    let (blob, bytes) = known.ok_or_else(missing)?;
    let content = chunks(connection, blob, &(0..bytes))?;
    if hash_of(&content) != hash {
        return Err(StoreError::Corrupt(format!(
            "the blob {hash} has another content"
        )));
    }
    Ok(content)
}

/// The blobs of a task, for an export.
pub(super) fn take_out(connection: &Connection, task: u64) -> Result<Vec<Blob>, StoreError> {
    let mut taken_out = Vec::new();
    for BlobInfo { hash, .. } in named(connection, task)? {
        taken_out.push(Blob::of(whole(connection, hash)?.into()));
    }
    Ok(taken_out)
}

fn chunks(connection: &Connection, blob: i64, range: &Range<u64>) -> Result<Vec<u8>, StoreError> {
    let length = range.end.saturating_sub(range.start);
    let damaged = || StoreError::Corrupt("a part of a blob is missing".into());
    let size = CHUNK_BYTES as u64;
    if length == 0 {
        return Ok(Vec::new());
    }
    let first = range.start / size;
    let skipped = usize::try_from(range.start % size).map_err(|_| damaged())?;
    let length = usize::try_from(length).map_err(|_| damaged())?;
    let mut statement = connection.prepare_cached(
        "SELECT content FROM blob_chunks WHERE blob = ?1 AND place BETWEEN ?2 AND ?3 ORDER BY place",
    )?;
    let mut found =
        statement.query(params![blob, column(first), column((range.end - 1) / size)])?;
    let mut content = Vec::with_capacity(length);
    let mut skip = skipped;
    while let Some(row) = found.next()? {
        let chunk = row.get_ref(0)?.as_blob().map_err(rusqlite::Error::from)?;
        let rest = chunk.get(skip..).ok_or_else(damaged)?;
        content.extend_from_slice(&rest[..rest.len().min(length - content.len())]);
        skip = 0;
    }
    if content.len() == length {
        Ok(content)
    } else {
        Err(damaged())
    }
}

fn column(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
