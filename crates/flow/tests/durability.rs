//! A worker that is killed at any place of a run loses nothing that was paid for, and repeats no
//! effect without leave.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod office;

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use convoke_engine::QuestionKind;
use convoke_model::{Clock, TaskState};
use convoke_store::{Entry, MemoryStore, SqliteStore, Store, Viewer};
use convoke_testkit::{RecordedRequest, Reply, Script, SimClock};
use office::{Crash, Office, Setting, Side, assert_valid};
use serde_json::{Value, json};
use uuid::Uuid;

/// Two thoughts that call tools, and one that answers.
fn script() -> Script {
    Script::by(|asked: &RecordedRequest| {
        let messages = asked.body["messages"].as_array().unwrap();
        let results = messages.iter().filter(|message| message["role"] == "tool");
        match results.count() {
            0 => Reply::tool_calls([("pay", json!({ "n": 1 })), ("get_time", json!({ "n": 2 }))]),
            2 => Reply::tool_calls([("pay", json!({ "n": 3 }))]),
            _ => Reply::text("All paid."),
        }
    })
}

fn setting(clock: &Arc<SimClock>, store: &Arc<dyn Store>, keyed: bool) -> Setting {
    Setting {
        server: json!({ "honours_idempotency_key": keyed }),
        clock: clock.clone(),
        store: Some(Arc::clone(store)),
        ..Setting::default()
    }
}

/// What a killed run left behind.
struct Killed {
    office: Office,
    task: Uuid,
    journal: Vec<Entry>,
}

/// A run whose worker dies there, or none if it never comes that far.
async fn killed(setting: Setting, clock: &SimClock, fatal: usize, side: Side) -> Option<Killed> {
    let lease = setting.worker.lease;
    let office = Office::without_worker(setting, script()).await;
    let task = office.submit("Pay twice.").await;
    let crash = Arc::new(Crash::at(Arc::clone(&office.store), fatal, side));
    office.start_worker(crash.clone());
    tokio::select! {
        biased;
        () = crash.reached() => {}
        ended = office.engine.wait(&Viewer::System, task) => {
            assert_eq!(ended.unwrap().status, TaskState::Completed);
            return None;
        }
    }
    office.kill_worker().await;
    // Only once the dead worker's lease has run out may another take the task.
    clock.advance(lease + Duration::from_secs(1));
    // The acceptance, what came before the fatal entry, and that entry if it was written.
    let entries = 1 + fatal + usize::from(side == Side::After);
    office.until_journaled(task, entries).await;
    let journal = office.entries(task).await;
    assert_eq!(journal.len(), entries);
    Some(Killed {
        office,
        task,
        journal,
    })
}

/// How often each thing was asked for.
fn counted<T: ToString>(things: impl IntoIterator<Item = T>) -> HashMap<String, usize> {
    let mut counts = HashMap::new();
    for thing in things {
        *counts.entry(thing.to_string()).or_insert(0) += 1;
    }
    counts
}

fn thoughts(journal: &[Entry]) -> usize {
    let paid = |entry: &&Entry| !entry.event["outcome"]["done"]["thought"]["usage"].is_null();
    journal.iter().filter(paid).count()
}

fn open_calls(journal: &[Entry], kind: &str) -> usize {
    let state = journal.last().unwrap().state.value();
    let open = state["open"].as_array().into_iter().flatten();
    open.filter(|call| call["request"]["kind"] == kind).count()
}

async fn pays_for_nothing_twice(
    open: impl Fn(&Path, Arc<dyn Clock>) -> Arc<dyn Store>,
    again: impl Fn(&Path, Arc<dyn Clock>, &Arc<dyn Store>) -> Arc<dyn Store>,
) {
    let mut deaths = 0;
    for side in [Side::Before, Side::After] {
        for fatal in 0.. {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("tasks.db");
            let clock = Arc::new(SimClock::new());
            let store = open(&path, clock.clone());
            let setting = setting(&clock, &store, true);
            let Some(killed) = killed(setting, &clock, fatal, side).await else {
                break;
            };
            deaths += 1;
            let Killed {
                office,
                task,
                journal,
            } = killed;
            let asked_before = office.model.requests().len();
            office.start_worker(again(&path, clock, &store));
            let ended = office.engine.wait(&Viewer::System, task).await.unwrap();

            let place = format!("{side:?} {fatal}");
            assert_eq!(ended.status, TaskState::Completed, "{place}");
            assert_eq!(ended.answer.unwrap().text, "All paid.", "{place}");
            let requests = office.model.requests();
            // Of three thoughts, those in the journal are not asked for again.
            assert_eq!(
                requests.len() - asked_before,
                3 - thoughts(&journal),
                "{place}"
            );
            assert!(requests.len() <= 4, "{place}: {}", requests.len());
            for request in &requests {
                assert_valid(request.body["messages"].as_array().unwrap());
            }
            let keys = counted(office.tool_server.keys());
            assert_eq!(keys.len(), 3, "{place}: {keys:?}");
            assert!(keys.values().all(|count| *count <= 2), "{place}: {keys:?}");
            let repeated = keys.values().filter(|count| **count == 2).count();
            let lost = open_calls(&journal, "tool") + open_calls(&journal, "model");
            assert!(repeated <= lost, "{place}: {keys:?}");
        }
    }
    // Six entries: three thoughts and three results; and each side of each.
    assert_eq!(deaths, 12);
}

#[tokio::test]
async fn a_worker_killed_at_any_entry_pays_for_nothing_twice() {
    pays_for_nothing_twice(
        |_, clock| Arc::new(MemoryStore::new(clock)),
        |_, _, store| Arc::clone(store),
    )
    .await;
}

#[tokio::test]
async fn a_process_killed_at_any_entry_pays_for_nothing_twice_over_sqlite() {
    let open = |path: &Path, clock| -> Arc<dyn Store> {
        Arc::new(SqliteStore::open(path, clock).unwrap())
    };
    pays_for_nothing_twice(open, |path, clock, _| open(path, clock)).await;
}

#[tokio::test]
async fn a_possible_effect_is_not_repeated_without_approval() {
    let mut asked = 0;
    for side in [Side::Before, Side::After] {
        for fatal in 0..6 {
            let clock = Arc::new(SimClock::new());
            let store: Arc<dyn Store> = Arc::new(MemoryStore::new(clock.clone()));
            let setting = setting(&clock, &store, false);
            let killed = killed(setting, &clock, fatal, side).await.unwrap();
            let Killed { office, task, .. } = killed;
            office.start_worker(store);
            let waiting = office.engine.wait(&Viewer::System, task).await.unwrap();
            let payments = office.calls().into_iter().filter(|(tool, _)| tool == "pay");
            let payments = counted(payments.map(|(_, arguments)| arguments));
            assert!(payments.values().all(|count| *count == 1), "{payments:?}");
            let ended = office
                .see_through(task, |question| {
                    assert_eq!(question.about, QuestionKind::OutcomeUnknown);
                    json!({ "action": "modify", "value": "it was paid" })
                })
                .await;
            asked += waiting.questions.len();
            assert_eq!(ended.answer.unwrap().text, "All paid.", "{side:?} {fatal}");
            let payments = office.calls().into_iter().filter(|(tool, _)| tool == "pay");
            let payments = counted(payments.map(|(_, arguments): (_, Value)| arguments));
            assert!(payments.values().all(|count| *count == 1), "{payments:?}");
        }
    }
    assert!(asked > 0, "no kill fell into a payment");
}
