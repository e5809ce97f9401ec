//! Column formats: ids and names as readable text, times as milliseconds.

use convoke_model::{BlobHash, Message};
use jiff::Timestamp;
use rusqlite::{Connection, Row};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::large_values::{self, Text};
use crate::error::StoreError;
use crate::journal::{Entry, JournalEvent, NewMessage, StoredMessage};
use crate::signal::Signal;
use crate::state::{StateReader, misfit};
use crate::task::{SUMMARY_CHARACTERS, TaskRecord, TaskSummary};

/// The columns of a task's row `t`, in the order in which [`task`] reads them. Its sequence is that of
/// its newest entry.
pub(super) const TASK: &str = "id, ordinal, owner, conversation, channel, app, definition, \
     description, parent, status, stage, epoch, \
     (SELECT max(seq) FROM entries WHERE task = t.ordinal), worker, ready_at, claims, created_at, \
     started_at, completed_at, deadline, retention_days, tags, result, error, trace";

/// The index of the ordinal.
pub(super) const ORDINAL: usize = 1;

/// The number of these columns.
pub(super) const TASK_COLUMNS: usize = 25;

pub(super) fn task(row: &Row<'_>) -> Result<TaskRecord, StoreError> {
    Ok(TaskRecord {
        id: id(&row.get::<_, String>(0)?)?,
        ordinal: row.get(ORDINAL)?,
        owner: id(&row.get::<_, String>(2)?)?,
        conversation: optional_id(row, 3)?,
        channel: value(&row.get::<_, String>(4)?)?,
        app: row.get(5)?,
        definition: row.get(6)?,
        description: row.get(7)?,
        parent: optional_id(row, 8)?,
        status: value(&row.get::<_, String>(9)?)?,
        stage: optional_value(row, 10)?,
        epoch: row.get(11)?,
        seq: row.get(12)?,
        worker: row.get(13)?,
        ready_at: optional_time(row.get(14)?)?,
        claims: row.get(15)?,
        created_at: time(row.get(16)?)?,
        started_at: optional_time(row.get(17)?)?,
        completed_at: optional_time(row.get(18)?)?,
        deadline: time(row.get(19)?)?,
        retention_days: row.get(20)?,
        tags: serde_json::from_str(&row.get::<_, String>(21)?)?,
        result: row.get(22)?,
        error: row.get(23)?,
        trace: row.get(24)?,
    })
}

/// The columns of a task in a list, in the order in which [`summary`] reads them.
pub(super) fn summary_columns() -> String {
    let cut = SUMMARY_CHARACTERS;
    format!(
        "id, ordinal, owner, conversation, channel, app, definition, \
         substr(description, 1, {cut}), parent, status, stage, created_at, started_at, \
         completed_at, retention_days, tags, substr(result, 1, {cut}), substr(error, 1, {cut}), \
         worker, ready_at"
    )
}

pub(super) fn summary(row: &Row<'_>) -> Result<TaskSummary, StoreError> {
    Ok(TaskSummary {
        id: id(&row.get::<_, String>(0)?)?,
        ordinal: row.get(ORDINAL)?,
        owner: id(&row.get::<_, String>(2)?)?,
        conversation: optional_id(row, 3)?,
        channel: value(&row.get::<_, String>(4)?)?,
        app: row.get(5)?,
        definition: row.get(6)?,
        description: row.get(7)?,
        parent: optional_id(row, 8)?,
        status: value(&row.get::<_, String>(9)?)?,
        stage: optional_value(row, 10)?,
        created_at: time(row.get(11)?)?,
        started_at: optional_time(row.get(12)?)?,
        completed_at: optional_time(row.get(13)?)?,
        retention_days: row.get(14)?,
        tags: serde_json::from_str(&row.get::<_, String>(15)?)?,
        result: row.get(16)?,
        error: row.get(17)?,
        worker: row.get(18)?,
        ready_at: optional_time(row.get(19)?)?,
    })
}

/// Reads `seq, at, kind, event, state, blobs` from a column on; the state with a reader of the previous states, in case
/// it is a delta.
pub(super) fn entry(
    connection: &Connection,
    row: &Row<'_>,
    from: usize,
    states: &mut StateReader,
    earlier: impl FnOnce(u64) -> Result<StateReader, StoreError>,
) -> Result<Entry, StoreError> {
    let seq: u64 = row.get(from)?;
    let blobs = from + 5;
    let state = large_values::whole(connection, row, from + 4, blobs, Text::State)?;
    if states.needs_earlier(&state) {
        *states = earlier(seq)?;
    }
    let state = states.read(&state).ok_or_else(|| misfit(seq))?;
    Ok(Entry {
        seq,
        at: time(row.get(from + 1)?)?,
        kind: row.get(from + 2)?,
        event: serde_json::from_str(&large_values::whole(
            connection,
            row,
            from + 3,
            blobs,
            Text::Event,
        )?)?,
        state,
    })
}

