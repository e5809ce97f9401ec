//! Definitions, and export and import of tasks.

use rusqlite::{Connection, OptionalExtension, Row, params};
use uuid::Uuid;

use super::blobs;
use super::columns::{self, millis, word};
use super::{read, write};
use crate::archive::{Archive, ArchivedConversation, ArchivedSignal, Imported};
use crate::blob::INLINE_BYTES;
use crate::definition::Definition;
use crate::error::StoreError;
use crate::viewer::Viewer;

/// Stores a definition, unless it is stored already, the usual case. A trusted one replaces an untrusted one: two sets
/// of files may have the same hash, and only the trusted one is the user's.
pub(super) fn keep(
    connection: &Connection,
    definition: &Definition,
    trusted: bool,
) -> Result<(), StoreError> {
    let known: Option<bool> = connection
        .prepare_cached("SELECT trusted FROM definitions WHERE hash = ?1")?
        .query_row([&definition.hash], |row| row.get(0))
        .optional()?;
    if known.is_some_and(|known| known || !trusted) {
        return Ok(());
    }
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO definitions (hash, files, trusted) VALUES (?1, ?2, ?3)",
        )?
        .execute(params![
            definition.hash,
            serde_json::to_string(&definition.files)?,
            trusted
        ])?;
    Ok(())
}

pub(super) fn trust(connection: &Connection, hash: &str) -> Result<bool, StoreError> {
    let changed = connection
        .prepare_cached("UPDATE definitions SET trusted = 1 WHERE hash = ?1")?
        .execute([hash])?;
    Ok(changed > 0)
}

