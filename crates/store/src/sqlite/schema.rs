//! The tables, and how an older file becomes a newer one.

use rusqlite::{Connection, Transaction, TransactionBehavior};

use crate::error::StoreError;

/// Each step brings a file from the version of its index to the next. Steps are never edited.
const MIGRATIONS: &[&str] = &[FIRST];

const FIRST: &str = "
CREATE TABLE conversations (
  id          TEXT PRIMARY KEY,
  owner       TEXT NOT NULL,
  channel     TEXT NOT NULL,
  created_at  INTEGER NOT NULL,
  updated_at  INTEGER NOT NULL
);
CREATE INDEX conversations_by_owner ON conversations (owner, updated_at);

CREATE TABLE tasks (
  ordinal         INTEGER PRIMARY KEY AUTOINCREMENT,
  id              TEXT NOT NULL UNIQUE,
  key             TEXT,
  owner           TEXT NOT NULL,
  conversation    TEXT,
  channel         TEXT NOT NULL,
  app             TEXT NOT NULL,
  definition      TEXT NOT NULL,
  description     TEXT NOT NULL,
  parent          TEXT,
  status          TEXT NOT NULL,
  stage           TEXT,
  epoch           INTEGER NOT NULL DEFAULT 0,
  seq             INTEGER NOT NULL,
  worker          TEXT,
  ready_at        INTEGER,
  claims          INTEGER NOT NULL DEFAULT 0,
  created_at      INTEGER NOT NULL,
  started_at      INTEGER,
  completed_at    INTEGER,
  deadline        INTEGER NOT NULL,
  retention_days  INTEGER,
  tags            TEXT NOT NULL,
  result          TEXT,
  error           TEXT
);
CREATE UNIQUE INDEX tasks_by_key ON tasks (owner, key) WHERE key IS NOT NULL;
CREATE INDEX tasks_ready ON tasks (ready_at, ordinal) WHERE ready_at IS NOT NULL;
CREATE INDEX tasks_by_conversation ON tasks (conversation, ordinal) WHERE conversation IS NOT NULL;
CREATE INDEX tasks_by_parent ON tasks (parent) WHERE parent IS NOT NULL;
CREATE INDEX tasks_by_owner ON tasks (owner, ordinal);
CREATE INDEX tasks_ended ON tasks (completed_at) WHERE completed_at IS NOT NULL;
CREATE INDEX tasks_held ON tasks (worker) WHERE worker IS NOT NULL;

CREATE TABLE entries (
  task   INTEGER NOT NULL,
  seq    INTEGER NOT NULL,
  at     INTEGER NOT NULL,
  kind   TEXT NOT NULL,
  event  TEXT NOT NULL,
  state  TEXT NOT NULL
);
CREATE UNIQUE INDEX entries_by_task ON entries (task, seq);

CREATE TABLE messages (
  task     INTEGER NOT NULL,
  seq      INTEGER NOT NULL,
  spoken   INTEGER NOT NULL,
  message  TEXT NOT NULL
);
CREATE INDEX messages_by_task ON messages (task);

CREATE TABLE signals (
  id        INTEGER PRIMARY KEY AUTOINCREMENT,
  task      INTEGER NOT NULL,
  key       TEXT NOT NULL,
  kind      TEXT NOT NULL,
  payload   TEXT NOT NULL,
  at        INTEGER NOT NULL,
  consumed  INTEGER NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX signals_by_key ON signals (task, key);
CREATE INDEX signals_waiting ON signals (task, id) WHERE consumed = 0;
";

/// Brings a file up to the newest version, or refuses one that is newer than this program.
pub(super) fn migrate(connection: &mut Connection) -> Result<(), StoreError> {
    let known = i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX);
    if version(connection)? == known {
        return Ok(());
    }
    let transaction =
        Transaction::new(connection, TransactionBehavior::Immediate).map_err(StoreError::from)?;
    // Another process may have migrated the file while this one waited for the lock.
    let found = version(&transaction)?;
    if found > known {
        return Err(StoreError::TooNew { found, known });
    }
    for step in MIGRATIONS.iter().skip(usize::try_from(found).unwrap_or(0)) {
        transaction.execute_batch(step)?;
    }
    transaction.pragma_update(None, "user_version", known)?;
    transaction.commit()?;
    Ok(())
}

fn version(connection: &Connection) -> Result<i64, StoreError> {
    Ok(connection.pragma_query_value(None, "user_version", |row| row.get(0))?)
}
