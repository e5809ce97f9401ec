//! A file that was damaged: what cannot be read is told of and set aside, and all else goes on.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod support;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use convoke_model::TaskState;
use convoke_store::{Filter, NewTask, Page, SqliteStore, Store, Viewer};
use convoke_testkit::SimClock;
use support::{claim, task};
use uuid::Uuid;

const CONVERSATION: Uuid = Uuid::from_u128(0xC);

struct Damaged {
    folder: tempfile::TempDir,
    clock: Arc<SimClock>,
}

impl Damaged {
    /// A file with so many tasks, after a statement was carried out on it.
    async fn by(tasks: u128, statement: &str) -> Self {
        let damaged = Self {
            folder: tempfile::tempdir().unwrap(),
            clock: Arc::new(SimClock::new()),
        };
        let store = damaged.open();
        for id in 1..=tasks {
            store.submit(damaged.task(id)).await.unwrap();
        }
        drop(store);
        let file = rusqlite::Connection::open(damaged.path()).unwrap();
        assert!(file.execute(statement, []).unwrap() > 0, "{statement}");
        damaged
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("store.db")
    }

    fn open(&self) -> SqliteStore {
        SqliteStore::open(&self.path(), self.clock.clone()).unwrap()
    }

    /// The first task is part of a conversation.
    fn task(&self, id: u128) -> NewTask {
        NewTask {
            conversation: (id == 1).then_some(CONVERSATION),
            refused_if_busy: false,
            ..task(id, &self.clock)
        }
    }
}

#[tokio::test]
async fn one_row_that_cannot_be_read_stops_neither_claims_nor_lists() {
    let broken_in_the_row = [
        "id = 'no id'",
        "owner = 'nobody'",
        "owner = x'ff'",
        "channel = 'smoke signals'",
        "status = 'asleep'",
        "stage = 'nowhere'",
        "epoch = -1",
        "claims = 'many'",
        "created_at = 9223372036854775807",
        "deadline = 'soon'",
        "tags = '{'",
    ];
    let in_the_row =
        broken_in_the_row.map(|set| format!("UPDATE tasks SET {set} WHERE ordinal = 2"));
    let in_its_entry = [
        "event = '{'",
        "messages = '['",
        "at = 'then'",
        "state = x'ff'",
    ]
    .map(|set| format!("UPDATE entries SET {set} WHERE task = 2"));
    let other = [
        "DELETE FROM entries WHERE task = 2".to_owned(),
        "INSERT INTO signals (task, key, kind, payload, at) VALUES (2, 'k', 'cancel', '{', 0)"
            .into(),
    ];
    for statement in in_the_row.iter().chain(&in_its_entry).chain(&other) {
        let damaged = Damaged::by(3, statement).await;
        let store = damaged.open();
        let claimed = claim(&store, "w").await;
        let ids: Vec<_> = claimed.iter().map(|task| task.record.id).collect();
        assert_eq!(ids, [1, 3].map(Uuid::from_u128), "after {statement}");
        let listed = store
            .query(&Viewer::System, Filter::default(), Page::default())
            .await;
        let listed = listed.unwrap().tasks;
        let healthy = listed
            .iter()
            .filter(|task| task.status == TaskState::Working);
        assert_eq!(healthy.count(), 2, "after {statement}");
        store.submit(damaged.task(4)).await.unwrap();
        assert_eq!(claim(&store, "w").await.len(), 1);
        drop(store);
        let file = rusqlite::Connection::open(damaged.path()).unwrap();
        let aside: (String, String, bool) = file
            .query_row(
                "SELECT status, error, completed_at IS NOT NULL FROM tasks WHERE ordinal = 2",
                [],
                |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
            )
            .unwrap();
        assert_eq!((aside.0.as_str(), aside.2), ("failed", true), "{statement}");
        assert!(aside.1.starts_with("set aside"), "{}", aside.1);
    }
}

#[tokio::test]
async fn a_page_goes_on_after_a_row_that_cannot_be_read() {
    let statement = "UPDATE tasks SET owner = 'nobody' WHERE ordinal = 2";
    let damaged = Damaged::by(4, statement).await;
    let store = damaged.open();
    let mut page = Page {
        after: None,
        limit: 2,
    };
    let mut found = Vec::new();
    loop {
        let next = store
            .query(&Viewer::System, Filter::default(), page)
            .await
            .unwrap();
        found.extend(next.tasks.iter().map(|task| task.ordinal));
        page.after = next.next;
        if page.after.is_none() {
            break;
        }
    }
    assert_eq!(found, [4, 3, 1]);
}

