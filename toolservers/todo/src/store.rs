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
mod tests {
    use std::thread;

    use jiff::ToSpan;
    use tempfile::TempDir;

    use super::*;

    const ANNA: Uuid = Uuid::from_u128(0xa);
    const BEN: Uuid = Uuid::from_u128(0xb);

    struct File(TempDir);

    impl File {
        fn new() -> Self {
            Self(tempfile::tempdir().unwrap())
        }

        fn open(&self) -> Store {
            self.open_at(Sources::real().now)
        }

        fn open_at(&self, now: fn() -> Timestamp) -> Store {
            let sources = Sources {
                now,
                ..Sources::real()
            };
            Store::open(&self.0.path().join("todo.db"), sources).unwrap()
        }
    }

    fn add(title: &str) -> Change {
        Change::Add {
            title: title.to_owned(),
        }
    }

    fn added(store: &mut Store, user: Uuid, title: &str) -> Uuid {
        id_of(&store.change(user, &add(title), None).unwrap())
    }

    fn id_of(answer: &Answer) -> Uuid {
        assert!(!answer.is_error, "{answer:?}");
        serde_json::from_value(answer.content["id"].clone()).unwrap()
    }

    fn titles(store: &Store, user: Uuid, status: Status) -> Vec<String> {
        store
            .list(user, status)
            .unwrap()
            .into_iter()
            .map(|task| task.title)
            .collect()
    }

    #[test]
    fn tasks_are_listed_by_status_oldest_first() {
        let file = File::new();
        let mut store = file.open();
        let ids: Vec<Uuid> = ["one", "two", "three"]
            .map(|title| added(&mut store, ANNA, title))
            .to_vec();
        store
            .change(ANNA, &Change::Complete { task: ids[1] }, None)
            .unwrap();
        assert_eq!(titles(&store, ANNA, Status::Pending), ["one", "three"]);
        assert_eq!(titles(&store, ANNA, Status::Completed), ["two"]);
        assert_eq!(titles(&store, ANNA, Status::All), ["one", "two", "three"]);
        assert_eq!(ids[0].get_version_num(), 7);
    }

    #[test]
    fn completing_twice_succeeds_and_says_so() {
        let file = File::new();
        let mut store = file.open();
        let task = added(&mut store, ANNA, "one");
        let first = store
            .change(ANNA, &Change::Complete { task }, None)
            .unwrap();
        let second = store
            .change(ANNA, &Change::Complete { task }, None)
            .unwrap();
        assert_eq!(first.content.get("already"), None);
        assert_eq!(second.content["already"], true);
        assert_eq!(
            first.content["completed_at"],
            second.content["completed_at"]
        );
        assert_eq!(second.content["is_completed"], true);
    }

    #[test]
    fn another_users_task_is_not_found_in_the_words_of_one_that_never_was() {
        let file = File::new();
        let mut store = file.open();
        let task = added(&mut store, ANNA, "private");
        let missing = Uuid::from_u128(0xdead);
        let changes: [fn(Uuid) -> Change; 3] = [
            |task| Change::Complete { task },
            |task| Change::Delete { task },
            |task| Change::Update {
                task,
                title: "mine now".to_owned(),
            },
        ];
        for make in changes {
            let theirs = store.change(BEN, &make(task), None).unwrap();
            let nobodys = store.change(BEN, &make(missing), None).unwrap();
            assert!(theirs.is_error);
            let words = |answer: &Answer, id: Uuid| {
                answer.content.to_string().replace(&id.to_string(), "ID")
            };
            assert_eq!(words(&theirs, task), words(&nobodys, missing));
        }
        assert!(store.list(BEN, Status::All).unwrap().is_empty());
        assert_eq!(titles(&store, ANNA, Status::Pending), ["private"]);
    }

