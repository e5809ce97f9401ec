//! Training what understands requests holds up the request that needs it, and nothing else.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod office;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use convoke_model::SystemClock;
use convoke_store::{Batch, ConversationRecord, Fence, MemoryStore, Store, StoreFuture, Viewer};
use convoke_testkit::Reply;
use office::{Office, Setting};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use uuid::Uuid;

/// A store that notes how many turns another task of the same executor had while a decision was made: from when the
/// conversation was read for it until its outcome was written down.
struct DecisionGauge {
    inner: MemoryStore,
    turns: Arc<AtomicUsize>,
    begun_at: AtomicUsize,
    during: Arc<AtomicUsize>,
}

impl Store for DecisionGauge {
    fn conversation(
        &self,
        viewer: &Viewer,
        id: Uuid,
        before: Option<Uuid>,
        limit: usize,
    ) -> StoreFuture<Option<ConversationRecord>> {
        let turns = self.turns.load(Ordering::SeqCst);
        self.begun_at.store(turns, Ordering::SeqCst);
        self.inner.conversation(viewer, id, before, limit)
    }

    fn append(&self, fence: Fence, batch: Arc<Batch>) -> StoreFuture<u64> {
        if batch.entries.iter().any(|entry| entry.kind == "returned") {
            let turns = self.turns.load(Ordering::SeqCst);
            let during = turns - self.begun_at.load(Ordering::SeqCst);
            self.during.fetch_max(during, Ordering::SeqCst);
        }
        self.inner.append(fence, batch)
    }

    convoke_testkit::delegate!(inner: now submit claim renew signal task load newest rest);
}

/// Many skills, none of which has a sentence.
fn skills() -> Vec<Value> {
    let things = [
        "lamp", "door", "song", "mail", "plant", "car", "soup", "book",
    ];
    let ways = [
        "turn", "open", "bring", "send", "water", "find", "warm", "read",
    ];
    let skills = things.iter().zip(ways).map(|(thing, way)| {
        let examples: Vec<_> = (0..40)
            .map(|number| format!("{way} the {thing} number {number} for me at {number} please"))
            .collect();
        json!({
            "name": format!("{way}_{thing}"), "description": format!("{way} a {thing}"),
            "examples": examples,
            "action": { "tool": "desk.get_time", "reply": format!("The {thing} is done.") },
        })
    });
    skills.collect()
}

#[tokio::test]
async fn other_tasks_go_on_while_the_first_request_trains_the_classifier() {
    let (turns, during) = (Arc::new(AtomicUsize::new(0)), Arc::default());
    let setting = Setting {
        agent: json!({ "skills": skills() }),
        store: Some(Arc::new(DecisionGauge {
            inner: MemoryStore::new(Arc::new(SystemClock)),
            turns: Arc::clone(&turns),
            begun_at: AtomicUsize::new(0),
            during: Arc::clone(&during),
        })),
        ..Setting::default()
    };
    let office = Office::set_up(setting, Reply::text("")).await;
    let mut others = JoinSet::new();
    others.spawn(async move {
        loop {
            turns.fetch_add(1, Ordering::SeqCst);
            tokio::task::yield_now().await;
        }
    });
    let ended = office.ask("would you water my plant number 3").await;
    assert_eq!(ended.answer.unwrap().text, "The plant is done.");
    let during = during.load(Ordering::SeqCst);
    assert!(during > 100, "{during} turns while the decision was made");
}