/// A message in the column of its entry.
#[derive(Deserialize)]
struct MessageColumn {
    #[serde(rename = "spoken")]
    in_conversation: bool,
    message: Message,
}

/// Reads `seq, messages, blobs`.
pub(super) fn messages(
    connection: &Connection,
    row: &Row<'_>,
) -> Result<Vec<StoredMessage>, StoreError> {
    let seq = row.get(0)?;
    let text = large_values::whole(connection, row, 1, 2, Text::Messages)?;
    let parsed: Vec<MessageColumn> = serde_json::from_str(&text)?;
    let stored = |MessageColumn {
                      in_conversation,
                      message,
                  }| StoredMessage {
        seq,
        in_conversation,
        message,
    };
    Ok(parsed.into_iter().map(stored).collect())
}

/// The column of an entry's messages. `None` without messages.
pub(super) fn messages_text(messages: &[NewMessage]) -> Option<String> {
    if messages.is_empty() {
        return None;
    }
    let length: usize = messages.iter().map(|new| new.message.len() + 32).sum();
    let mut text = String::with_capacity(length + 2);
    for new in messages {
        text.push(if text.is_empty() { '[' } else { ',' });
        text.push_str(if new.in_conversation {
            r#"{"spoken":true,"message":"#
        } else {
            r#"{"spoken":false,"message":"#
        });
        text.push_str(&new.message);
        text.push('}');
    }
    text.push(']');
    Some(text)
}

/// Reads `seq, at, kind, event, blobs`.
pub(super) fn event(connection: &Connection, row: &Row<'_>) -> Result<JournalEvent, StoreError> {
    let event = large_values::whole(connection, row, 3, 4, Text::Event)?;
    Ok(JournalEvent {
        seq: row.get(0)?,
        at: time(row.get(1)?)?,
        kind: row.get(2)?,
        event: serde_json::from_str(&event)?,
    })
}

/// Reads `id, kind, payload, at`.
pub(super) fn signal(row: &Row<'_>) -> Result<Signal, StoreError> {
    Ok(Signal {
        id: row.get(0)?,
        kind: row.get(1)?,
        payload: serde_json::from_str(&row.get::<_, String>(2)?)?,
        at: time(row.get(3)?)?,
    })
}

pub(super) fn id(text: &str) -> Result<Uuid, StoreError> {
    Uuid::parse_str(text).map_err(|error| StoreError::Corrupt(format!("id `{text}`: {error}")))
}

pub(super) fn hash(text: &str) -> Result<BlobHash, StoreError> {
    text.parse()
        .map_err(|error| StoreError::Corrupt(format!("hash `{text}`: {error}")))
}

fn optional_id(row: &Row<'_>, column: usize) -> Result<Option<Uuid>, StoreError> {
    let text: Option<String> = row.get(column)?;
    text.as_deref().map(id).transpose()
}

fn optional_value<T: DeserializeOwned>(
    row: &Row<'_>,
    column: usize,
) -> Result<Option<T>, StoreError> {
    let word: Option<String> = row.get(column)?;
    word.as_deref().map(value).transpose()
}

/// The serialized name of a unit variant.
pub(super) fn word(value: &impl Serialize) -> Result<String, StoreError> {
    match serde_json::to_value(value)? {
        serde_json::Value::String(word) => Ok(word),
        other => Err(StoreError::Corrupt(format!("`{other}` is not a word"))),
    }
}

pub(super) fn value<T: DeserializeOwned>(word: &str) -> Result<T, StoreError> {
    Ok(serde_json::from_value(serde_json::Value::String(
        word.to_owned(),
    ))?)
}

pub(super) fn millis(time: Timestamp) -> i64 {
    time.as_millisecond()
}

pub(super) fn time(millis: i64) -> Result<Timestamp, StoreError> {
    Timestamp::from_millisecond(millis)
        .map_err(|error| StoreError::Corrupt(format!("time {millis}: {error}")))
}

fn optional_time(millis: Option<i64>) -> Result<Option<Timestamp>, StoreError> {
    millis.map(time).transpose()
}
