//! Queries, over connections that never write.

use std::cell::RefCell;
use std::ops::RangeInclusive;

use convoke_model::TaskState;
use jiff::Timestamp;
use rusqlite::types::Value as Column;
use rusqlite::{Connection, OptionalExtension, Row, params, params_from_iter};
use uuid::Uuid;

use super::columns;
use super::large_values::{self, Text};
use crate::conversation::{ConversationCursor, ConversationRecord};
use crate::error::StoreError;
use crate::journal::{Entry, JournalEvent, StoredMessage};
use crate::page::{Page, TaskPage};
use crate::signal::Signal;
use crate::state::StateReader;
use crate::task::{
    EndedTask, Filter, LoadedTask, Sweep, TaskRecord, TaskSummary, expired as is_expired,
};
use crate::viewer::Viewer;

/// Reads every row of a query.
pub(super) fn rows<T>(
    connection: &Connection,
    sql: &str,
    parameters: impl rusqlite::Params,
    read: impl Fn(&Row<'_>) -> Result<T, StoreError>,
) -> Result<Vec<T>, StoreError> {
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(parameters)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(read(row)?);
    }
    Ok(found)
}

/// Condition for what a viewer sees. The parameters are those of [`seen_by`].
pub(super) const SEEN: &str = "id = ?1 AND (?2 IS NULL OR owner = ?2) AND (?3 IS NULL OR app = ?3)";

/// Parameters: the id, and the viewer's owner and app.
pub(super) fn seen_by(viewer: &Viewer, id: Uuid) -> [Option<String>; 3] {
    let (owner, app) = viewer.bounds();
    [
        Some(id.to_string()),
        owner.map(|owner| owner.to_string()),
        app.map(str::to_owned),
    ]
}

pub(super) fn task(
    connection: &Connection,
    viewer: &Viewer,
    id: Uuid,
) -> Result<Option<TaskRecord>, StoreError> {
    let sql = format!("SELECT {} FROM tasks t WHERE {SEEN}", columns::TASK);
    Ok(rows(connection, &sql, seen_by(viewer, id), columns::task)?.pop())
}

/// A task's ordinal.
pub(super) fn ordinal(
    connection: &Connection,
    viewer: &Viewer,
    id: Uuid,
) -> Result<Option<u64>, StoreError> {
    let sql = format!("SELECT ordinal FROM tasks WHERE {SEEN}");
    let place = |row: &Row<'_>| Ok(row.get(0)?);
    Ok(rows(connection, &sql, seen_by(viewer, id), place)?.pop())
}

/// Reads a part of a task that the viewer sees; empty for any other.
pub(super) fn part_of<T>(
    connection: &Connection,
    viewer: &Viewer,
    id: Uuid,
    read: impl FnOnce(u64) -> Result<Vec<T>, StoreError>,
) -> Result<Vec<T>, StoreError> {
    in_snapshot(connection, || {
        let ordinal = ordinal(connection, viewer, id)?;
        ordinal.map_or_else(|| Ok(Vec::new()), read)
    })
}

pub(super) fn entries_of(
    connection: &Connection,
    viewer: &Viewer,
    id: Uuid,
    seqs: &RangeInclusive<u64>,
) -> Result<Vec<Entry>, StoreError> {
    part_of(connection, viewer, id, |ordinal| {
        entries(connection, ordinal, seqs)
    })
}

pub(super) fn events_of(
    connection: &Connection,
    viewer: &Viewer,
    id: Uuid,
    seqs: &RangeInclusive<u64>,
) -> Result<Vec<JournalEvent>, StoreError> {
    part_of(connection, viewer, id, |ordinal| {
        rows(
            connection,
            "SELECT seq, at, kind, event, blobs FROM entries WHERE task = ?1 AND seq BETWEEN ?2 AND ?3 \
             ORDER BY seq",
            params![ordinal, column(*seqs.start()), column(*seqs.end())],
            |row| columns::event(connection, row),
        )
    })
}

pub(super) fn signals_of(
    connection: &Connection,
    viewer: &Viewer,
    id: Uuid,
) -> Result<Vec<Signal>, StoreError> {
    part_of(connection, viewer, id, |ordinal| {
        signals(connection, ordinal)
    })
}

