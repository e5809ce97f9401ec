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
use convoke_store::{
    Claim, Claimed, Definition, MemoryStore, NewTask, Store, StoreError, StoreFuture, Submission,
    TaskRecord, Viewer,
};
use convoke_testkit::{CountedIds, Fault, FaultyStore, RecordedMetrics, SimClock};
use futures::{FutureExt, StreamExt};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;
use world::{Behaviour, RunningWorker, WordEditions, WordExecutor, Words, World};

/// An engine and a worker over a store with faults.
struct Site {
    store: Arc<FaultyStore<MemoryStore>>,
    engine: Engine<Words>,
    hands: Arc<WordExecutor>,
    stop: CancellationToken,
    running: JoinSet<Result<(), EngineError>>,
}

impl Site {
    fn new(fault: Fault, first: usize, end: usize, options: Options) -> Self {
        let clock = Arc::new(SimClock::running());
        let store = MemoryStore::new(clock.clone());
        let store = Arc::new(FaultyStore::new(store, fault, first, end));
        let engine = engine_over(store.clone(), clock);
        let hands = Arc::new(WordExecutor::default());
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

fn engine_over(store: Arc<dyn Store>, clock: Arc<SimClock>) -> Engine<Words> {
    Engine::new(
        Arc::new(Words),
        store,
        clock,
        Arc::new(CountedIds::default()),
        "words",
        Arc::new(Definition::default()),
        Duration::from_mins(1),
    )
}

fn options() -> Options {
    Options {
        poll: Duration::from_millis(5),
        ..Options::for_worker("w")
    }
}

#[tokio::test(start_paused = true)]
async fn an_outage_at_any_call_loses_and_repeats_nothing_and_asks_nobody() {
    let recorded = RecordedMetrics::install().unwrap();
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
                let dropped = recorded.labels_of("convoke.tasks.dropped");
                assert!(dropped.is_empty(), "{case}: {dropped:?}");
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

/// Claims what another worker could.
async fn claimed_by_another(site: &Site) -> usize {
    let claim = Claim {
        worker: "other".into(),
        apps: vec!["words".into()],
        except: Vec::new(),
        lease: FOR_EVER,
        limit: 8,
    };
    site.store.inner().claim(claim).await.unwrap().tasks.len()
}

#[tokio::test(start_paused = true)]
async fn a_task_that_another_worker_took_during_an_outage_is_let_go() {
    let recorded = RecordedMetrics::install().unwrap();
    let site = Site::new(Fault::Unavailable, usize::MAX, usize::MAX, options());
    site.hands.hang_on("look");
    let task = site.submit("look tell").await;
    site.hands.until_performed("look").await;
    let viewer = &Viewer::System;
    let seq = async || {
        let record = site.store.inner().task(viewer, task).await.unwrap();
        record.unwrap().seq
    };
    let before = seq().await;
    // No renewal tells the worker that it has lost the task: it finds out when it reads back what it wrote.
    site.store.refuse_renewals(true);
    site.store.break_down(true);
    site.hands.release();
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(claimed_by_another(&site).await, 1);
    site.store.break_down(false);
    tokio::time::sleep(Duration::from_secs(30)).await;
    let dropped = recorded.labels_of("convoke.tasks.dropped");
    assert!(
        dropped.contains(&vec!["words".to_owned(), "store.fenced".to_owned()]),
        "{dropped:?}"
    );
    assert_eq!(site.hands.performed(), ["look"]);
    assert_eq!(seq().await, before, "only the other may write");
    let outages = recorded.labels_of("convoke.store.outages");
    assert!(outages.contains(&vec!["append".to_owned()]), "{outages:?}");
    site.end().await;
}

#[tokio::test(start_paused = true)]
async fn leases_are_renewed_while_a_stopping_worker_waits_for_its_calls() {
    let patient = Options {
        grace: Duration::from_mins(10),
        ..options()
    };
    let lease = patient.lease;
    let mut site = Site::new(Fault::Unavailable, usize::MAX, usize::MAX, patient);
    site.hands.hang_on("pay");
    let task = site.submit("pay").await;
    site.hands.until_performed("pay").await;
    site.stop.cancel();
    for _ in 0..10 {
        tokio::time::sleep(lease / 2).await;
        assert_eq!(claimed_by_another(&site).await, 0);
    }
    site.hands.release();
    let ended = site.engine.wait(&Viewer::System, task).await.unwrap();
    assert_eq!(ended.status, TaskState::Completed);
    site.running.join_next().await.unwrap().unwrap().unwrap();
}

/// Longer than anything here takes that ends at all.
const FOR_EVER: Duration = Duration::from_hours(1);

#[tokio::test(start_paused = true)]
async fn who_waits_and_who_follows_outlive_an_outage_but_not_the_end_of_the_engine_in_one() {
    let site = Site::new(Fault::Unavailable, usize::MAX, usize::MAX, options());
    site.hands.hang_on("look");
    let task = site.submit("look").await;
    site.hands.until_performed("look").await;
    let (viewer, engine) = (&Viewer::System, &site.engine);
    let follow = || engine.entries(viewer, task, 0).collect::<Vec<_>>();
    let broken = async {
        site.store.break_down(true);
        tokio::time::sleep(Duration::from_secs(5)).await;
        site.store.break_down(false);
        site.hands.release();
    };
    let (ended, entries, ()) = tokio::join!(engine.wait(viewer, task), follow(), broken);
    assert_eq!(ended.unwrap().status, TaskState::Completed);
    assert!(entries.iter().all(Result::is_ok), "{entries:?}");
    assert!(entries.len() > 1);
    let is_outage = |error: EngineError| error.code() == "store.unavailable";

    site.store.break_down(true);
    let ending = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        site.engine.close("it was enough");
    };
    let waiting = async { tokio::join!(engine.wait(viewer, task), follow(), ending) };
    let (ended, mut entries, ()) = tokio::time::timeout(FOR_EVER, waiting).await.unwrap();
    assert!(is_outage(ended.unwrap_err()));
    assert!(is_outage(entries.pop().unwrap().unwrap_err()));
    site.store.break_down(false);
    site.end().await;
}

/// Submits, loses the answer, and cannot be asked whether it did until it is back.
struct LostAnswer {
    inner: MemoryStore,
    is_gone: watch::Sender<bool>,
}

impl Store for LostAnswer {
    fn submit(&self, task: NewTask) -> StoreFuture<Submission> {
        let submitted = self.inner.submit(task);
        let lost = StoreError::Uncertain("the connection was lost".into());
        async move { submitted.await.and(Err(lost)) }.boxed()
    }

    fn task(&self, viewer: &Viewer, task: Uuid) -> StoreFuture<Option<TaskRecord>> {
        if *self.is_gone.borrow() {
            let gone = StoreError::Unavailable("it is gone".into());
            return std::future::ready(Err(gone)).boxed();
        }
        self.inner.task(viewer, task)
    }

    convoke_testkit::delegate!(inner: now claim append renew signal newest load conversation rest);
}

#[tokio::test(start_paused = true)]
async fn whether_a_task_was_accepted_is_read_back_until_the_store_is_back_or_the_engine_ends() {
    let clock = Arc::new(SimClock::running());
    let store = Arc::new(LostAnswer {
        inner: MemoryStore::new(clock.clone()),
        is_gone: watch::Sender::new(true),
    });
    let engine = engine_over(store.clone(), clock);
    let back = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        store.is_gone.send_replace(false);
    };
    let (submitted, ()) = tokio::join!(engine.submit(World::request_of("one")), back);
    assert!(matches!(submitted, Ok(Submission::Created { .. })));
    store.is_gone.send_replace(true);
    let ending = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        engine.close("it was enough");
    };
    let submitted = async { tokio::join!(engine.submit(World::request_of("one")), ending) };
    let (submitted, ()) = tokio::time::timeout(FOR_EVER, submitted).await.unwrap();
    assert_eq!(submitted.unwrap_err().code(), "store.unavailable");
}

