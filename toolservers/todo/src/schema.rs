//! The database's tables, brought from whichever version the file has to the newest.

use rusqlite::{Connection, TransactionBehavior};

use crate::error::TodoError;

/// What makes version n + 1 out of version n. Entries are only ever added.
const MIGRATIONS: &[&str] = &["
    CREATE TABLE tasks (
        -- Tasks are listed in the order of their making, which clocks cannot promise.
        position     INTEGER PRIMARY KEY AUTOINCREMENT,
        id           TEXT NOT NULL UNIQUE,
        user_id      TEXT NOT NULL,
        title        TEXT NOT NULL,
        created_at   TEXT NOT NULL,
        completed_at TEXT
    ) STRICT;
    CREATE INDEX tasks_of_user ON tasks (user_id, position);

    -- What was answered to a call under a key, written with the effect of that call.
    CREATE TABLE answers (
        user_id    TEXT NOT NULL,
        key        TEXT NOT NULL,
        tool       TEXT NOT NULL,
        arguments  BLOB NOT NULL,
        answer     TEXT NOT NULL,
        is_error   INTEGER NOT NULL,
        created_ms INTEGER NOT NULL,
        PRIMARY KEY (user_id, key)
    ) STRICT;
    CREATE INDEX answers_by_age ON answers (created_ms);
"];

/// Brings the file to the newest version. Two processes that start at once take turns.
pub(crate) fn migrate(connection: &mut Connection) -> Result<(), TodoError> {
    let known = i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX);
    if version(connection)? == known {
        return Ok(());
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Read again under the lock: another process may have been faster.
    let found = version(&transaction)?;
    let done = usize::try_from(found).unwrap_or(usize::MAX);
    let Some(todo) = MIGRATIONS.get(done..) else {
        return Err(TodoError::NewerSchema { found, known });
    };
    for migration in todo {
        transaction.execute_batch(migration)?;
    }
    transaction.pragma_update(None, "user_version", known)?;
    transaction.commit()?;
    Ok(())
}

fn version(connection: &Connection) -> Result<i64, rusqlite::Error> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_migrated_once() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection).unwrap();
        migrate(&mut connection).unwrap();
        assert_eq!(version(&connection).unwrap(), 1);
    }

    #[test]
    fn a_file_of_a_newer_server_is_left_alone() {
        let mut connection = Connection::open_in_memory().unwrap();
        connection.pragma_update(None, "user_version", 99).unwrap();
        let error = migrate(&mut connection).unwrap_err();
        assert!(
            matches!(
                error,
                TodoError::NewerSchema {
                    found: 99,
                    known: 1
                }
            ),
            "{error}"
        );
    }
}