/// A number as a column value.
fn column(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A task's row by its ordinal.
pub(super) fn task_at(
    connection: &Connection,
    ordinal: i64,
) -> Result<Option<TaskRecord>, StoreError> {
    let sql = format!("SELECT {} FROM tasks t WHERE ordinal = ?1", columns::TASK);
    Ok(rows(connection, &sql, [ordinal], columns::task)?.pop())
}

/// Reads a task of a list. An unreadable one is logged and left out.
fn listed_task(row: &Row<'_>) -> Result<Option<TaskSummary>, StoreError> {
    match columns::summary(row) {
        Err(StoreError::Corrupt(cause)) => {
            tracing::error!(cause, "a task cannot be read and is left out");
            Ok(None)
        }
        read => read.map(Some),
    }
}

/// When the newest entry was written.
pub(super) fn newest_time(connection: &Connection) -> Result<Option<Timestamp>, StoreError> {
    let sql = "SELECT at FROM entries ORDER BY rowid DESC LIMIT 1";
    let time = |row: &Row<'_>| columns::time(row.get(0)?);
    Ok(rows(connection, sql, [], time)?.pop())
}

pub(super) fn entries(
    connection: &Connection,
    ordinal: u64,
    seqs: &RangeInclusive<u64>,
) -> Result<Vec<Entry>, StoreError> {
    let states = RefCell::default();
    rows(
        connection,
        "SELECT seq, at, kind, event, state, blobs FROM entries \
         WHERE task = ?1 AND seq BETWEEN ?2 AND ?3 ORDER BY seq",
        params![ordinal, column(*seqs.start()), column(*seqs.end())],
        |row| {
            let earlier = |seq| states_before(connection, ordinal, seq);
            columns::entry(connection, row, 0, &mut states.borrow_mut(), earlier)
        },
    )
}

/// A reader for the states from an entry on, starting at the last full state before it.
fn states_before(
    connection: &Connection,
    ordinal: u64,
    seq: u64,
) -> Result<StateReader, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT state, blobs FROM entries WHERE task = ?1 AND seq < ?2 ORDER BY seq DESC",
    )?;
    let mut found = statement.query(params![ordinal, seq])?;
    let mut backwards: Vec<String> = Vec::new();
    while let Some(row) = found.next()? {
        let stored = large_values::whole(connection, row, 0, 1, Text::State)?.into_owned();
        let is_full = !StateReader::default().needs_earlier(&stored);
        backwards.push(stored);
        if is_full {
            break;
        }
    }
    let mut states = StateReader::default();
    for stored in backwards.iter().rev() {
        states.read(stored);
    }
    Ok(states)
}

pub(super) fn messages(
    connection: &Connection,
    ordinal: u64,
) -> Result<Vec<StoredMessage>, StoreError> {
    let grouped = rows(
        connection,
        "SELECT seq, messages, blobs FROM entries WHERE task = ?1 AND messages IS NOT NULL ORDER BY seq",
        [ordinal],
        |row| columns::messages(connection, row),
    )?;
    Ok(grouped.into_iter().flatten().collect())
}

pub(super) fn signals(connection: &Connection, ordinal: u64) -> Result<Vec<Signal>, StoreError> {
    rows(
        connection,
        "SELECT id, kind, payload, at FROM signals WHERE task = ?1 AND consumed = 0 ORDER BY id",
        [ordinal],
        columns::signal,
    )
}

pub(super) fn load(
    connection: &Connection,
    viewer: &Viewer,
    id: Uuid,
    from: u64,
) -> Result<Option<LoadedTask>, StoreError> {
    // One snapshot for the four queries, so that the row and its journal agree.
    in_snapshot(connection, || {
        load_in_snapshot(connection, viewer, id, from)
    })
}

/// Runs several queries in one snapshot.
pub(super) fn in_snapshot<T>(
    connection: &Connection,
    ask: impl FnOnce() -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    connection.execute_batch("BEGIN")?;
    let answer = ask();
    connection.execute_batch("COMMIT")?;
    answer
}