/// Whoever claims learns that it is damaged.
struct Damaged {
    inner: MemoryStore,
}

impl Store for Damaged {
    fn claim(&self, _: Claim) -> StoreFuture<Claimed> {
        let damaged = StoreError::Broken("not a store".into());
        std::future::ready(Err(damaged)).boxed()
    }

    convoke_testkit::delegate!(inner: now submit append renew signal task newest load conversation rest);
}

#[tokio::test(start_paused = true)]
async fn a_worker_ends_when_its_store_is_damaged() {
    let clock = Arc::new(SimClock::running());
    let engine = engine_over(
        Arc::new(Damaged {
            inner: MemoryStore::new(clock.clone()),
        }),
        clock,
    );
    let worker = Worker::new(engine, Arc::new(WordExecutor::default()), options());
    let running = worker.run(CancellationToken::new());
    let ended = tokio::time::timeout(FOR_EVER, running).await.unwrap();
    assert_eq!(ended.unwrap_err().code(), "store.broken");
}

#[tokio::test(start_paused = true)]
async fn an_outage_while_an_earlier_edition_is_opened_drops_no_task() {
    let recorded = RecordedMetrics::install().unwrap();
    let run = async |first: usize| {
        let clock = Arc::new(SimClock::running());
        let store = MemoryStore::new(clock.clone());
        let store = FaultyStore::new(store, Fault::Unavailable, first, first + 1);
        let store = Arc::new(store);
        let engine = engine_over(store.clone(), clock.clone());
        let earlier = Engine::new(
            Arc::new(Words),
            store.clone(),
            clock,
            Arc::new(CountedIds::default()),
            "words",
            Arc::new(Definition {
                hash: "earlier".into(),
                ..Definition::default()
            }),
            Duration::from_mins(1),
        );
        let mut submitted = earlier.submit(World::request_of("one")).await;
        if submitted.is_err() {
            submitted = earlier.submit(World::request_of("one")).await;
        }
        let task = submitted.unwrap().id();
        let shelf = Arc::new(WordEditions::default());
        let worker = Worker::new(engine.clone(), Arc::new(WordExecutor::default()), options());
        let worker = RunningWorker::start(worker.with_editions(shelf.clone()));
        let ended = engine.wait(&Viewer::System, task).await.unwrap();
        assert_eq!(ended.status, TaskState::Completed);
        assert_eq!(shelf.hands.performed(), ["one"]);
        worker.stop().await;
        store.calls()
    };
    let calls = run(usize::MAX - 1).await;
    for first in 0..calls {
        run(first).await;
        let dropped = recorded.labels_of("convoke.tasks.dropped");
        assert!(dropped.is_empty(), "at {first}: {dropped:?}");
    }
}
