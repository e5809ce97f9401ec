//! The tasks of all users in one SQLite file.

use std::path::Path;

use convoke_serving::{Answer, Keyed, Sources, change_once};
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::Serialize;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::error::{Refusal, TodoError};
use crate::schema;
use crate::task::{Status, Task, title};

/// Limit of tasks per user, so that a list fits into a message.
pub const MAX_TASKS_PER_USER: u32 = 10_000;

const COLUMNS: &str = "id, title, created_at, completed_at";

/// One connection to the database.
#[derive(Debug)]
pub struct Store {
    connection: Connection,
    sources: Sources,
}

/// A change requested by a user.
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
    /// Opens or creates the file, migrates it, and deletes expired keys.
    pub fn open(db: &Path, sources: Sources) -> Result<Self, TodoError> {
        Ok(Self {
            connection: convoke_serving::open(db, schema::MIGRATIONS, sources)?,
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

    /// Makes a change, or returns the stored answer of an earlier call with the same key.
    pub(crate) fn change(
        &mut self,
        user: Uuid,
        change: &Change,
        key: Option<&str>,
    ) -> Result<Answer, TodoError> {
        let owner = user.to_string();
        let keyed = key
            .map(|key| Keyed::new(&owner, key, change.tool(), &json!(change)))
            .transpose()?;
        let sources = self.sources;
        change_once(
            &mut self.connection,
            sources,
            keyed.as_ref(),
            |connection| apply(connection, sources, user, change),
        )
    }
}

fn apply(
    connection: &Connection,
    sources: Sources,
    user: Uuid,
    change: &Change,
) -> Result<Value, TodoError> {
    match change {
        Change::Add { title } => Ok(json!(add(connection, sources, user, title)?)),
        Change::Complete { task } => {
            let found = find(connection, user, *task)?;
            if found.is_completed {
                let mut content = json!(found);
                content["already"] = Value::Bool(true);
                return Ok(content);
            }
            let now = (sources.now)().to_string();
            connection
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
            let found = find(connection, user, *task)?;
            connection
                .prepare_cached("DELETE FROM tasks WHERE user_id = ?1 AND id = ?2")?
                .execute(params![user.to_string(), task.to_string()])?;
            Ok(json!(found))
        }
        Change::Update { task, title } => {
            let found = find(connection, user, *task)?;
            connection
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
    connection: &Connection,
    sources: Sources,
    user: Uuid,
    text: &str,
) -> Result<Task, TodoError> {
    let count: u32 = connection
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
    connection
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

/// A task of this user. Another user's task is not found, with the same message.
fn find(connection: &Connection, user: Uuid, id: Uuid) -> Result<Task, TodoError> {
    connection
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
