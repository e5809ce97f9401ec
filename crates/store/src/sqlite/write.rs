//! Changes, each within the writer's open transaction. An operation fails before its first change, so that the others
//! in the transaction are unaffected.

use std::time::Duration;

use convoke_model::TaskState;
use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};
use uuid::Uuid;

use super::blobs::{self, NamedBy};
use super::columns::{self, millis, word};
use super::large_values::{self, LargeValue};
use super::{archive, read};
use crate::blob::INLINE_BYTES;
use crate::conversation::Deletion;
use crate::error::StoreError;
use crate::journal::{Batch, Fence, LeaseAction, NewEntry, NewMessage, StatusUpdate};
use crate::signal::{NewSignal, SignalReceipt};
use crate::task::{
    Claim, ClaimedTask, FIRST_EPOCH, NewTask, RenewedLease, Submission, later, unreadable,
};
use crate::viewer::Viewer;
use crate::watch::Scope;

pub(super) fn submit(
    connection: &Connection,
    task: &NewTask,
    now: Timestamp,
) -> Result<Submission, StoreError> {
    if let Some(key) = &task.key {
        let existing: Option<(String, Option<String>)> = connection
            .prepare_cached(
                "SELECT id, fingerprint FROM tasks WHERE app = ?1 AND owner = ?2 AND key = ?3",
            )?
            .query_row(params![task.app, task.owner.to_string(), key], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })
            .optional()?;
        if let Some((existing, fingerprint)) = existing {
            return task.existing(columns::id(&existing)?, fingerprint.as_deref());
        }
    }
    let taken = connection
        .prepare_cached("SELECT 1 FROM tasks WHERE id = ?1")?
        .exists([task.id.to_string()])?;
    if taken {
        return Err(StoreError::IdTaken { task: task.id });
    }
    let mut lease = task.hold.as_ref().filter(|_| task.not_before.is_none());
    if let Some(conversation) = task.conversation {
        touch_conversation(connection, conversation, task, now)?;
        if is_busy(connection, conversation, now)? {
            lease = None;
        }
    }
    let held = lease.is_some();
    let status = if held {
        TaskState::Working
    } else {
        TaskState::Submitted
    };
    let delay = lease.map(|lease| lease.time).or(task.not_before);
    let ready_at = delay.map_or(now, |delay| later(now, delay));
    connection
        .prepare_cached(
            "INSERT INTO tasks (id, key, owner, conversation, channel, app, definition, \
             description, parent, status, stage, epoch, worker, ready_at, created_at, started_at, \
             deadline, retention_days, tags, fingerprint, trace) VALUES (?1, ?2, ?3, ?4, ?5, ?6, \
             ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21)",
        )?
        .execute(params![
            task.id.to_string(),
            task.key,
            task.owner.to_string(),
            task.conversation.map(|id| id.to_string()),
            word(&task.channel)?,
            task.app,
            task.definition.hash,
            task.description,
            task.parent.map(|id| id.to_string()),
            word(&status)?,
            task.stage.as_ref().map(word).transpose()?,
            if held { FIRST_EPOCH } else { 0 },
            lease.map(|lease| &*lease.worker),
            millis(ready_at),
            millis(task.entry.at),
            held.then_some(millis(now)),
            millis(task.deadline),
            task.retention_days,
            serde_json::to_string(&task.tags)?,
            task.fingerprint,
            task.trace,
        ])?;
    let ordinal = connection.last_insert_rowid();
    archive::keep(connection, &task.definition, task.definition.trusted)?;
    insert(
        connection,
        ordinal,
        0,
        std::slice::from_ref(&task.entry),
        &task.messages,
        INLINE_BYTES,
    )?;
    for blob in &task.blobs {
        blobs::keep_attached(connection, ordinal, blob)?;
    }
    blobs::name_carried(connection, ordinal, &task.messages)?;
    if let Some(parent) = task.parent
        && has_ended(connection, parent)?
    {
        signal(
            connection,
            &Viewer::System,
            &NewSignal::parent_ended(task.id),
            now,
        )?;
    }
    Ok(Submission::Created { id: task.id, held })
}