/// Both in one query, so that they agree.
pub(super) fn newest(
    connection: &Connection,
    viewer: &Viewer,
    id: Uuid,
) -> Result<Option<(TaskRecord, Entry)>, StoreError> {
    let sql = format!(
        "SELECT {}, e.seq, e.at, e.kind, e.event, e.state, e.blobs \
         FROM (SELECT * FROM tasks WHERE {SEEN}) t JOIN entries e ON e.task = t.ordinal \
         ORDER BY e.seq DESC LIMIT 1",
        columns::TASK
    );
    let read = |row: &Row<'_>| {
        let record = columns::task(row)?;
        let earlier = |seq| states_before(connection, record.ordinal, seq);
        let mut states = StateReader::default();
        let entry = columns::entry(connection, row, columns::TASK_COLUMNS, &mut states, earlier)?;
        Ok((record, entry))
    };
    // The states that a delta builds on must be from the same snapshot.
    in_snapshot(connection, || {
        Ok(rows(connection, &sql, seen_by(viewer, id), read)?.pop())
    })
}

pub(super) fn load_in_snapshot(
    connection: &Connection,
    viewer: &Viewer,
    id: Uuid,
    from: u64,
) -> Result<Option<LoadedTask>, StoreError> {
    let Some(record) = task(connection, viewer, id)? else {
        return Ok(None);
    };
    Ok(Some(LoadedTask {
        entries: entries(connection, record.ordinal, &(from..=u64::MAX))?,
        messages: messages(connection, record.ordinal)?,
        signals: signals(connection, record.ordinal)?,
        record,
    }))
}

/// The conditions of a filter, as SQL with its parameters.
struct Conditions {
    sql: String,
    parameters: Vec<Column>,
}

impl Conditions {
    fn of(viewer: &Viewer, filter: &Filter) -> Self {
        let mut all = Self {
            sql: String::new(),
            parameters: Vec::new(),
        };
        let (only_owner, only_app) = viewer.bounds();
        for owner in filter.owner.iter().chain(&only_owner) {
            all.add("owner = ?", owner.to_string().into());
        }
        for app in filter.app.as_deref().into_iter().chain(only_app) {
            all.add("app = ?", app.to_owned().into());
        }
        if let Some(conversation) = filter.conversation {
            all.add("conversation = ?", conversation.to_string().into());
        }
        if let Some(parent) = filter.parent {
            all.add("parent = ?", parent.to_string().into());
        }
        if let Some(tag) = &filter.tag {
            // Unreadable tags count as none.
            let tagged = "EXISTS (SELECT 1 FROM json_each(CASE WHEN json_valid(tags) THEN tags END) \
                          WHERE value = ?)";
            all.add(tagged, tag.clone().into());
        }
        all
    }

    fn add(&mut self, condition: &str, value: Column) {
        self.parameters.push(value);
        let place = format!("?{}", self.parameters.len());
        self.sql.push_str(" AND ");
        self.sql.push_str(&condition.replace('?', &place));
    }

    /// The condition for matching tasks, newest first and at most `limit`.
    fn newest(&self, viewer: &Viewer, filter: &Filter, limit: usize) -> Result<String, StoreError> {
        let conditions = &self.sql;
        // An index orders the tasks within one state, so each scan ends after a page. A conversation and a parent have
        // few tasks: the `+` keeps SQLite from scanning a whole state for them.
        let few = filter.conversation.is_some() || filter.parent.is_some();
        let column = if few { "+status" } else { "status" };
        let by_state = |state: &TaskState| -> Result<String, StoreError> {
            let state = columns::word(state)?;
            Ok(format!(
                "SELECT * FROM (SELECT ordinal FROM tasks WHERE {column} = '{state}'{conditions} \
                 ORDER BY ordinal DESC LIMIT {limit})"
            ))
        };
        let narrowed = filter.owner.is_some() || filter.app.is_some() || *viewer != Viewer::System;
        let states = match filter.states.as_slice() {
            [] if narrowed => &TaskState::ALL,
            states => states,
        };
        let parts: Result<Vec<_>, _> = states.iter().map(by_state).collect();
        let parts = parts?.join(" UNION ALL ");
        Ok(if states.is_empty() {
            format!("1{conditions}")
        } else {
            format!("ordinal IN ({parts})")
        })
    }
}

