//! What the store in memory keeps of tasks that have ended.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[allow(dead_code, reason = "each test file uses its own part of it")]
mod support;

use std::sync::Arc;
use std::time::Duration;

use convoke_model::{Clock, Message, TaskState};
use convoke_store::{
    Batch, Claim, Fence, Filter, LeaseAction, LoadedTask, MemoryLimits, MemoryStore, NewEntry,
    NewMessage, NewTask, Page, StateWriter, StatusUpdate, Store, Viewer,
};
use convoke_testkit::SimClock;
use support::task;
use uuid::Uuid;

struct World {
    clock: Arc<SimClock>,
    store: MemoryStore,
}

impl World {
    fn keeping(tasks: usize, journals: usize) -> Self {
        let clock = Arc::new(SimClock::new());
        let limits = MemoryLimits { journals, tasks };
        Self {
            store: MemoryStore::keeping(limits, clock.clone()),
            clock,
        }
    }

    async fn submit(&self, id: u128) {
        self.store.submit(task(id, &self.clock)).await.unwrap();
    }

    /// Claims the only task that can be.
    async fn claim(&self) -> Fence {
        let claim = Claim {
            worker: "w".into(),
            apps: vec!["todo".into()],
            except: Vec::new(),
            lease: Duration::from_hours(1),
            limit: 1,
        };
        self.store.claim(claim).await.unwrap().tasks[0].fence()
    }

    async fn end(&self, fence: Fence, state: String) {
        let at = self.clock.now();
        let batch = Batch {
            inline_bytes: convoke_store::INLINE_BYTES,
            entries: vec![NewEntry {
                at,
                kind: "ended".into(),
                event: "{}".into(),
                state,
            }],
            messages: vec![NewMessage::new(
                &Message::user("thought", at).unwrap(),
                false,
            )],
            consumed: Vec::new(),
            standing: Some(StatusUpdate {
                status: TaskState::Completed,
                stage: None,
                hold: LeaseAction::Keep,
                result: None,
                error: None,
                progress: true,
            }),
        };
        self.store.append(fence, Arc::new(batch)).await.unwrap();
    }

    async fn submit_and_end(&self, id: u128) {
        self.submit(id).await;
        self.end(self.claim().await, "{}".into()).await;
    }

    async fn kept(&self) -> Vec<u128> {
        let page = self
            .store
            .query(&Viewer::System, Filter::default(), Page::default())
            .await;
        let tasks = page.unwrap().tasks.into_iter();
        tasks.map(|task| task.id.as_u128()).collect()
    }

    async fn load(&self, id: u128) -> LoadedTask {
        self.store
            .load(&Viewer::System, Uuid::from_u128(id), 1)
            .await
            .unwrap()
            .unwrap()
    }

    /// How many entries and messages of a task are kept.
    async fn counts(&self, id: u128) -> (usize, usize) {
        let loaded = self.load(id).await;
        (loaded.entries.len(), loaded.messages.len())
    }
}

#[tokio::test]
async fn the_newest_ended_tasks_are_stored() {
    let world = World::keeping(2, 2);
    for (id, kept) in [
        (1, vec![1]),
        (2, vec![2, 1]),
        (3, vec![3, 2]),
        (4, vec![4, 3]),
    ] {
        world.submit_and_end(id).await;
        assert_eq!(world.kept().await, kept);
    }
    world.submit(5).await;
    assert_eq!(world.kept().await, [5, 4, 3], "live tasks do not count");
}

#[tokio::test]
async fn older_ended_tasks_store_only_their_end_and_conversation() {
    let world = World::keeping(9, 1);
    world.submit_and_end(1).await;
    assert_eq!(world.counts(1).await, (2, 2));
    world.submit_and_end(2).await;
    assert_eq!(world.counts(1).await, (1, 1));
    assert_eq!(world.counts(2).await, (2, 2));
    let loaded = world.load(1).await;
    assert_eq!(loaded.entries[0].seq, 2);
    assert!(loaded.messages[0].in_conversation);
}

#[tokio::test]
async fn the_stored_state_can_be_read_without_earlier_ones() {
    let world = World::keeping(9, 1);
    let state = |end: &str| {
        let pieces: Vec<_> = (0..2_000).map(|piece| piece.to_string()).collect();
        format!("[{},{end}]", pieces.join(","))
    };
    let mut states = StateWriter::default();
    let mut submitted = task(1, &world.clock);
    submitted.entry.state = states.write_text(state("1"));
    world.store.submit(submitted).await.unwrap();
    let change = states.write_text(state("2"));
    assert!(change.len() < 100, "{change}");
    world.end(world.claim().await, change).await;
    world.submit_and_end(2).await;
    let kept = &world.load(1).await.entries;
    assert_eq!(kept.len(), 1);
    assert_eq!(kept[0].state.as_str(), state("2"));
}

#[tokio::test]
async fn a_child_that_is_forgotten_takes_no_other_from_its_parent() {
    let world = World::keeping(0, 0);
    world.submit(1).await;
    let parent = world.claim().await;
    for id in [2, 3] {
        let child = NewTask {
            parent: Some(parent.task),
            ..task(id, &world.clock)
        };
        world.store.submit(child).await.unwrap();
    }
    let first = world.claim().await;
    assert_eq!(first.task, Uuid::from_u128(2));
    world.end(first, "{}".into()).await;
    assert_eq!(world.kept().await, [3, 1]);
    world.end(parent, "{}".into()).await;
    let signals = world.load(3).await.signals;
    assert_eq!(signals.len(), 1, "it is called off with its parent");
    assert_eq!(signals[0].kind, "cancel");
}
