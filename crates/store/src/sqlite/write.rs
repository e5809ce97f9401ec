//! What changes, each inside the writer's open transaction. An operation that refuses does so before
//! its first change, so that the group it shares the transaction with goes on untouched.

use convoke_model::TaskState;
use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};
use uuid::Uuid;

use super::columns::{self, millis, word};
use super::read;
use crate::error::StoreError;
use crate::journal::{Batch, Fence, Hold, NewEntry, NewMessage};
use crate::signal::{NewSignal, Signalled};
use crate::task::{Claim, Claimed, NewTask, Renewed, Submitted, lease_end};

pub(super) fn submit(
    connection: &Connection,
    task: &NewTask,
    now: Timestamp,
) -> Result<Submitted, StoreError> {
    if let Some(key) = &task.key {
        let existing: Option<String> = connection
            .prepare_cached("SELECT id FROM tasks WHERE owner = ?1 AND key = ?2")?
            .query_row(params![task.owner.to_string(), key], |row| row.get(0))
            .optional()?;
        if let Some(existing) = existing {
            return Ok(Submitted::Existing(columns::id(&existing)?));
        }
    }
    let taken = connection
        .prepare_cached("SELECT 1 FROM tasks WHERE id = ?1")?
        .exists([task.id.to_string()])?;
    if taken {
        return Err(StoreError::IdTaken { task: task.id });
    }
    let now = millis(now);
    if let Some(conversation) = task.conversation {
        touch_conversation(connection, conversation, task, now)?;
    }
    connection
        .prepare_cached(
            "INSERT INTO tasks (id, key, owner, conversation, channel, app, definition, \
             description, parent, status, seq, ready_at, created_at, deadline, retention_days, tags) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, 1, ?11, ?11, ?12, ?13, ?14)",
        )?
        .execute(params![
            task.id.to_string(),
            task.key,
            task.owner.to_string(),
            task.conversation.map(|id| id.to_string()),
            word(&task.channel)?,
            task.app,
            task.definition,
            task.description,
            task.parent.map(|id| id.to_string()),
            word(&TaskState::Submitted)?,
            now,
            millis(task.deadline),
            task.retention_days,
            serde_json::to_string(&task.tags)?,
        ])?;
    let ordinal = connection.last_insert_rowid();
    insert(
        connection,
        ordinal,
        0,
        std::slice::from_ref(&task.entry),
        &task.messages,
    )?;
    Ok(Submitted::Created(task.id))
}

/// Creates a conversation with its first task, and refuses one that belongs to somebody else.
fn touch_conversation(
    connection: &Connection,
    conversation: Uuid,
    task: &NewTask,
    now: i64,
) -> Result<(), StoreError> {
    let owner: Option<String> = connection
        .prepare_cached("SELECT owner FROM conversations WHERE id = ?1")?
        .query_row([conversation.to_string()], |row| row.get(0))
        .optional()?;
    match owner {
        None => connection
            .prepare_cached(
                "INSERT INTO conversations (id, owner, channel, created_at, updated_at) \
                 VALUES (?1, ?2, ?3, ?4, ?4)",
            )?
            .execute(params![
                conversation.to_string(),
                task.owner.to_string(),
                word(&task.channel)?,
                now
            ])?,
        Some(owner) if owner == task.owner.to_string() => connection
            .prepare_cached("UPDATE conversations SET updated_at = ?2 WHERE id = ?1")?
            .execute(params![conversation.to_string(), now])?,
        Some(_) => return Err(StoreError::ForeignConversation { conversation }),
    };
    Ok(())
}

/// Makes the tasks of dead workers ready at once.
pub(super) fn void_leases(
    connection: &Connection,
    workers: &[String],
    now: Timestamp,
) -> Result<(), StoreError> {
    for worker in workers {
        connection
            .prepare_cached("UPDATE tasks SET ready_at = min(ready_at, ?2) WHERE worker = ?1")?
            .execute(params![worker, millis(now)])?;
    }
    Ok(())
}

