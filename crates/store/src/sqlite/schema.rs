//! The tables, and the migrations of older files.

use rusqlite::{Connection, Transaction, TransactionBehavior};

use crate::error::StoreError;

/// The step at each index migrates a file of that version to the next. Steps are never edited.
const MIGRATIONS: &[&str] = &[
    FIRST,
    MESSAGES_WITH_THEIR_ENTRIES,
    DEFINITIONS,
    ONE_APP_EACH,
    TRUST_IN_DEFINITIONS,
    TRACES,
    BLOBS,
];

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

/// An entry is one row, with its messages and the number of those in the conversation. A task's row changes only when
/// its status changes, so the sequence is taken from the journal.
const MESSAGES_WITH_THEIR_ENTRIES: &str = "
ALTER TABLE entries ADD COLUMN spoken INTEGER NOT NULL DEFAULT 0;
ALTER TABLE entries ADD COLUMN messages TEXT;
UPDATE entries SET
  spoken = (SELECT count(*) FROM messages m
    WHERE m.task = entries.task AND m.seq = entries.seq AND m.spoken),
  messages = (SELECT json_group_array(json_object(
      'spoken', json(CASE WHEN m.spoken THEN 'true' ELSE 'false' END), 'message', json(m.message)))
    FROM (SELECT * FROM messages n
      WHERE n.task = entries.task AND n.seq = entries.seq ORDER BY n.rowid) m);
UPDATE entries SET messages = NULL WHERE messages = '[]';
CREATE INDEX entries_spoken ON entries (task, seq, spoken) WHERE spoken > 0;
DROP TABLE messages;
DROP INDEX tasks_held;
ALTER TABLE tasks DROP COLUMN seq;
";

/// Definitions of tasks. A task of an older file has none.
const DEFINITIONS: &str = "
CREATE TABLE definitions (
  hash   TEXT PRIMARY KEY,
  files  TEXT NOT NULL
);
";

/// A conversation and a key belong to one app. A conversation that two apps used stays with the first. The indexes
/// serve queries over many tasks: the next task of a conversation, lists, and expired tasks.
const ONE_APP_EACH: &str = "
ALTER TABLE conversations ADD COLUMN app TEXT NOT NULL DEFAULT '';
UPDATE conversations SET app = coalesce(
  (SELECT t.app FROM tasks t WHERE t.conversation = conversations.id ORDER BY t.ordinal LIMIT 1), '');
DROP INDEX conversations_by_owner;
CREATE INDEX conversations_by_owner ON conversations (owner, app, updated_at);

ALTER TABLE tasks ADD COLUMN fingerprint TEXT;
DROP INDEX tasks_by_key;
CREATE UNIQUE INDEX tasks_by_key ON tasks (app, owner, key) WHERE key IS NOT NULL;
DROP INDEX tasks_by_owner;
CREATE INDEX tasks_by_owner ON tasks (owner, status);
CREATE INDEX tasks_by_app ON tasks (app, status);
CREATE INDEX tasks_by_status ON tasks (status);
DROP INDEX tasks_ended;
CREATE INDEX tasks_ended ON tasks (app) WHERE completed_at IS NOT NULL;
CREATE INDEX tasks_turns ON tasks (conversation, ordinal) WHERE completed_at IS NULL;
";

/// An imported definition is untrusted until its user trusts it. Those of an older file have run already.
const TRUST_IN_DEFINITIONS: &str = "
ALTER TABLE definitions ADD COLUMN trusted INTEGER NOT NULL DEFAULT 1;
";

/// The trace of a task's request, and an index of conversations by app.
const TRACES: &str = "
ALTER TABLE tasks ADD COLUMN trace TEXT;
CREATE INDEX conversations_by_app ON conversations (app, updated_at);
";

/// Large values are stored beside the journal, once and in chunks, while a task names them. `journal` marks those that
/// only the texts of the task's entries name. `blobs` holds the offsets of references in a text.
const BLOBS: &str = "
CREATE TABLE blobs (
  id     INTEGER PRIMARY KEY,
  hash   TEXT NOT NULL UNIQUE,
  bytes  INTEGER NOT NULL
);
CREATE TABLE blob_chunks (
  blob     INTEGER NOT NULL,
  place    INTEGER NOT NULL,
  content  BLOB NOT NULL
);
CREATE UNIQUE INDEX blob_chunks_by_place ON blob_chunks (blob, place);
CREATE TABLE task_blobs (
  task     INTEGER NOT NULL,
  blob     INTEGER NOT NULL,
  journal  INTEGER NOT NULL,
  PRIMARY KEY (task, blob)
) WITHOUT ROWID;
CREATE INDEX task_blobs_by_blob ON task_blobs (blob);
ALTER TABLE entries ADD COLUMN blobs TEXT;
";

/// Migrates a file to the newest version. Fails for one that is newer than this program.
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

/// Fails for a file whose version this program cannot read without migration.
pub(super) fn check(connection: &Connection) -> Result<(), StoreError> {
    let known = i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX);
    let found = version(connection)?;
    if found > known {
        return Err(StoreError::TooNew { found, known });
    }
    if found < known {
        let message = format!(
            "the file has schema version {found} and cannot be brought to {known}, because it cannot be written"
        );
        return Err(StoreError::Unavailable(message));
    }
    Ok(())
}

fn version(connection: &Connection) -> Result<i64, StoreError> {
    Ok(connection.pragma_query_value(None, "user_version", |row| row.get(0))?)
}
