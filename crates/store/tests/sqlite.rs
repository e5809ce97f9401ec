//! What only the store in a file can do or get wrong.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod support;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use convoke_model::{Clock, Message};
use convoke_store::{
    Batch, Filter, NewEntry, NewMessage, Page, SqliteStore, Store, StoreError, Viewer,
};
use convoke_testkit::SimClock;
use support::{claim, task};
use uuid::Uuid;

fn open(path: &Path, clock: &Arc<SimClock>) -> SqliteStore {
    SqliteStore::open(path, clock.clone()).unwrap()
}

#[tokio::test]
async fn a_dead_workers_tasks_are_ready_at_once_and_a_living_ones_are_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let clock = Arc::new(SimClock::new());
    let dying = open(&path, &clock);
    dying.submit(task(1, &clock)).await.unwrap();
    assert_eq!(claim(&dying, "dying").await.len(), 1);
    let living = open(&path, &clock);
    assert!(
        claim(&living, "living").await.is_empty(),
        "its lease holds while it lives"
    );
    // The operating system gives up the mark with the process, or here with the last handle.
    drop(dying);
    clock.advance(Duration::from_millis(250));
    let claimed = claim(&living, "living").await;
    assert_eq!(claimed.len(), 1);
    assert_eq!(claimed[0].record.epoch, 2);
}

#[tokio::test]
async fn what_was_written_is_there_after_opening_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let clock = Arc::new(SimClock::new());
    let store = open(&path, &clock);
    store.submit(task(1, &clock)).await.unwrap();
    let before = store
        .load(&Viewer::System, Uuid::from_u128(1), 1)
        .await
        .unwrap();
    drop(store);
    let store = open(&path, &clock);
    assert_eq!(
        store
            .load(&Viewer::System, Uuid::from_u128(1), 1)
            .await
            .unwrap(),
        before
    );
    assert!(before.is_some());
}

#[test]
fn many_processes_may_create_the_file_at_once() {
    for _ in 0..20 {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.db");
        let clock = Arc::new(SimClock::new());
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| open(&path, &clock));
            }
        });
    }
}

#[test]
fn a_file_of_a_newer_version_is_refused_and_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let clock = Arc::new(SimClock::new());
    drop(open(&path, &clock));
    let file = rusqlite::Connection::open(&path).unwrap();
    file.pragma_update(None, "user_version", 99).unwrap();
    let refused = SqliteStore::open(&path, clock.clone()).unwrap_err();
    assert_eq!(
        refused,
        StoreError::TooNew {
            found: 99,
            known: 7
        }
    );
    let version: i64 = file
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .unwrap();
    assert_eq!(version, 99);
}

#[test]
fn what_is_no_database_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    std::fs::write(&path, "not a database at all, only a text of some length").unwrap();
    let refused = SqliteStore::open(&path, Arc::new(SimClock::new())).unwrap_err();
    assert_eq!(refused.code(), "store.broken");
}

#[tokio::test]
async fn a_step_of_a_long_task_costs_no_more_than_one_of_a_short_task() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let clock = Arc::new(SimClock::new());
    let mut sizes = Vec::new();
    let store = open(&path, &clock);
    store.submit(task(1, &clock)).await.unwrap();
    let mut fence = claim(&store, "w").await[0].fence();
    drop(store);
    for _ in 0..3 {
        let store = open(&path, &clock);
        for _ in 0..100 {
            let message = Message::assistant("m".repeat(1_000), clock.now()).unwrap();
            let at = clock.now();
            let batch = Batch {
                entries: vec![NewEntry {
                    at,
                    kind: "returned".into(),
                    event: "{}".into(),
                    state: format!("\"{}\"", "s".repeat(500)),
                }],
                messages: vec![NewMessage::internal(&message)],
                consumed: Vec::new(),
                standing: None,
                inline_bytes: convoke_store::INLINE_BYTES,
            };
            fence.seq = store.append(fence, batch.into()).await.unwrap();
        }
        drop(store);
        sizes.push(std::fs::metadata(&path).unwrap().len());
    }
    let (second, third) = (sizes[1] - sizes[0], sizes[2] - sizes[1]);
    assert!(
        third * 4 <= second * 5,
        "100 steps took {second} bytes, then {third}"
    );
}

