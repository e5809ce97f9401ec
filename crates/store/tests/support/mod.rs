//! A task and a claim, for tests that care for the file they are written to.

use std::sync::Arc;
use std::time::Duration;

use convoke_model::{Channel, Clock, Message};
use convoke_store::{Claim, ClaimedTask, NewEntry, NewMessage, NewTask, SqliteStore, Store};
use convoke_testkit::SimClock;
use uuid::Uuid;

pub(crate) fn task(id: u128, clock: &SimClock) -> NewTask {
    let at = clock.now();
    NewTask {
        id: Uuid::from_u128(id),
        key: None,
        fingerprint: None,
        owner: Uuid::nil(),
        conversation: None,
        refused_if_busy: false,
        channel: Channel::Terminal,
        app: "todo".into(),
        definition: Arc::default(),
        description: "t".into(),
        parent: None,
        deadline: at,
        retention_days: None,
        tags: Vec::new(),
        stage: None,
        hold: None,
        not_before: None,
        trace: None,
        blobs: Vec::new(),
        entry: NewEntry {
            at,
            kind: "submitted".into(),
            event: "{}".into(),
            state: "{}".into(),
        },
        messages: vec![NewMessage::in_conversation(
            &Message::user("hi", at).unwrap(),
        )],
    }
}

pub(crate) async fn claim(store: &SqliteStore, worker: &str) -> Vec<ClaimedTask> {
    let claim = Claim {
        worker: worker.into(),
        apps: vec!["todo".into()],
        except: Vec::new(),
        lease: Duration::from_hours(1),
        limit: 10,
    };
    store.claim(claim).await.unwrap().tasks
}