fn has_ended(connection: &Connection, task: Uuid) -> Result<bool, StoreError> {
    Ok(connection
        .prepare_cached("SELECT 1 FROM tasks WHERE id = ?1 AND completed_at IS NOT NULL")?
        .exists([task.to_string()])?)
}

/// Whether a task of a conversation is running, or is ready and comes before a new one.
fn is_busy(
    connection: &Connection,
    conversation: Uuid,
    now: Timestamp,
) -> Result<bool, StoreError> {
    Ok(connection
        .prepare_cached(
            "SELECT 1 FROM tasks WHERE conversation = ?1 AND completed_at IS NULL \
             AND (worker IS NOT NULL OR ready_at <= ?2)",
        )?
        .exists(params![conversation.to_string(), millis(now)])?)
}

/// Creates a conversation with its first task. Fails if it belongs to another owner or app, and if it is busy and the task is
/// refused then.
fn touch_conversation(
    connection: &Connection,
    conversation: Uuid,
    task: &NewTask,
    now: Timestamp,
) -> Result<(), StoreError> {
    let known: Option<bool> = connection
        .prepare_cached("SELECT owner = ?2 AND app = ?3 FROM conversations WHERE id = ?1")?
        .query_row(
            params![conversation.to_string(), task.owner.to_string(), task.app],
            |row| row.get(0),
        )
        .optional()?;
    match known {
        None => connection
            .prepare_cached(
                "INSERT INTO conversations (id, owner, channel, created_at, updated_at, app) \
                 VALUES (?1, ?2, ?3, ?4, ?4, ?5)",
            )?
            .execute(params![
                conversation.to_string(),
                task.owner.to_string(),
                word(&task.channel)?,
                millis(now),
                task.app
            ])?,
        Some(true) if task.refused_if_busy && is_busy(connection, conversation, now)? => {
            return Err(StoreError::ConversationBusy { conversation });
        }
        Some(true) => connection
            .prepare_cached("UPDATE conversations SET updated_at = ?2 WHERE id = ?1")?
            .execute(params![conversation.to_string(), millis(now)])?,
        Some(false) => return Err(StoreError::ForeignConversation { conversation }),
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
            .prepare_cached(
                "UPDATE tasks SET ready_at = min(ready_at, ?2) \
                 WHERE worker = ?1 AND ready_at IS NOT NULL",
            )?
            .execute(params![worker, millis(now)])?;
    }
    Ok(())
}

/// Tasks that can be claimed. In a conversation, the running task comes first, then the earliest ready one. The `+`
/// makes SQLite use the index of ready tasks: that of apps contains all ended ones too.
const CLAIMABLE: &str = "SELECT ordinal FROM tasks t WHERE ready_at <= ?1 \
     AND +app IN (SELECT value FROM json_each(?2)) \
     AND definition NOT IN (SELECT value FROM json_each(?4)) \
     AND (conversation IS NULL OR NOT EXISTS (SELECT 1 FROM tasks e \
          WHERE e.conversation = t.conversation AND e.completed_at IS NULL \
          AND CASE \
            WHEN e.ordinal = t.ordinal THEN 0 \
            WHEN e.worker IS NOT NULL THEN t.worker IS NULL OR e.ordinal < t.ordinal \
            WHEN t.worker IS NOT NULL OR e.ordinal > t.ordinal THEN 0 \
            ELSE e.ready_at <= ?1 END)) \
     ORDER BY ready_at, ordinal LIMIT ?3";

pub(super) fn claim(
    connection: &Connection,
    claim: &Claim,
    now: Timestamp,
) -> Result<Vec<ClaimedTask>, StoreError> {
    let limit = i64::try_from(claim.limit).unwrap_or(i64::MAX);
    let apps = serde_json::to_string(&claim.apps)?;
    let except = serde_json::to_string(&claim.except)?;
    let ready: Vec<i64> = read::rows(
        connection,
        CLAIMABLE,
        params![millis(now), apps, limit, except],
        |row| Ok(row.get(0)?),
    )?;
    let mut claimed = Vec::with_capacity(ready.len());
    for ordinal in ready {
        // Reads everything before changing anything, so that an unreadable task changes nothing.
        match read_claimable(connection, ordinal) {
            Ok(task) => claimed.push(hold(connection, task, claim, now)?),
            Err(StoreError::Corrupt(cause)) => set_aside(connection, ordinal, &cause, now)?,
            Err(error) => return Err(error),
        }
    }
    Ok(claimed)
}