#[tokio::test]
async fn a_conversation_with_a_wrong_count_of_messages_is_read_all_the_same() {
    let statement = "UPDATE entries SET messages = json_insert(messages, '$[#]', \
                     json(json_extract(messages, '$[0]'))) WHERE task = 1";
    let damaged = Damaged::by(1, statement).await;
    let store = damaged.open();
    let conversation = store
        .conversation(&Viewer::System, CONVERSATION, None, 10)
        .await
        .unwrap();
    let conversation = conversation.unwrap();
    assert_eq!(conversation.messages.len(), 2);
    assert_eq!(conversation.older, 0);
}

/// A file as a process leaves it that is killed.
async fn killed(tasks: u128) -> (tempfile::TempDir, PathBuf) {
    let living = Damaged {
        folder: tempfile::tempdir().unwrap(),
        clock: Arc::new(SimClock::new()),
    };
    let store = living.open();
    for id in 1..=tasks {
        store.submit(living.task(id)).await.unwrap();
    }
    let copy = tempfile::tempdir().unwrap();
    for name in ["store.db", "store.db-wal", "store.db-shm"] {
        std::fs::copy(living.folder.path().join(name), copy.path().join(name)).unwrap();
    }
    let path = copy.path().join("store.db");
    (copy, path)
}

fn reopened(path: &Path) -> SqliteStore {
    SqliteStore::open(path, Arc::new(SimClock::new())).unwrap()
}

async fn tasks_in(store: &SqliteStore) -> usize {
    let page = store
        .query(&Viewer::System, Filter::default(), Page::default())
        .await;
    page.unwrap().tasks.len()
}

#[tokio::test]
async fn a_truncated_write_ahead_log_is_reported() {
    let (_folder, path) = killed(5).await;
    let store = reopened(&path);
    assert_eq!(tasks_in(&store).await, 5, "a kill alone loses nothing");
    assert_eq!(store.lost_changes(), None);

    for keep in [0, 31, 40_000] {
        let (folder, path) = killed(5).await;
        let log = folder.path().join("store.db-wal");
        let file = std::fs::File::options().write(true).open(log).unwrap();
        assert!(file.metadata().unwrap().len() > keep);
        file.set_len(keep).unwrap();
        let store = reopened(&path);
        let lost = store.lost_changes().unwrap();
        assert!(lost.pages > 0, "{keep} bytes left: {lost:?}");
        assert!(tasks_in(&store).await < 5);
        drop(store);
        assert_eq!(reopened(&path).lost_changes(), None, "it is told once");
    }

    let (folder, path) = killed(5).await;
    std::fs::remove_file(folder.path().join("store.db-wal")).unwrap();
    assert!(reopened(&path).lost_changes().is_some(), "or removed");
}

#[tokio::test]
async fn a_store_that_was_closed_or_is_open_elsewhere_has_lost_nothing() {
    let living = Damaged {
        folder: tempfile::tempdir().unwrap(),
        clock: Arc::new(SimClock::new()),
    };
    let first = living.open();
    first.submit(living.task(1)).await.unwrap();
    let second = living.open();
    assert_eq!(second.lost_changes(), None);
    drop((first, second));
    assert_eq!(living.open().lost_changes(), None);
}

#[tokio::test]
async fn a_log_without_its_last_bytes_has_lost_its_last_page() {
    let (folder, path) = killed(5).await;
    let log = folder.path().join("store.db-wal");
    let file = std::fs::File::options().write(true).open(log).unwrap();
    let length = file.metadata().unwrap().len();
    file.set_len(length - 1).unwrap();
    assert_eq!(reopened(&path).lost_changes().unwrap().pages, 1);
}

#[tokio::test]
async fn an_incomplete_index_reports_no_loss() {
    // Of both copies of the header, or of one: another version, and one that is not ready.
    let not_whole: [(&[usize], &str); 3] = [
        (&[0], "the copies differ"),
        (&[0, 48], "it is of another version"),
        (&[12, 60], "it is not ready"),
    ];
    for (places, why) in not_whole {
        let (folder, path) = killed(5).await;
        let log = folder.path().join("store.db-wal");
        let file = std::fs::File::options().write(true).open(log).unwrap();
        file.set_len(0).unwrap();
        let index = folder.path().join("store.db-shm");
        let mut bytes = std::fs::read(&index).unwrap();
        for place in places {
            bytes[*place] = u8::from(*place % 48 != 12);
        }
        std::fs::write(&index, bytes).unwrap();
        assert_eq!(reopened(&path).lost_changes(), None, "{why}");
    }
}