pub(super) fn query(
    connection: &Connection,
    viewer: &Viewer,
    filter: &Filter,
    page: Page,
) -> Result<TaskPage, StoreError> {
    let mut conditions = Conditions::of(viewer, filter);
    if let Some(before) = page.before_ordinal() {
        conditions.add("ordinal < ?", column(before).into());
    }
    let limit = page.tasks_to_read();
    let sql = format!(
        "SELECT {} FROM tasks t WHERE {} ORDER BY ordinal DESC LIMIT {limit}",
        columns::summary_columns(),
        conditions.newest(viewer, filter, limit)?,
    );
    let parameters = params_from_iter(conditions.parameters);
    let found = rows(connection, &sql, parameters, |row| {
        Ok((row.get(columns::ORDINAL)?, listed_task(row)?))
    })?;
    Ok(page.collect(found))
}

pub(super) fn count(
    connection: &Connection,
    viewer: &Viewer,
    filter: &Filter,
    at_most: usize,
) -> Result<usize, StoreError> {
    let conditions = Conditions::of(viewer, filter);
    let sql = format!(
        "SELECT count(*) FROM (SELECT 1 FROM tasks WHERE {} LIMIT {at_most})",
        conditions.newest(viewer, filter, at_most)?,
    );
    Ok(connection
        .prepare_cached(&sql)?
        .query_row(params_from_iter(conditions.parameters), |row| row.get(0))?)
}

pub(super) fn conversation(
    connection: &Connection,
    viewer: &Viewer,
    id: Uuid,
    before: Option<Uuid>,
    limit: usize,
) -> Result<Option<ConversationRecord>, StoreError> {
    // One snapshot, so that the number of older messages matches those that are read.
    in_snapshot(connection, || {
        conversation_in_snapshot(connection, viewer, id, before, limit)
    })
}

fn conversation_in_snapshot(
    connection: &Connection,
    viewer: &Viewer,
    id: Uuid,
    before: Option<Uuid>,
    limit: usize,
) -> Result<Option<ConversationRecord>, StoreError> {
    let sql = format!(
        "SELECT id, owner, channel, created_at, updated_at, app FROM conversations WHERE {SEEN}"
    );
    let found = rows(connection, &sql, seen_by(viewer, id), conversation_row)?.pop();
    let Some(mut record) = found else {
        return Ok(None);
    };
    let end: Option<i64> = match before {
        None => None,
        Some(task) => connection
            .prepare_cached("SELECT ordinal FROM tasks WHERE id = ?1")?
            .query_row([task.to_string()], |row| row.get(0))
            .optional()?,
    };
    let end = end.unwrap_or(i64::MAX);
    // Whole entries are read until there are enough messages; one entry rarely adds more than one.
    let conversation_entries = rows(
        connection,
        "SELECT e.seq, e.messages, e.blobs FROM tasks t JOIN entries e ON e.task = t.ordinal \
         WHERE t.conversation = ?1 AND t.ordinal < ?2 AND t.app = ?4 AND e.spoken > 0 \
         ORDER BY t.ordinal DESC, e.seq DESC LIMIT ?3",
        params![
            id.to_string(),
            end,
            i64::try_from(limit).unwrap_or(i64::MAX),
            record.app
        ],
        |row| columns::messages(connection, row),
    )?;
    let mut messages: Vec<_> = conversation_entries
        .into_iter()
        .rev()
        .flatten()
        .filter(|stored| stored.in_conversation)
        .map(|stored| stored.message)
        .collect();
    messages.drain(..messages.len().saturating_sub(limit));
    let total: usize = connection
        .prepare_cached(
            "SELECT coalesce(sum(e.spoken), 0) FROM tasks t JOIN entries e ON e.task = t.ordinal \
             WHERE t.conversation = ?1 AND t.ordinal < ?2 AND t.app = ?3 AND e.spoken > 0",
        )?
        .query_row(params![id.to_string(), end, record.app], |row| row.get(0))?;
    record.older = total.saturating_sub(messages.len());
    record.messages = messages;
    Ok(Some(record))
}