/// The next task that becomes ready. The `+` is there for the same reason as in [`CLAIMABLE`].
const NEXT_READY: &str = "SELECT ready_at FROM tasks WHERE ready_at > ?1 \
     AND +app IN (SELECT value FROM json_each(?2)) ORDER BY ready_at LIMIT 1";

/// The time until another task of the claim's apps becomes ready.
pub(super) fn next_ready_in(
    connection: &Connection,
    claim: &Claim,
    now: Timestamp,
) -> Result<Option<Duration>, StoreError> {
    let apps = serde_json::to_string(&claim.apps)?;
    let next: Option<i64> = connection
        .prepare_cached(NEXT_READY)?
        .query_row(params![millis(now), apps], |row| row.get(0))
        .optional()?;
    let wait = next.map(|next| next.saturating_sub(millis(now)));
    Ok(wait
        .and_then(|wait| u64::try_from(wait).ok())
        .map(Duration::from_millis))
}

fn read_claimable(connection: &Connection, ordinal: i64) -> Result<ClaimedTask, StoreError> {
    let missing = || StoreError::Corrupt("the task has no entry".into());
    let record = read::task_at(connection, ordinal)?.ok_or_else(missing)?;
    Ok(ClaimedTask {
        entry: read::entries(connection, record.ordinal, &(record.seq..=u64::MAX))?
            .pop()
            .ok_or_else(missing)?,
        messages: read::messages(connection, record.ordinal)?,
        signals: read::signals(connection, record.ordinal)?,
        record,
    })
}

/// Assigns a task to a worker.
fn hold(
    connection: &Connection,
    mut task: ClaimedTask,
    claim: &Claim,
    now: Timestamp,
) -> Result<ClaimedTask, StoreError> {
    let until = later(now, claim.lease);
    let record = &mut task.record;
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
    Ok(task)
}

/// Ends an unreadable task, so that it blocks no other one. Its journal is unchanged.
fn set_aside(
    connection: &Connection,
    ordinal: i64,
    cause: &str,
    now: Timestamp,
) -> Result<(), StoreError> {
    tracing::error!(ordinal, cause, "a task cannot be read and is set aside");
    connection
        .prepare_cached(
            "UPDATE tasks SET status = 'failed', error = ?2, completed_at = ?3, worker = NULL, \
             ready_at = NULL WHERE ordinal = ?1",
        )?
        .execute(params![ordinal, unreadable(cause), millis(now)])?;
    Ok(())
}

pub(super) fn append(
    connection: &Connection,
    fence: Fence,
    batch: &Batch,
    now: Timestamp,
) -> Result<(u64, Vec<Scope>), StoreError> {
    if insert_next(connection, fence, batch)? == 0 {
        return Err(StoreError::Fenced { task: fence.task });
    }
    let seq = fence.seq + batch.entries.len() as u64;
    let mut scopes = vec![Scope::Task(fence.task)];
    let in_conversation = batch.messages.iter().any(|message| message.in_conversation);
    let carries = batch.messages.iter().any(|new| !new.blobs.is_empty());
    if !in_conversation
        && !carries
        && batch.entries.len() == 1
        && batch.consumed.is_empty()
        && batch.standing.is_none()
    {
        return Ok((seq, scopes));
    }
    let (ordinal, conversation): (i64, Option<String>) = connection
        .prepare_cached("SELECT ordinal, conversation FROM tasks WHERE id = ?1")?
        .query_row([fence.task.to_string()], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })?;
    insert(
        connection,
        ordinal,
        fence.seq + 1,
        batch.entries.get(1..).unwrap_or_default(),
        &batch.messages,
        batch.inline_bytes,
    )?;
    blobs::name_carried(connection, ordinal, &batch.messages)?;
    for signal in &batch.consumed {
        connection
            .prepare_cached("UPDATE signals SET consumed = 1 WHERE id = ?1 AND task = ?2")?
            .execute(params![signal, ordinal])?;
    }
    if let Some(standing) = &batch.standing {
        stand(connection, ordinal, standing, now)?;
        if standing.rests() {
            scopes.push(Scope::Rest(fence.task));
            // The task itself or the next one of its conversation may be ready now.
            if !standing.status.is_final() || conversation.is_some() {
                scopes.push(Scope::Work);
            }
        }
        if standing.status.is_final() {
            scopes.extend(call_off_children(connection, fence.task, now)?);
        }
    }
    if let Some(conversation) = conversation
        && in_conversation
    {
        connection
            .prepare_cached("UPDATE conversations SET updated_at = ?2 WHERE id = ?1")?
            .execute(params![conversation, millis(now)])?;
    }
    Ok((seq, scopes))
}

