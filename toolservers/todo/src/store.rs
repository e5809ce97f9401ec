//! The tasks of all users in one SQLite file.

use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, Transaction, TransactionBehavior, params};
use serde::Serialize;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::error::{Refusal, TodoError};
use crate::idempotency::{self, Keyed, MAX_KEY_LENGTH};
use crate::schema;
use crate::task::{Status, Task, title};

/// How long a call waits for another process that is writing.
pub const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// How many tasks one user may have, so that a list always fits into a message.
pub const MAX_TASKS_PER_USER: u32 = 10_000;

/// How long to wait before write-ahead logging is tried again.
const WAL_PAUSE: Duration = Duration::from_millis(5);

const COLUMNS: &str = "id, title, created_at, completed_at";

/// Where time and ids come from.
#[derive(Debug, Clone, Copy)]
pub struct Sources {
    /// The present time.
    pub now: fn() -> Timestamp,
    /// An id that nobody has.
    pub id: fn() -> Uuid,
}

impl Sources {
    /// The system's clock, and ids that sort by time.
    #[expect(
        clippy::disallowed_methods,
        reason = "the server is an edge of its own: nothing is replayed here"
    )]
    pub fn real() -> Self {
        Self {
            now: Timestamp::now,
            id: Uuid::now_v7,
        }
    }
}

/// One connection to the database.
#[derive(Debug)]
pub struct Store {
    connection: Connection,
    sources: Sources,
}

/// What a tool answers: a result, or a refusal that belongs to the state of the data.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Answer {
    pub(crate) content: Value,
    pub(crate) is_error: bool,
}

/// A change that a user asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Change {
    Add { title: String },
    Complete { task: Uuid },
    Delete { task: Uuid },
    Update { task: Uuid, title: String },
}

impl Change {
    fn tool(&self) -> &'static str {
        match self {
            Self::Add { .. } => "add_task",
            Self::Complete { .. } => "complete_task",
            Self::Delete { .. } => "delete_task",
            Self::Update { .. } => "update_task",
        }
    }
}

impl Store {
    /// Opens or makes the file, brings it to the newest version, and forgets old keys.
    pub fn open(db: &Path, sources: Sources) -> Result<Self, TodoError> {
        let mut connection = Connection::open(db)?;
        connection.busy_timeout(BUSY_TIMEOUT)?;
        enter_wal(&connection)?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        schema::migrate(&mut connection)?;
        let swept = idempotency::sweep(&connection, (sources.now)().as_millisecond())?;
        tracing::debug!(swept, "the database is open");
        Ok(Self {
            connection,
            sources,
        })
    }

    /// A user's tasks, oldest first.
    pub fn list(&self, user: Uuid, status: Status) -> Result<Vec<Task>, TodoError> {
        let condition = match status {
            Status::Pending => "AND completed_at IS NULL",
            Status::Completed => "AND completed_at IS NOT NULL",
            Status::All => "",
        };
        let mut statement = self.connection.prepare_cached(&format!(
            "SELECT {COLUMNS} FROM tasks WHERE user_id = ?1 {condition} ORDER BY position"
        ))?;
        let tasks = statement
            .query_map([user.to_string()], task)?
            .collect::<Result<_, _>>()?;
        Ok(tasks)
    }

    /// Makes a change, or gives the answer that it got when it was made before under this key.
    pub(crate) fn change(
        &mut self,
        user: Uuid,
        change: &Change,
        key: Option<&str>,
    ) -> Result<Answer, TodoError> {
        let arguments = json!(change);
        let keyed = match key {
            Some(key) if (1..=MAX_KEY_LENGTH).contains(&key.chars().count()) => Some(Keyed {
                user,
                key,
                tool: change.tool(),
                arguments: &arguments,
            }),
            Some(_) => return Err(Refusal::Key.into()),
            None => None,
        };
        let sources = self.sources;
        // The lock is taken before anything is read, so that of two calls under one key the second
        // finds the first one's answer.
        let transaction = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)?;
        if let Some(keyed) = &keyed
            && let Some(answer) = keyed.earlier(&transaction)?
        {
            return Ok(answer);
        }
        let answer = match apply(&transaction, sources, user, change) {
            Ok(content) => Answer {
                content,
                is_error: false,
            },
            Err(TodoError::Refused(refusal)) => Answer {
                content: refusal.to_value(),
                is_error: true,
            },
            Err(error) => return Err(error),
        };
        if let Some(keyed) = &keyed {
            keyed.keep(&transaction, &answer, (sources.now)().as_millisecond())?;
        }
        transaction.commit()?;
        Ok(answer)
    }
}