pub(super) fn definition(
    connection: &Connection,
    hash: &str,
) -> Result<Option<Definition>, StoreError> {
    let known: Option<(String, bool)> = connection
        .prepare_cached("SELECT files, trusted FROM definitions WHERE hash = ?1")?
        .query_row([hash], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let Some((files, trusted)) = known else {
        return Ok(None);
    };
    Ok(Some(Definition {
        hash: hash.to_owned(),
        files: serde_json::from_str(&files)?,
        trusted,
    }))
}

/// Removes definitions that no task refers to.
pub(super) fn forget_unused(connection: &Connection) -> Result<(), StoreError> {
    connection
        .prepare_cached("DELETE FROM definitions WHERE hash NOT IN (SELECT definition FROM tasks)")?
        .execute([])?;
    Ok(())
}

/// Exports a task from one snapshot of the file.
pub(super) fn take_out(
    connection: &Connection,
    viewer: &Viewer,
    task: Uuid,
) -> Result<Option<Archive>, StoreError> {
    let Some(loaded) = read::load_in_snapshot(connection, viewer, task, 1)? else {
        return Ok(None);
    };
    let (key, fingerprint) = connection
        .prepare_cached("SELECT key, fingerprint FROM tasks WHERE id = ?1")?
        .query_row([task.to_string()], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let conversation = match loaded.record.conversation {
        None => None,
        Some(id) => read::rows(
            connection,
            "SELECT channel, created_at, updated_at FROM conversations WHERE id = ?1",
            [id.to_string()],
            conversation,
        )?
        .pop(),
    };
    let signals = read::rows(
        connection,
        "SELECT key, kind, payload, at, consumed FROM signals WHERE task = ?1 ORDER BY id",
        [loaded.record.ordinal],
        signal,
    )?;
    let blobs = blobs::take_out(connection, loaded.record.ordinal)?;
    Ok(Some(Archive {
        record: loaded.record,
        key,
        fingerprint,
        conversation,
        entries: loaded.entries,
        messages: loaded.messages,
        signals,
        blobs,
    }))
}

fn conversation(row: &Row<'_>) -> Result<ArchivedConversation, StoreError> {
    Ok(ArchivedConversation {
        channel: columns::value(&row.get::<_, String>(0)?)?,
        created_at: columns::time(row.get(1)?)?,
        updated_at: columns::time(row.get(2)?)?,
    })
}

fn signal(row: &Row<'_>) -> Result<ArchivedSignal, StoreError> {
    Ok(ArchivedSignal {
        key: row.get(0)?,
        kind: row.get(1)?,
        payload: serde_json::from_str(&row.get::<_, String>(2)?)?,
        at: columns::time(row.get(3)?)?,
        consumed: row.get(4)?,
    })
}

pub(super) fn bring_in(
    connection: &Connection,
    archive: &Archive,
    definition: Option<&Definition>,
) -> Result<Imported, StoreError> {
    let record = &archive.record;
    let taken = connection
        .prepare_cached(
            "SELECT 1 FROM tasks WHERE id = ?1 OR (app = ?4 AND owner = ?2 AND key = ?3)",
        )?
        .exists(params![
            record.id.to_string(),
            record.owner.to_string(),
            archive.key,
            record.app
        ])?;
    if taken {
        return Ok(Imported::Existing);
    }
    bring_in_conversation(connection, archive)?;
    if let Some(definition) = definition {
        keep(connection, definition, false)?;
    }
    connection
        .prepare_cached(
            "INSERT INTO tasks (id, key, owner, conversation, channel, app, definition, \
             description, parent, status, stage, epoch, ready_at, claims, created_at, started_at, \
             completed_at, deadline, retention_days, tags, result, error, fingerprint, trace) VALUES (?1, \
             ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, \
             ?21, ?22, ?23, ?24)",
        )?
        .execute(params![
            record.id.to_string(),
            archive.key,
            record.owner.to_string(),
            record.conversation.map(|id| id.to_string()),
            word(&record.channel)?,
            record.app,
            record.definition,
            record.description,
            record.parent.map(|id| id.to_string()),
            word(&record.status)?,
            record.stage.as_ref().map(word).transpose()?,
            record.epoch,
            record.ready_at.map(millis),
            record.claims,
            millis(record.created_at),
            record.started_at.map(millis),
            record.completed_at.map(millis),
            millis(record.deadline),
            record.retention_days,
            serde_json::to_string(&record.tags)?,
            record.result,
            record.error,
            archive.fingerprint,
            record.trace,
        ])?;
    let ordinal = connection.last_insert_rowid();
    for (before, (entry, messages)) in (0..).zip(archive.steps()) {
        let entry = std::slice::from_ref(&entry);
        write::insert(connection, ordinal, before, entry, &messages, INLINE_BYTES)?;
    }
    for blob in &archive.blobs {
        blobs::keep_attached(connection, ordinal, blob)?;
    }
    for signal in &archive.signals {
        connection
            .prepare_cached(
                "INSERT INTO signals (task, key, kind, payload, at, consumed) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            )?
            .execute(params![
                ordinal,
                signal.key,
                signal.kind,
                serde_json::to_string(&signal.payload)?,
                millis(signal.at),
                signal.consumed,
            ])?;
    }
    Ok(Imported::Created)
}

/// An existing conversation gets the earliest creation and latest update time of both stores.
fn bring_in_conversation(connection: &Connection, archive: &Archive) -> Result<(), StoreError> {
    let (Some(id), Some(archived)) = (archive.record.conversation, &archive.conversation) else {
        return Ok(());
    };
    let record = &archive.record;
    let known: Option<bool> = connection
        .prepare_cached("SELECT owner = ?2 AND app = ?3 FROM conversations WHERE id = ?1")?
        .query_row(
            params![id.to_string(), record.owner.to_string(), record.app],
            |row| row.get(0),
        )
        .optional()?;
    if known == Some(false) {
        return Err(StoreError::ForeignConversation { conversation: id });
    }
    connection
        .prepare_cached(
            "INSERT INTO conversations (id, owner, channel, created_at, updated_at, app) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (id) DO UPDATE SET \
             created_at = min(created_at, excluded.created_at), \
             updated_at = max(updated_at, excluded.updated_at)",
        )?
        .execute(params![
            id.to_string(),
            record.owner.to_string(),
            word(&archived.channel)?,
            millis(archived.created_at),
            millis(archived.updated_at),
            record.app,
        ])?;
    Ok(())
}