/// Sends a cancellation to every running child of an ended task. Returns the changed scopes.
fn call_off_children(
    connection: &Connection,
    parent: Uuid,
    now: Timestamp,
) -> Result<Vec<Scope>, StoreError> {
    let children = read::rows(
        connection,
        "SELECT id FROM tasks WHERE parent = ?1 AND completed_at IS NULL",
        [parent.to_string()],
        |row| Ok(row.get::<_, String>(0)?),
    )?;
    let mut scopes = Vec::new();
    // A child with an unreadable id is never claimed.
    for child in children.iter().filter_map(|id| columns::id(id).ok()) {
        signal(
            connection,
            &Viewer::System,
            &NewSignal::parent_ended(child),
            now,
        )?;
        scopes.extend([Scope::Inbox(child), Scope::Work]);
    }
    Ok(scopes)
}

/// Adds the first entry of a batch if the fence is valid, in one statement. Returns the number of added entries.
fn insert_next(connection: &Connection, fence: Fence, batch: &Batch) -> Result<usize, StoreError> {
    let [entry, rest @ ..] = batch.entries.as_slice() else {
        return Ok(0);
    };
    let messages = if rest.is_empty() {
        &*batch.messages
    } else {
        &[]
    };
    let columns = large_values::of_entry(entry, messages, batch.inline_bytes)?;
    let added = connection
        .prepare_cached(
            "INSERT INTO entries (task, seq, at, kind, event, state, spoken, messages, blobs) \
             SELECT ordinal, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11 FROM tasks \
             WHERE id = ?1 AND epoch = ?2 AND completed_at IS NULL \
             AND (SELECT max(seq) FROM entries WHERE task = ordinal) = ?3",
        )?
        .execute(params![
            fence.task.to_string(),
            fence.epoch,
            fence.seq,
            fence.seq + 1,
            millis(entry.at),
            entry.kind,
            columns.event,
            columns.state,
            conversation_messages(messages),
            columns.messages,
            columns.blobs,
        ])?;
    if added > 0 && !columns.values.is_empty() {
        let ordinal = connection
            .prepare_cached("SELECT ordinal FROM tasks WHERE id = ?1")?
            .query_row([fence.task.to_string()], |row| row.get(0))?;
        keep_values(connection, ordinal, &columns.values)?;
    }
    Ok(added)
}