/// Turns write-ahead logging on. `SQLite` does not wait for others while it changes the mode, so
/// that of two processes that open a new file at once, one has to try again.
fn enter_wal(connection: &Connection) -> Result<(), rusqlite::Error> {
    let mut waited = Duration::ZERO;
    loop {
        match connection.pragma_update(None, "journal_mode", "WAL") {
            Err(error) if is_busy(&error) && waited < BUSY_TIMEOUT => {
                std::thread::sleep(WAL_PAUSE);
                waited += WAL_PAUSE;
            }
            outcome => return outcome,
        }
    }
}

fn is_busy(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseBusy)
}

fn apply(
    transaction: &Transaction<'_>,
    sources: Sources,
    user: Uuid,
    change: &Change,
) -> Result<Value, TodoError> {
    match change {
        Change::Add { title } => Ok(json!(add(transaction, sources, user, title)?)),
        Change::Complete { task } => {
            let found = find(transaction, user, *task)?;
            if found.is_completed {
                let mut content = json!(found);
                content["already"] = Value::Bool(true);
                return Ok(content);
            }
            let now = (sources.now)().to_string();
            transaction
                .prepare_cached(
                    "UPDATE tasks SET completed_at = ?3 WHERE user_id = ?1 AND id = ?2",
                )?
                .execute(params![user.to_string(), task.to_string(), now])?;
            Ok(json!(Task {
                is_completed: true,
                completed_at: Some(now),
                ..found
            }))
        }
        Change::Delete { task } => {
            let found = find(transaction, user, *task)?;
            transaction
                .prepare_cached("DELETE FROM tasks WHERE user_id = ?1 AND id = ?2")?
                .execute(params![user.to_string(), task.to_string()])?;
            Ok(json!(found))
        }
        Change::Update { task, title } => {
            let found = find(transaction, user, *task)?;
            transaction
                .prepare_cached("UPDATE tasks SET title = ?3 WHERE user_id = ?1 AND id = ?2")?
                .execute(params![user.to_string(), task.to_string(), title])?;
            Ok(json!(Task {
                title: title.clone(),
                ..found
            }))
        }
    }
}

fn add(
    transaction: &Transaction<'_>,
    sources: Sources,
    user: Uuid,
    text: &str,
) -> Result<Task, TodoError> {
    let count: u32 = transaction
        .prepare_cached("SELECT count(*) FROM tasks WHERE user_id = ?1")?
        .query_row([user.to_string()], |row| row.get(0))?;
    if count >= MAX_TASKS_PER_USER {
        return Err(Refusal::TooManyTasks.into());
    }
    let added = Task {
        id: (sources.id)(),
        title: title(text)?,
        is_completed: false,
        created_at: (sources.now)().to_string(),
        completed_at: None,
    };
    transaction
        .prepare_cached(
            "INSERT INTO tasks (id, user_id, title, created_at) VALUES (?1, ?2, ?3, ?4)",
        )?
        .execute(params![
            added.id.to_string(),
            user.to_string(),
            added.title,
            added.created_at
        ])?;
    Ok(added)
}

/// A task of this user. Somebody else's is not found, in the same words.
fn find(transaction: &Transaction<'_>, user: Uuid, id: Uuid) -> Result<Task, TodoError> {
    transaction
        .prepare_cached(&format!(
            "SELECT {COLUMNS} FROM tasks WHERE user_id = ?1 AND id = ?2"
        ))?
        .query_row(params![user.to_string(), id.to_string()], task)
        .optional()?
        .ok_or_else(|| Refusal::NotFound(id.to_string()).into())
}

fn task(row: &Row<'_>) -> Result<Task, rusqlite::Error> {
    let completed_at: Option<String> = row.get(3)?;
    Ok(Task {
        id: id(row)?,
        title: row.get(1)?,
        is_completed: completed_at.is_some(),
        created_at: row.get(2)?,
        completed_at,
    })
}

fn id(row: &Row<'_>) -> Result<Uuid, rusqlite::Error> {
    let text: String = row.get(0)?;
    Uuid::try_parse(&text).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Text, error.into())
    })
}

#[cfg(test)]
mod tests;
