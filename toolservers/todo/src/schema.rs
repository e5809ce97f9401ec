//! The database's tables.

/// Entry n migrates version n to n + 1. Entries are only ever appended.
pub(crate) const MIGRATIONS: &[&str] = &[
    "
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
",
    // The code that stores answers is shared with servers whose keys do not belong to users.
    "ALTER TABLE answers RENAME COLUMN user_id TO owner;",
];

#[cfg(test)]
mod tests {
    use convoke_serving::Sources;
    use rusqlite::Connection;
    use uuid::Uuid;

    use crate::store::{Change, Store};

    #[test]
    fn a_key_used_before_answers_had_owners_still_counts() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("todo.db");
        let user = Uuid::from_u128(0xa);
        let add = Change::Add {
            title: "milk".to_owned(),
        };
        let first = {
            let mut store = Store::open(&file, Sources::real()).unwrap();
            store.change(user, &add, Some("k")).unwrap()
        };
        let back = "ALTER TABLE answers RENAME COLUMN owner TO user_id; PRAGMA user_version = 1;";
        Connection::open(&file)
            .unwrap()
            .execute_batch(back)
            .unwrap();

        let mut store = Store::open(&file, Sources::real()).unwrap();
        assert_eq!(store.change(user, &add, Some("k")).unwrap(), first);
        let count: u32 = Connection::open(&file)
            .unwrap()
            .query_row("SELECT count(*) FROM tasks", [], |row| row.get(0))
            .unwrap();
        assert_eq!(count, 1);
    }
}
