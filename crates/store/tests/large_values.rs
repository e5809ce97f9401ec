//! What a large value costs in the file, wherever a task has it, and that it is read back as it was.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use convoke_model::{Clock, Message, RetentionPolicy, TaskState};
use convoke_store::{
    Batch, ClaimedTask, INLINE_BYTES, LeaseAction, NewEntry, NewMessage, SqliteStore, StateWriter,
    StatusUpdate, Store, Sweep, Viewer,
};
use convoke_testkit::{SimClock, peak_memory};
use rusqlite::Connection;
use serde_json::{Value, json};
use support::{claim, task};
use uuid::Uuid;

const MIB: usize = 1024 * 1024;
/// How many states have the value.
const STEPS: usize = 6;

const ID: Uuid = Uuid::from_u128(1);

fn open(folder: &Path, clock: &Arc<SimClock>) -> SqliteStore {
    SqliteStore::open(&folder.join("store.db"), clock.clone()).unwrap()
}

/// What all files of the store take, once nobody has it open.
fn bytes_in(folder: &Path) -> u64 {
    let files = std::fs::read_dir(folder).unwrap();
    files
        .map(|file| file.unwrap().metadata().unwrap().len())
        .sum()
}

/// A list of objects, of about so many bytes.
fn list(bytes: usize) -> Value {
    let item = |number| json!({ "id": number, "title": format!("\"item\" {number} of a list") });
    (0..bytes / 50).map(item).collect()
}

fn entry(event: &Value, state: String, at: jiff::Timestamp) -> NewEntry {
    NewEntry {
        at,
        kind: "returned".into(),
        event: event.to_string(),
        state,
    }
}

fn batch(entry: NewEntry, messages: Vec<NewMessage>, ends: bool) -> Batch {
    let standing = StatusUpdate {
        status: TaskState::Completed,
        stage: None,
        hold: LeaseAction::Keep,
        result: None,
        error: None,
        progress: true,
    };
    Batch {
        entries: vec![entry],
        messages,
        consumed: Vec::new(),
        standing: ends.then_some(standing),
        inline_bytes: INLINE_BYTES,
    }
}

/// A task whose tool gives a value: it stands in the event, twice, in the states after it, and in what a model reads.
/// Gives what the newest state says.
async fn use_value(
    store: &SqliteStore,
    clock: &SimClock,
    claimed: &ClaimedTask,
    value: &Value,
    text: &str,
) -> String {
    let mut states = StateWriter::after(&claimed.entry.state);
    let at = clock.now();
    let mut fence = claimed.fence();
    let mut newest = String::new();
    for step in 0..STEPS {
        newest = json!({ "step": step, "results": { "look": value }, "text": text }).to_string();
        let event = if step == 0 {
            json!({ "reply": { "content": value, "text": text } })
        } else {
            json!({ "step": step })
        };
        let message = Message::tool("call_1", text, at).unwrap();
        let messages = match step {
            0 => vec![NewMessage::internal(&message)],
            _ => Vec::new(),
        };
        let entry = entry(&event, states.write_text(newest.clone()), at);
        let batch = batch(entry, messages, step + 1 == STEPS);
        fence.seq = store.append(fence, batch.into()).await.unwrap();
    }
    newest
}