fn keep_values(
    connection: &Connection,
    task: i64,
    values: &[LargeValue<'_>],
) -> Result<(), StoreError> {
    for LargeValue { hash, content } in values {
        blobs::keep(
            connection,
            task,
            *hash,
            content.as_bytes(),
            NamedBy::Journal,
        )?;
    }
    Ok(())
}

fn stand(
    connection: &Connection,
    ordinal: i64,
    standing: &StatusUpdate,
    now: Timestamp,
) -> Result<(), StoreError> {
    let ends = standing.status.is_final();
    let wake_at = match standing.hold {
        LeaseAction::Release { wake_in } if !ends => wake_in.map(|delay| millis(later(now, delay))),
        _ => None,
    };
    // A signal that arrived while the task ran must not wait for the next one.
    let waiting = standing.rests()
        && !ends
        && connection
            .prepare_cached("SELECT 1 FROM signals WHERE task = ?1 AND consumed = 0")?
            .exists([ordinal])?;
    let now = millis(now);
    let ready_at = if waiting { Some(now) } else { wake_at };
    connection
        .prepare_cached(
            "UPDATE tasks SET status = ?2, stage = ?3, \
             result = coalesce(?4, result), error = coalesce(?5, error), \
             claims = CASE WHEN ?6 THEN 0 ELSE claims END, \
             worker = CASE WHEN ?7 THEN NULL ELSE worker END, \
             ready_at = CASE WHEN ?7 THEN ?8 ELSE ready_at END, \
             completed_at = CASE WHEN ?9 THEN ?10 ELSE NULL END \
             WHERE ordinal = ?1",
        )?
        .execute(params![
            ordinal,
            word(&standing.status)?,
            standing.stage.as_ref().map(word).transpose()?,
            standing.result,
            standing.error,
            standing.progress,
            standing.rests(),
            ready_at,
            ends,
            now,
        ])?;
    Ok(())
}

/// Adds entries, the last of them with the messages.
pub(super) fn insert(
    connection: &Connection,
    ordinal: i64,
    after: u64,
    entries: &[NewEntry],
    messages: &[NewMessage],
    inline_bytes: usize,
) -> Result<(), StoreError> {
    let last = entries.len();
    for (seq, (index, entry)) in (after + 1..).zip((1..).zip(entries)) {
        let messages = if index == last { messages } else { &[] };
        let columns = large_values::of_entry(entry, messages, inline_bytes)?;
        keep_values(connection, ordinal, &columns.values)?;
        connection
            .prepare_cached(
                "INSERT INTO entries (task, seq, at, kind, event, state, spoken, messages, blobs) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
            )?
            .execute(params![
                ordinal,
                seq,
                millis(entry.at),
                entry.kind,
                columns.event,
                columns.state,
                conversation_messages(messages),
                columns.messages,
                columns.blobs,
            ])?;
    }
    Ok(())
}

fn conversation_messages(messages: &[NewMessage]) -> usize {
    messages
        .iter()
        .filter(|message| message.in_conversation)
        .count()
}

pub(super) fn renew(
    connection: &Connection,
    fence: Fence,
    until: Timestamp,
) -> Result<RenewedLease, StoreError> {
    let signalled: Option<bool> = connection
        .prepare_cached(
            "UPDATE tasks SET ready_at = ?3 \
             WHERE id = ?1 AND epoch = ?2 AND worker IS NOT NULL \
             RETURNING EXISTS (SELECT 1 FROM signals s WHERE s.task = tasks.ordinal AND s.consumed = 0)",
        )?
        .query_row(params![fence.task.to_string(), fence.epoch, millis(until)], |row| row.get(0))
        .optional()?;
    Ok(RenewedLease {
        task: fence.task,
        held: signalled.is_some(),
        signalled: signalled.unwrap_or(false),
    })
}

pub(super) fn signal(
    connection: &Connection,
    viewer: &Viewer,
    signal: &NewSignal,
    now: Timestamp,
) -> Result<SignalReceipt, StoreError> {
    let sql = format!(
        "SELECT ordinal, completed_at IS NOT NULL, worker IS NOT NULL FROM tasks WHERE {}",
        read::SEEN
    );
    let found: Option<(i64, bool, bool)> = connection
        .prepare_cached(&sql)?
        .query_row(read::seen_by(viewer, signal.task), |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })
        .optional()?;
    let Some((ordinal, ended, held)) = found else {
        return Ok(SignalReceipt::Unknown);
    };
    let known = connection
        .prepare_cached("SELECT 1 FROM signals WHERE task = ?1 AND key = ?2")?
        .exists(params![ordinal, signal.key])?;
    if known {
        return Ok(SignalReceipt::Duplicate);
    }
    if ended {
        return Ok(SignalReceipt::Ended);
    }
    connection
        .prepare_cached(
            "INSERT INTO signals (task, key, kind, payload, at) VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute(params![
            ordinal,
            signal.key,
            signal.kind.word(),
            serde_json::to_string(&signal.payload)?,
            millis(now)
        ])?;
    if !held {
        connection
            .prepare_cached("UPDATE tasks SET ready_at = ?2 WHERE ordinal = ?1")?
            .execute(params![ordinal, millis(now)])?;
    }
    Ok(SignalReceipt::Accepted)
}