pub(super) fn claim(
    connection: &Connection,
    claim: &Claim,
    now: Timestamp,
) -> Result<Vec<Claimed>, StoreError> {
    // A task waits its turn while an earlier one of its conversation is unfinished.
    let sql = format!(
        "SELECT {} FROM tasks t WHERE ready_at <= ?1 \
         AND app IN (SELECT value FROM json_each(?2)) \
         AND (conversation IS NULL OR NOT EXISTS (SELECT 1 FROM tasks e \
              WHERE e.conversation = t.conversation AND e.ordinal < t.ordinal \
              AND e.status IN ('submitted', 'working'))) \
         ORDER BY ready_at, ordinal LIMIT ?3",
        columns::TASK
    );
    let limit = i64::try_from(claim.limit).unwrap_or(i64::MAX);
    let apps = serde_json::to_string(&claim.apps)?;
    let ready = read::rows(
        connection,
        &sql,
        params![millis(now), apps, limit],
        columns::task,
    )?;
    let until = lease_end(now, claim.lease);
    let mut claimed = Vec::with_capacity(ready.len());
    for mut record in ready {
        record.epoch += 1;
        record.claims += 1;
        record.worker = Some(claim.worker.clone());
        record.ready_at = Some(columns::time(millis(until))?);
        record.started_at.get_or_insert(now);
        if record.status == TaskState::Submitted {
            record.status = TaskState::Working;
        }
        connection
            .prepare_cached(
                "UPDATE tasks SET epoch = ?2, claims = ?3, worker = ?4, ready_at = ?5, \
                 started_at = ?6, status = ?7 WHERE ordinal = ?1",
            )?
            .execute(params![
                record.ordinal,
                record.epoch,
                record.claims,
                record.worker,
                millis(until),
                record.started_at.map(millis),
                word(&record.status)?,
            ])?;
        let entry = read::entries(connection, record.ordinal, record.seq)?
            .pop()
            .ok_or_else(|| StoreError::Broken(format!("task {} has no entry", record.id)))?;
        claimed.push(Claimed {
            entry,
            messages: read::messages(connection, record.ordinal)?,
            signals: read::signals(connection, record.ordinal)?,
            record,
        });
    }
    Ok(claimed)
}