#[tokio::test]
async fn a_result_of_16_mb_with_its_text_costs_its_own_size_once_and_is_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(SimClock::new());
    let store = open(folder.path(), &clock);
    store.submit(task(1, &clock)).await.unwrap();
    let claimed = claim(&store, "w").await.remove(0);
    drop(store);
    let before = bytes_in(folder.path());
    let store = open(folder.path(), &clock);
    let value = list(16 * MIB);
    let text = value.to_string();
    let state = use_value(&store, &clock, &claimed, &value, &text).await;
    drop(store);
    let added = bytes_in(folder.path()) - before;
    let own = text.len() as u64;
    println!("a result of {own} bytes adds {added} bytes to the files");
    assert!(added * 10 < own * 13, "{added} bytes for {own}");

    let store = open(folder.path(), &clock);
    let (_, newest) = store.newest(&Viewer::System, ID).await.unwrap().unwrap();
    assert!(newest.state.as_str() == state);
    let loaded = store.load(&Viewer::System, ID, 1).await.unwrap().unwrap();
    assert!(loaded.messages[1].message.content == text);
    assert!(loaded.entries[1].event["reply"]["text"] == text);
    assert!(
        loaded
            .entries
            .iter()
            .skip(1)
            .all(|entry| entry.state.as_str().len() > text.len())
    );
    let events = store.events(&Viewer::System, ID, 2..=2).await.unwrap();
    assert!(events[0].event["reply"]["content"] == value);
    // What a viewer or an archive is told of are attachments, not parts of the journal.
    assert!(store.blobs(&Viewer::System, ID).await.unwrap().is_empty());
    let archive = store.take_out(&Viewer::System, ID).await.unwrap().unwrap();
    assert!(archive.blobs.is_empty());
    assert!(archive.entries == loaded.entries);

    clock.advance(Duration::from_hours(24 * 365));
    let sweep = Sweep {
        app: "todo".into(),
        policy: RetentionPolicy::default(),
        dry_run: false,
    };
    assert_eq!(store.sweep(sweep).await.unwrap().tasks, [ID]);
    let file = Connection::open(folder.path().join("store.db")).unwrap();
    for table in ["blobs", "blob_chunks", "task_blobs"] {
        let count = format!("SELECT count(*) FROM {table}");
        let left: i64 = file.query_row(&count, [], |row| row.get(0)).unwrap();
        assert_eq!(left, 0, "{table}");
    }
}

#[tokio::test]
async fn a_value_in_several_tasks_is_stored_once() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(SimClock::new());
    let store = open(folder.path(), &clock);
    for id in 1..=5 {
        store.submit(task(id, &clock)).await.unwrap();
    }
    let value = list(2 * MIB);
    for claimed in claim(&store, "w").await {
        use_value(&store, &clock, &claimed, &value, "a short text").await;
    }
    drop(store);
    let (added, own) = (bytes_in(folder.path()), value.to_string().len() as u64);
    println!("a value of {own} bytes in five tasks adds {added} bytes to the files");
    assert!(added * 10 < own * 13, "{added} bytes for {own}");
}

#[tokio::test]
async fn a_batch_sets_the_size_from_which_a_value_is_a_blob() {
    for (inline_bytes, blobs) in [(10_000, 1), (30_000, 0), (0, 1)] {
        let folder = tempfile::tempdir().unwrap();
        let clock = Arc::new(SimClock::new());
        let store = open(folder.path(), &clock);
        store.submit(task(1, &clock)).await.unwrap();
        let claimed = claim(&store, "w").await.remove(0);
        let state = json!({ "result": "x".repeat(20_000), "small": "y".repeat(900) });
        let step = entry(&json!({}), state.to_string(), clock.now());
        let step = Batch {
            inline_bytes,
            ..batch(step, Vec::new(), false)
        };
        store.append(claimed.fence(), step.into()).await.unwrap();
        let file = Connection::open(folder.path().join("store.db")).unwrap();
        let count = "SELECT count(*) FROM blobs";
        let found: i64 = file.query_row(count, [], |row| row.get(0)).unwrap();
        assert_eq!(found, blobs, "over {inline_bytes} bytes");
        let (_, newest) = store.newest(&Viewer::System, ID).await.unwrap().unwrap();
        assert_eq!(newest.state.value(), state);
    }
}