    #[test]
    fn a_repeated_key_gives_the_first_answer_and_no_second_effect() {
        let file = File::new();
        let mut store = file.open();
        let first = store.change(ANNA, &add("milk"), Some("k")).unwrap();
        // A new process, after a crash, knows it too.
        drop(store);
        let mut store = file.open();
        assert_eq!(store.change(ANNA, &add("milk"), Some("k")).unwrap(), first);
        assert_eq!(titles(&store, ANNA, Status::All), ["milk"]);

        let delete = Change::Delete {
            task: id_of(&first),
        };
        let deleted = store.change(ANNA, &delete, Some("d")).unwrap();
        assert_eq!(store.change(ANNA, &delete, Some("d")).unwrap(), deleted);
        assert!(store.change(ANNA, &delete, None).unwrap().is_error);
    }

    #[test]
    fn a_refusal_under_a_key_is_repeated_too() {
        let file = File::new();
        let mut store = file.open();
        let delete = Change::Delete {
            task: Uuid::from_u128(1),
        };
        let first = store.change(ANNA, &delete, Some("k")).unwrap();
        assert!(first.is_error);
        assert_eq!(store.change(ANNA, &delete, Some("k")).unwrap(), first);
    }

    #[test]
    fn a_key_stands_for_one_call_of_one_user() {
        let file = File::new();
        let mut store = file.open();
        let task = id_of(&store.change(ANNA, &add("milk"), Some("k")).unwrap());
        for other in [add("bread"), Change::Complete { task }] {
            let error = store.change(ANNA, &other, Some("k")).unwrap_err();
            assert_eq!(error.code(), "todo.idempotency_key_reused");
        }
        let bens = store.change(BEN, &add("milk"), Some("k")).unwrap();
        assert_ne!(id_of(&bens), task);
        for wrong in ["", &"k".repeat(MAX_KEY_LENGTH + 1)] {
            let error = store.change(ANNA, &add("milk"), Some(wrong)).unwrap_err();
            assert_eq!(error.code(), "todo.idempotency_key");
        }
    }

    #[test]
    fn of_many_calls_at_once_under_one_key_one_takes_effect() {
        let file = File::new();
        drop(file.open());
        let answers: Vec<Answer> = thread::scope(|scope| {
            let calls: Vec<_> = (0..8)
                .map(|_| scope.spawn(|| file.open().change(ANNA, &add("milk"), Some("k")).unwrap()))
                .collect();
            calls.into_iter().map(|call| call.join().unwrap()).collect()
        });
        assert!(
            answers.iter().all(|answer| *answer == answers[0]),
            "{answers:?}"
        );
        assert_eq!(titles(&file.open(), ANNA, Status::All), ["milk"]);
    }

    #[test]
    fn connections_that_open_a_new_file_at_once_all_succeed() {
        for _ in 0..400 {
            let file = File::new();
            thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| added(&mut file.open(), ANNA, "milk"));
                }
            });
            assert_eq!(titles(&file.open(), ANNA, Status::All).len(), 4);
        }
    }

    #[test]
    fn keys_are_forgotten_after_their_time_and_tasks_are_not() {
        let file = File::new();
        let first = file.open().change(ANNA, &add("milk"), Some("k")).unwrap();
        let kept = file.open_at(|| (Sources::real().now)() + (6 * 24).hours());
        drop(kept);
        assert_eq!(
            file.open().change(ANNA, &add("milk"), Some("k")).unwrap(),
            first
        );
        let mut swept = file.open_at(|| (Sources::real().now)() + (8 * 24).hours());
        assert_ne!(swept.change(ANNA, &add("milk"), Some("k")).unwrap(), first);
        assert_eq!(titles(&swept, ANNA, Status::All), ["milk", "milk"]);
    }

    #[test]
    fn a_user_may_have_only_so_many_tasks() {
        let file = File::new();
        let mut store = file.open();
        store
            .connection
            .execute(
                "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
                 INSERT INTO tasks (id, user_id, title, created_at) SELECT i, ?2, i, '' FROM n",
                params![MAX_TASKS_PER_USER, ANNA.to_string()],
            )
            .unwrap();
        let refused = store.change(ANNA, &add("one more"), None).unwrap();
        assert_eq!(refused.content["code"], "todo.too_many_tasks");
        added(&mut store, BEN, "others may");
    }
}
