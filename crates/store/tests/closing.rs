//! What becomes of what was handed in when the store is closed.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[allow(dead_code, reason = "each test file uses its own part of it")]
mod support;

use std::sync::Arc;

use convoke_store::{SqliteStore, Store};
use convoke_testkit::SimClock;
use support::task;

#[tokio::test]
async fn what_was_handed_in_is_written_before_the_store_is_closed() {
    const TASKS: u128 = 3_000;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let clock = Arc::new(SimClock::new());
    let store = SqliteStore::open(&path, clock.clone()).unwrap();
    let submitted: Vec<_> = (1..=TASKS)
        .map(|id| store.submit(task(id, &clock)))
        .collect();
    drop(store);
    let file = rusqlite::Connection::open(&path).unwrap();
    let kept: u32 = file
        .query_row("SELECT count(*) FROM tasks", [], |row| row.get(0))
        .unwrap();
    assert_eq!(u128::from(kept), TASKS);
    for submitted in submitted {
        submitted.await.unwrap();
    }
}