#[tokio::test]
async fn what_looks_like_a_reference_is_what_was_said() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(SimClock::new());
    let store = open(folder.path(), &clock);
    store.submit(task(1, &clock)).await.unwrap();
    let claimed = claim(&store, "w").await.remove(0);
    let value = list(MIB);
    use_value(&store, &clock, &claimed, &value, "the first").await;
    let file = Connection::open(folder.path().join("store.db")).unwrap();
    let stored: String = file
        .query_row("SELECT event FROM entries WHERE seq = 2", [], |row| {
            row.get(0)
        })
        .unwrap();
    let stored: Value = serde_json::from_str(&stored).unwrap();
    let reference = &stored["reply"]["content"];
    assert_eq!(reference["bytes"], value.to_string().len());
    assert_eq!(reference["media_type"], "application/json");
    assert!(
        reference["preview"]
            .as_str()
            .unwrap()
            .starts_with("[{\"id\":0")
    );

    let mut forging = task(2, &clock);
    forging.messages = vec![NewMessage::in_conversation(
        &Message::user(reference.to_string(), clock.now()).unwrap(),
    )];
    store.submit(forging).await.unwrap();
    let claimed = claim(&store, "w").await.remove(0);
    use_value(&store, &clock, &claimed, reference, &reference.to_string()).await;
    let other = Uuid::from_u128(2);
    let loaded = store
        .load(&Viewer::System, other, 1)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(loaded.messages[0].message.content, reference.to_string());
    assert_eq!(loaded.entries[1].event["reply"]["content"], *reference);
}

#[tokio::test]
async fn a_large_value_that_is_gone_or_changed_spoils_its_task_only() {
    for damage in [
        "DELETE FROM blob_chunks",
        "UPDATE blob_chunks SET content = zeroblob(length(content))",
        "DELETE FROM blobs",
        "UPDATE entries SET blobs = '{\"state\":[[1,2]]}' WHERE blobs IS NOT NULL",
        "UPDATE entries SET state = '{}' WHERE blobs IS NOT NULL",
    ] {
        let folder = tempfile::tempdir().unwrap();
        let clock = Arc::new(SimClock::new());
        let store = open(folder.path(), &clock);
        for id in 1..=2 {
            store.submit(task(id, &clock)).await.unwrap();
        }
        let claimed = claim(&store, "w").await;
        let at = clock.now();
        let state = json!({ "results": list(MIB) }).to_string();
        let step = batch(entry(&json!({}), state, at), Vec::new(), false);
        store.append(claimed[0].fence(), step.into()).await.unwrap();
        let file = Connection::open(folder.path().join("store.db")).unwrap();
        file.execute_batch(damage).unwrap();
        clock.advance(Duration::from_hours(2));
        let again = claim(&store, "w2").await;
        let ids: Vec<_> = again.iter().map(|claimed| claimed.record.id).collect();
        assert_eq!(ids, [Uuid::from_u128(2)], "{damage}");
        let record = store.task(&Viewer::System, ID).await.unwrap().unwrap();
        assert_eq!(record.status, TaskState::Failed, "{damage}");
    }
}

#[test]
fn to_write_and_read_a_text_of_16_mb_takes_a_bounded_number_of_copies() {
    let name = "to_write_and_read_a_text_of_16_mb_takes_a_bounded_number_of_copies";
    let peak = peak_memory(name, || {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        runtime.unwrap().block_on(async {
            let folder = tempfile::tempdir().unwrap();
            let clock = Arc::new(SimClock::new());
            let store = open(folder.path(), &clock);
            store.submit(task(1, &clock)).await.unwrap();
            let claimed = claim(&store, "w").await.remove(0);
            let text = "0123456789abcdef".repeat(MIB);
            let value = Value::String(text.clone());
            use_value(&store, &clock, &claimed, &value, &text).await;
            drop((value, text));
            store.newest(&Viewer::System, ID).await.unwrap();
        });
    });
    if let Some(peak) = peak {
        println!("peak memory: {} MiB", peak / 1024 / 1024);
        assert!(peak < 400 * MIB as u64, "{peak} bytes");
    }
}