/// Removes ended tasks with all their data, and conversations without tasks.
pub(super) fn remove(connection: &Connection, tasks: &[Uuid]) -> Result<Vec<Uuid>, StoreError> {
    let mut removed = Vec::new();
    for task in tasks {
        // Checked again inside the transaction: what was read before may be outdated.
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
        for table in ["entries", "signals"] {
            connection
                .prepare_cached(&format!("DELETE FROM {table} WHERE task = ?1"))?
                .execute([ordinal])?;
        }
        blobs::release(connection, ordinal)?;
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

/// Removes a conversation with its tasks and their children, if all have ended.
pub(super) fn delete_conversation(
    connection: &Connection,
    viewer: &Viewer,
    id: Uuid,
) -> Result<Option<Deletion>, StoreError> {
    let sql = format!("SELECT 1 FROM conversations WHERE {}", read::SEEN);
    let is_seen = connection
        .prepare_cached(&sql)?
        .exists(read::seen_by(viewer, id))?;
    if !is_seen {
        return Ok(None);
    }
    let tasks = read::rows(
        connection,
        "WITH RECURSIVE all_tasks (id, completed_at) AS (\
           SELECT id, completed_at FROM tasks WHERE conversation = ?1 \
           UNION SELECT t.id, t.completed_at FROM tasks t JOIN all_tasks a ON t.parent = a.id) \
         SELECT id, completed_at IS NULL FROM all_tasks",
        [id.to_string()],
        |row| {
            Ok((
                columns::id(&row.get::<_, String>(0)?)?,
                row.get::<_, bool>(1)?,
            ))
        },
    )?;
    if tasks.iter().any(|(_, is_open)| *is_open) {
        return Ok(Some(Deletion::Unfinished));
    }
    let tasks: Vec<Uuid> = tasks.into_iter().map(|(task, _)| task).collect();
    remove(connection, &tasks)?;
    connection
        .prepare_cached("DELETE FROM conversations WHERE id = ?1")?
        .execute([id.to_string()])?;
    Ok(Some(Deletion::Deleted))
}

#[cfg(test)]
mod tests {
    use super::super::schema;
    use super::*;

    #[test]
    fn claiming_looks_at_ready_tasks_and_at_open_ones_of_a_conversation_alone() {
        let mut connection = Connection::open_in_memory().unwrap();
        schema::migrate(&mut connection).unwrap();
        let plan = read::rows(
            &connection,
            &format!("EXPLAIN QUERY PLAN {CLAIMABLE}"),
            params![0, "[]", 1, "[]"],
            |row| Ok(row.get::<_, String>(3)?),
        );
        let plan = plan.unwrap().join("\n");
        assert!(
            plan.contains("t USING INDEX tasks_ready (ready_at<?)"),
            "{plan}"
        );
        assert!(
            plan.contains("e USING INDEX tasks_turns (conversation=?)"),
            "{plan}"
        );
        assert!(
            !plan.contains("SCAN t\n") && !plan.contains("TEMP B-TREE"),
            "{plan}"
        );
        let next = read::rows(
            &connection,
            &format!("EXPLAIN QUERY PLAN {NEXT_READY}"),
            params![0, "[]"],
            |row| Ok(row.get::<_, String>(3)?),
        );
        let next = next.unwrap().join("\n");
        assert!(
            next.contains("tasks USING INDEX tasks_ready (ready_at>?)")
                && !next.contains("TEMP B-TREE"),
            "{next}"
        );
    }
}