pub(super) fn append(
    connection: &Connection,
    fence: Fence,
    batch: &Batch,
    now: Timestamp,
) -> Result<u64, StoreError> {
    let fenced = StoreError::Fenced { task: fence.task };
    let found: Option<(i64, Option<String>)> = connection
        .prepare_cached(
            "SELECT ordinal, conversation FROM tasks \
             WHERE id = ?1 AND epoch = ?2 AND seq = ?3 AND completed_at IS NULL",
        )?
        .query_row(
            params![fence.task.to_string(), fence.epoch, fence.seq],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .optional()?;
    let (ordinal, conversation) = found.ok_or(fenced)?;
    insert(
        connection,
        ordinal,
        fence.seq,
        &batch.entries,
        &batch.messages,
    )?;
    for signal in &batch.consumed {
        connection
            .prepare_cached("UPDATE signals SET consumed = 1 WHERE id = ?1 AND task = ?2")?
            .execute(params![signal, ordinal])?;
    }
    let seq = fence.seq + batch.entries.len() as u64;
    let now = millis(now);
    let ends = batch.status.is_final();
    let releases = ends || batch.hold != Hold::Keep;
    let wake_at = match batch.hold {
        Hold::Release { wake_at } if !ends => wake_at.map(millis),
        _ => None,
    };
    // A signal that came while the task was at work must not wait for the next one.
    let waiting = releases
        && !ends
        && !read::signals(connection, u64::try_from(ordinal).unwrap_or(0))?.is_empty();
    let ready_at = if waiting { Some(now) } else { wake_at };
    connection
        .prepare_cached(
            "UPDATE tasks SET seq = ?2, status = ?3, stage = ?4, \
             result = coalesce(?5, result), error = coalesce(?6, error), \
             claims = CASE WHEN ?7 THEN 0 ELSE claims END, \
             worker = CASE WHEN ?8 THEN NULL ELSE worker END, \
             ready_at = CASE WHEN ?8 THEN ?9 ELSE ready_at END, \
             completed_at = CASE WHEN ?10 THEN ?11 ELSE NULL END \
             WHERE ordinal = ?1",
        )?
        .execute(params![
            ordinal,
            seq,
            word(&batch.status)?,
            batch.stage.as_ref().map(word).transpose()?,
            batch.result,
            batch.error,
            batch.progress,
            releases,
            ready_at,
            ends,
            now,
        ])?;
    if let Some(conversation) = conversation
        && batch.messages.iter().any(|message| message.spoken)
    {
        connection
            .prepare_cached("UPDATE conversations SET updated_at = ?2 WHERE id = ?1")?
            .execute(params![conversation, now])?;
    }
    Ok(seq)
}

fn insert(
    connection: &Connection,
    ordinal: i64,
    after: u64,
    entries: &[NewEntry],
    messages: &[NewMessage],
) -> Result<(), StoreError> {
    let mut seq = after;
    for entry in entries {
        seq += 1;
        connection
            .prepare_cached(
                "INSERT INTO entries (task, seq, at, kind, event, state) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            )?
            .execute(params![
                ordinal,
                seq,
                millis(entry.at),
                entry.kind,
                entry.event,
                entry.state,
            ])?;
    }
    for NewMessage { message, spoken } in messages {
        connection
            .prepare_cached(
                "INSERT INTO messages (task, seq, spoken, message) VALUES (?1, ?2, ?3, ?4)",
            )?
            .execute(params![
                ordinal,
                seq,
                spoken,
                serde_json::to_string(message)?
            ])?;
    }
    Ok(())
}

pub(super) fn renew(
    connection: &Connection,
    fence: Fence,
    until: Timestamp,
) -> Result<Renewed, StoreError> {
    let signalled: Option<bool> = connection
        .prepare_cached(
            "UPDATE tasks SET ready_at = ?3 \
             WHERE id = ?1 AND epoch = ?2 AND worker IS NOT NULL \
             RETURNING EXISTS (SELECT 1 FROM signals s WHERE s.task = tasks.ordinal AND s.consumed = 0)",
        )?
        .query_row(params![fence.task.to_string(), fence.epoch, millis(until)], |row| row.get(0))
        .optional()?;
    Ok(Renewed {
        task: fence.task,
        held: signalled.is_some(),
        signalled: signalled.unwrap_or(false),
    })
}

pub(super) fn signal(
    connection: &Connection,
    signal: &NewSignal,
    now: Timestamp,
) -> Result<Signalled, StoreError> {
    let found: Option<(i64, bool, bool)> = connection
        .prepare_cached(
            "SELECT ordinal, completed_at IS NOT NULL, worker IS NOT NULL FROM tasks WHERE id = ?1",
        )?
        .query_row([signal.task.to_string()], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })
        .optional()?;
    let Some((ordinal, ended, held)) = found else {
        return Ok(Signalled::Unknown);
    };
    let known = connection
        .prepare_cached("SELECT 1 FROM signals WHERE task = ?1 AND key = ?2")?
        .exists(params![ordinal, signal.key])?;
    if known {
        return Ok(Signalled::Duplicate);
    }
    if ended {
        return Ok(Signalled::Ended);
    }
    connection
        .prepare_cached(
            "INSERT INTO signals (task, key, kind, payload, at) VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute(params![
            ordinal,
            signal.key,
            signal.kind,
            serde_json::to_string(&signal.payload)?,
            millis(now)
        ])?;
    if !held {
        connection
            .prepare_cached("UPDATE tasks SET ready_at = ?2 WHERE ordinal = ?1")?
            .execute(params![ordinal, millis(now)])?;
    }
    Ok(Signalled::Accepted)
}

/// Removes ended tasks with all that is theirs, and conversations that have no task left.
pub(super) fn remove(connection: &Connection, tasks: &[Uuid]) -> Result<Vec<Uuid>, StoreError> {
    let mut removed = Vec::new();
    for task in tasks {
        // Asked again inside the transaction: what was read before it may be out of date.
        let ended: Option<(i64, Option<String>)> = connection
            .prepare_cached(
                "DELETE FROM tasks WHERE id = ?1 AND completed_at IS NOT NULL \
                 RETURNING ordinal, conversation",
            )?
            .query_row([task.to_string()], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        let Some((ordinal, conversation)) = ended else {
            continue;
        };
        for table in ["entries", "messages", "signals"] {
            connection
                .prepare_cached(&format!("DELETE FROM {table} WHERE task = ?1"))?
                .execute([ordinal])?;
        }
        if let Some(conversation) = conversation {
            connection
                .prepare_cached(
                    "DELETE FROM conversations WHERE id = ?1 AND NOT EXISTS \
                     (SELECT 1 FROM tasks WHERE conversation = ?1)",
                )?
                .execute([conversation])?;
        }
        removed.push(*task);
    }
    Ok(removed)
}
