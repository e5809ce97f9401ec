//! A database file that several processes may share, migrated to the newest version.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, TransactionBehavior};

use crate::answers;
use crate::failure::{Failure, Refuse};
use crate::sources::Sources;

/// How long a call waits for another process's write lock.
pub const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// Pause before the next attempt to enable write-ahead logging.
const WAL_PAUSE: Duration = Duration::from_millis(5);

/// Opens or creates the file, migrates it to the newest version, and deletes expired keys.
///
/// Entry n of the migrations turns version n into n + 1, so entries are only ever appended. Together
/// they must create the [`ANSWERS_TABLE`](crate::ANSWERS_TABLE).
pub fn open<R: Refuse>(
    file: &Path,
    migrations: &[&str],
    sources: Sources,
) -> Result<Connection, Failure<R>> {
    let mut connection = Connection::open(file)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    enter_wal(&connection)?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    migrate(&mut connection, migrations)?;
    let swept = answers::sweep(&connection, (sources.now)().as_millisecond())?;
    tracing::debug!(swept, "the database is open");
    Ok(connection)
}

/// Enables write-ahead logging. `SQLite` does not wait for locks while it changes the mode, so of two
/// processes that open a new file at once, one has to retry.
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

/// Migrates the file to the newest version, under the write lock.
fn migrate<R: Refuse>(connection: &mut Connection, migrations: &[&str]) -> Result<(), Failure<R>> {
    let known = i64::try_from(migrations.len()).unwrap_or(i64::MAX);
    if version(connection)? == known {
        return Ok(());
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Read again under the lock: another process may have migrated it.
    let found = version(&transaction)?;
    let done = usize::try_from(found).unwrap_or(usize::MAX);
    let Some(missing) = migrations.get(done..) else {
        return Err(Failure::NewerSchema { found, known });
    };
    for migration in missing {
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
    use crate::failure::example::Refusal;

    const MIGRATIONS: &[&str] = &[
        "CREATE TABLE things (name TEXT NOT NULL) STRICT;",
        "ALTER TABLE things RENAME COLUMN name TO title;",
    ];

    #[test]
    fn a_file_is_migrated_once_from_whichever_version_it_has() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate::<Refusal>(&mut connection, &MIGRATIONS[..1]).unwrap();
        connection
            .execute("INSERT INTO things (name) VALUES ('lamp')", [])
            .unwrap();
        migrate::<Refusal>(&mut connection, MIGRATIONS).unwrap();
        migrate::<Refusal>(&mut connection, MIGRATIONS).unwrap();
        assert_eq!(version(&connection).unwrap(), 2);
        let title: String = connection
            .query_row("SELECT title FROM things", [], |row| row.get(0))
            .unwrap();
        assert_eq!(title, "lamp");
    }

    #[test]
    fn a_file_of_a_newer_server_is_not_changed() {
        let mut connection = Connection::open_in_memory().unwrap();
        connection.pragma_update(None, "user_version", 99).unwrap();
        let error = migrate::<Refusal>(&mut connection, MIGRATIONS).unwrap_err();
        assert!(
            matches!(
                error,
                Failure::NewerSchema {
                    found: 99,
                    known: 2
                }
            ),
            "{error}"
        );
    }
}