pub(super) fn conversations(
    connection: &Connection,
    viewer: &Viewer,
    after: Option<ConversationCursor>,
    limit: usize,
) -> Result<Vec<ConversationRecord>, StoreError> {
    let (owner, app) = viewer.bounds();
    let mut conditions = Conditions {
        sql: String::new(),
        parameters: Vec::new(),
    };
    if let Some(owner) = owner {
        conditions.add("owner = ?", owner.to_string().into());
    }
    if let Some(app) = app {
        conditions.add("app = ?", app.to_owned().into());
    }
    if let Some(ConversationCursor { updated_at, id }) = after {
        let updated_at = updated_at.as_millisecond();
        // The first part bounds the index, the second leaves out what was listed before within the same millisecond.
        conditions.add("updated_at <= ?", updated_at.into());
        let listed = format!("(updated_at < {updated_at} OR id < ?)");
        conditions.add(&listed, id.to_string().into());
    }
    let sql = format!(
        "SELECT id FROM conversations WHERE 1{} ORDER BY updated_at DESC, id DESC LIMIT {}",
        conditions.sql,
        i64::try_from(limit).unwrap_or(i64::MAX),
    );
    let parameters = conditions.parameters;
    let ids = rows(connection, &sql, params_from_iter(parameters), |row| {
        columns::id(&row.get::<_, String>(0)?)
    })?;
    let mut found = Vec::with_capacity(ids.len());
    for id in ids {
        found.extend(conversation(connection, viewer, id, None, 0)?);
    }
    Ok(found)
}

fn conversation_row(row: &Row<'_>) -> Result<ConversationRecord, StoreError> {
    Ok(ConversationRecord {
        id: columns::id(&row.get::<_, String>(0)?)?,
        owner: columns::id(&row.get::<_, String>(1)?)?,
        channel: columns::value(&row.get::<_, String>(2)?)?,
        created_at: columns::time(row.get(3)?)?,
        updated_at: columns::time(row.get(4)?)?,
        app: row.get(5)?,
        messages: Vec::new(),
        older: 0,
    })
}

/// A group of ended tasks that a sweep has checked.
pub(super) struct SweepGroup {
    /// Expired tasks whose parent, if any, has ended too.
    pub(super) expired: Vec<Uuid>,
    /// Start of the next group, if there is one.
    pub(super) next: Option<i64>,
}

/// Checks the ended tasks after an ordinal. Reads only the data that retention depends on.
pub(super) fn expired(
    connection: &Connection,
    sweep: &Sweep,
    after: i64,
    now: Timestamp,
) -> Result<SweepGroup, StoreError> {
    let limit = super::SWEEP_GROUP;
    let ended = rows(
        connection,
        "SELECT ordinal, id, status, completed_at, retention_days, tags, EXISTS (\
           SELECT 1 FROM tasks p WHERE p.id = t.parent AND p.completed_at IS NULL) \
         FROM tasks t WHERE app = ?1 AND completed_at IS NOT NULL AND ordinal > ?2 \
         ORDER BY ordinal LIMIT ?3",
        params![sweep.app, after, i64::try_from(limit).unwrap_or(i64::MAX)],
        |row| Ok((row.get::<_, i64>(0)?, expired_task(row, sweep, now))),
    )?;
    let next = ended.last().filter(|_| ended.len() == limit);
    let next = next.map(|(ordinal, _)| *ordinal);
    let mut expired = Vec::new();
    for (ordinal, task) in ended {
        match task {
            Ok(task) => expired.extend(task),
            Err(StoreError::Corrupt(cause)) => {
                tracing::error!(ordinal, cause, "a task cannot be read and is not removed");
            }
            Err(error) => return Err(error),
        }
    }
    Ok(SweepGroup { expired, next })
}

fn expired_task(row: &Row<'_>, sweep: &Sweep, now: Timestamp) -> Result<Option<Uuid>, StoreError> {
    let tags: Vec<String> = serde_json::from_str(&row.get::<_, String>(5)?)?;
    let ended = EndedTask {
        at: columns::time(row.get(3)?)?,
        status: columns::value(&row.get::<_, String>(2)?)?,
        retention_days: row.get(4)?,
        tags: &tags,
    };
    let parent_lives: bool = row.get(6)?;
    let expired = !parent_lives && is_expired(&ended, &sweep.policy, now);
    let id = columns::id(&row.get::<_, String>(1)?)?;
    Ok(expired.then_some(id))
}