#[tokio::test]
async fn a_file_of_the_first_version_keeps_everything() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let old = rusqlite::Connection::open(&path).unwrap();
    old.execute_batch(include_str!("fixtures/version_1.sql"))
        .unwrap();
    drop(old);
    let store = open(&path, &Arc::new(SimClock::new()));
    let tasks = store
        .query(&Viewer::System, Filter::default(), Page::default())
        .await;
    let record = tasks.unwrap().tasks.remove(0);
    assert_eq!(record.description, "add it");
    let loaded = store
        .load(&Viewer::System, record.id, 1)
        .await
        .unwrap()
        .unwrap();
    assert_eq!((loaded.record.seq, loaded.entries.len()), (8, 8));
    let told: Vec<_> = loaded.messages.iter().map(|stored| stored.seq).collect();
    assert_eq!(told, (1..=8).collect::<Vec<_>>());
    assert_eq!(loaded.messages[1].message.tool_calls[0].tool, "calculate");
    let conversation = record.conversation.unwrap();
    let conversation = store
        .conversation(&Viewer::System, conversation, None, 9)
        .await
        .unwrap();
    let spoken = conversation.unwrap().messages;
    assert_eq!(spoken.len(), 2, "the request and the answer");
    assert_eq!(spoken[0].content, "add it");
}

#[tokio::test]
async fn definitions_of_an_older_file_stay_trusted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let old = rusqlite::Connection::open(&path).unwrap();
    old.execute_batch(include_str!("fixtures/version_3.sql"))
        .unwrap();
    drop(old);
    let store = open(&path, &Arc::new(SimClock::new()));
    let tasks = store
        .query(&Viewer::System, Filter::default(), Page::default())
        .await;
    let record = tasks.unwrap().tasks.remove(0);
    let kept = store.definition(&record.definition).await.unwrap().unwrap();
    assert!(kept.trusted);
    assert_eq!(kept.files["convoke.yaml"], "name: desk\n");
}

#[tokio::test]
async fn a_file_can_be_read_without_write_permission() {
    let folder = tempfile::tempdir().unwrap();
    // What an address has a meaning of its own for is part of a name here.
    let path = folder.path().join("a %41?mode=rw#\u{e4}.db");
    let clock = Arc::new(SimClock::new());
    let missing = SqliteStore::open_read_only(&path, clock.clone());
    assert!(
        matches!(missing, Err(StoreError::Unavailable(_))),
        "{missing:?}"
    );
    assert!(!path.exists(), "reading makes nothing");
    let store = open(&path, &clock);
    store.submit(task(1, &clock)).await.unwrap();
    let written = store
        .load(&Viewer::System, Uuid::from_u128(1), 1)
        .await
        .unwrap();
    let reading = SqliteStore::open_read_only(&path, clock.clone()).unwrap();
    assert_eq!(
        reading
            .load(&Viewer::System, Uuid::from_u128(1), 1)
            .await
            .unwrap(),
        written
    );
    store.submit(task(2, &clock)).await.unwrap();
    let second = reading
        .load(&Viewer::System, Uuid::from_u128(2), 1)
        .await
        .unwrap();
    assert!(second.is_some(), "what others write meanwhile is read");
    let refused = reading.submit(task(3, &clock)).await;
    assert_eq!(refused, Err(StoreError::ReadOnly));
    drop((store, reading));
    let reading = SqliteStore::open_read_only(&path, clock.clone()).unwrap();
    let page = reading.query(&Viewer::System, Filter::default(), Page::default());
    assert_eq!(page.await.unwrap().tasks.len(), 2);
}

#[test]
fn a_file_of_another_version_is_not_read_as_if_it_were_this_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let clock = Arc::new(SimClock::new());
    drop(open(&path, &clock));
    for (version, too_new) in [(99, true), (1, false)] {
        let file = rusqlite::Connection::open(&path).unwrap();
        file.pragma_update(None, "user_version", version).unwrap();
        drop(file);
        let refused = SqliteStore::open_read_only(&path, clock.clone()).unwrap_err();
        let newer = matches!(refused, StoreError::TooNew { found: 99, .. });
        assert_eq!(newer, too_new, "{refused}");
    }
}
