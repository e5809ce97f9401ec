//! Outages of the store, at every call in turn: no acknowledged task is lost, no effect is repeated, no worker ends, and
//! nobody is asked anything.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

#[allow(dead_code, reason = "each test file uses its own part of it")]
mod world;

use std::sync::Arc;
use std::time::Duration;

use convoke_engine::{Effect, Engine, EngineError, Options, Worker};
use convoke_model::TaskState;
use convoke_store::{Definition, MemoryStore, Store, Viewer};
use convoke_testkit::{CountedIds, Fault, FaultyStore, SimClock};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;
use world::{Behaviour, Hands, Words, World};

/// An engine and a worker over a store with faults.
struct Site {
    store: Arc<FaultyStore<MemoryStore>>,
    engine: Engine<Words>,
    hands: Arc<Hands>,
    stop: CancellationToken,
    running: JoinSet<Result<(), EngineError>>,
}

impl Site {
    fn new(fault: Fault, first: usize, end: usize, options: Options) -> Self {
        let clock = Arc::new(SimClock::running());
        let store = MemoryStore::new(clock.clone());
        let store = Arc::new(FaultyStore::new(store, fault, first, end));
        let engine = Engine::new(
            Arc::new(Words),
            store.clone(),
            clock.clone(),
            Arc::new(CountedIds::default()),
            "words",
            Arc::new(Definition::default()),
            Duration::from_mins(1),
        );
        let hands = Arc::new(Hands::default());
        for word in ["pay", "tell", "send"] {
            hands.set(word, Behaviour::of(Effect::Once));
        }
        let stop = CancellationToken::new();
        let worker = Worker::new(engine.clone(), Arc::clone(&hands), options);
        let mut running = JoinSet::new();
        running.spawn(worker.run(stop.clone()));
        Self {
            store,
            engine,
            hands,
            stop,
            running,
        }
    }

    /// Submits a task, again while it is refused, as a client with a key would.
    async fn submit(&self, text: &str) -> Uuid {
        for _ in 0..100 {
            let mut request = World::request_of(text);
            request.key = Some("the same".into());
            match self.engine.submit(request).await {
                Ok(submitted) => return submitted.id(),
                Err(EngineError::Store(error)) if error.is_outage() => {}
                Err(error) => panic!("{error}"),
            }
        }
        panic!("the store is unavailable for ever")
    }

    async fn end(mut self) {
        assert!(
            self.running.try_join_next().is_none(),
            "the worker has ended"
        );
        self.stop.cancel();
        self.running.join_next().await.unwrap().unwrap().unwrap();
    }
}

fn options() -> Options {
    Options {
        poll: Duration::from_millis(5),
        ..Options::for_worker("w")
    }
}

#[tokio::test(start_paused = true)]
async fn an_outage_at_any_call_loses_and_repeats_nothing_and_asks_nobody() {
    let whole = Site::new(Fault::Unavailable, usize::MAX, usize::MAX, options());
    let task = whole.submit("pay look tell&send").await;
    whole.engine.wait(&Viewer::System, task).await.unwrap();
    let calls = whole.store.calls();
    whole.end().await;
    assert!(calls > 6, "{calls}");
    for fault in Fault::ALL {
        for first in 0..calls + 2 {
            for length in [1, 3] {
                let site = Site::new(fault, first, first + length, options());
                let task = site.submit("pay look tell&send").await;
                let ended = site.engine.wait(&Viewer::System, task).await.unwrap();
                let case = format!("{fault:?} at {first} for {length}");
                assert_eq!(ended.status, TaskState::Completed, "{case}");
                let mut performed = site.hands.performed();
                performed.retain(|word| word != "look");
                performed.sort();
                assert_eq!(performed, ["pay", "send", "tell"], "{case}");
                let viewer = &Viewer::System;
                let journal = site
                    .store
                    .inner()
                    .load(viewer, task, 1)
                    .await
                    .unwrap()
                    .unwrap();
                let kinds: Vec<_> = journal
                    .entries
                    .iter()
                    .map(|entry| entry.kind.as_str())
                    .collect();
                assert!(!kinds.contains(&"outcome_unknown"), "{case}: {kinds:?}");
                let seqs: Vec<_> = journal.entries.iter().map(|entry| entry.seq).collect();
                assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>(), "{case}");
                site.end().await;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_gone_for_longer_than_a_lease_costs_no_call_and_asks_nobody() {
    let site = Site::new(Fault::Unavailable, usize::MAX, usize::MAX, options());
    site.hands.hang_on("pay");
    let task = site.submit("pay tell").await;
    site.hands.until_performed("pay").await;
    site.store.break_down(true);
    // Longer than the lease of ten seconds: no renewal gets through.
    tokio::time::sleep(Duration::from_secs(30)).await;
    site.hands.release();
    tokio::time::sleep(Duration::from_secs(1)).await;
    site.store.break_down(false);
    let ended = site.engine.wait(&Viewer::System, task).await.unwrap();
    assert_eq!(
        (ended.status, ended.questions.len()),
        (TaskState::Completed, 0)
    );
    assert_eq!(site.hands.performed(), ["pay", "tell"]);
    site.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_call_that_changes_the_world_does_not_begin_while_the_lease_is_in_doubt() {
    let site = Site::new(Fault::Unavailable, usize::MAX, usize::MAX, options());
    site.hands.hang_on("look");
    let task = site.submit("look pay").await;
    site.hands.until_performed("look").await;
    site.store.refuse_renewals(true);
    tokio::time::sleep(Duration::from_secs(30)).await;
    site.hands.release();
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(
        site.hands.performed(),
        ["look"],
        "another worker may hold the task by now"
    );
    site.store.refuse_renewals(false);
    let ended = site.engine.wait(&Viewer::System, task).await.unwrap();
    assert_eq!(ended.status, TaskState::Completed);
    assert_eq!(site.hands.performed(), ["look", "pay"]);
    site.end().await;
}
