//! Narrow reads, stable cursors, the store's time, and what a caller may rely on when it does not wait.

use std::time::Duration;

use convoke_model::{Clock, TaskState};
use convoke_store::{
    Claim, Filter, NewSignal, Page, SUMMARY_CHARACTERS, SignalKind, StoreError, Submission, Viewer,
};
use serde_json::json;
use uuid::Uuid;

use crate::world::{LEASE, World, standing};

const SYSTEM: &Viewer = &Viewer::System;

/// A task with entries 1 to 6, in the hands of worker `w`.
async fn six_entries(world: &World) -> convoke_store::Fence {
    world.submit(world.task(1)).await;
    let mut fence = world.claim_one("w").await.fence();
    for _ in 0..5 {
        let appended = world
            .store
            .append(fence, world.batch(TaskState::Working).into());
        fence.seq = appended.await.unwrap();
    }
    fence
}

pub(crate) async fn entries_and_events_are_read_by_range(world: &World) {
    let task = six_entries(world).await.task;
    for range in [1..=6, 2..=4, 6..=u64::MAX, 7..=9] {
        let entries = world
            .store
            .entries(SYSTEM, task, range.clone())
            .await
            .unwrap();
        let events = world
            .store
            .events(SYSTEM, task, range.clone())
            .await
            .unwrap();
        let expected: Vec<u64> = (1..=6).filter(|seq| range.contains(seq)).collect();
        let seqs: Vec<u64> = entries.iter().map(|entry| entry.seq).collect();
        assert_eq!(seqs, expected);
        for (entry, event) in entries.iter().zip(&events) {
            assert_eq!(
                (entry.seq, entry.at, &entry.kind),
                (event.seq, event.at, &event.kind)
            );
            assert_eq!(entry.event, event.event);
        }
        assert_eq!(entries.len(), events.len());
    }
}

pub(crate) async fn signals_are_read_without_the_journal(world: &World) {
    let fence = six_entries(world).await;
    for key in ["a", "b"] {
        let signal = NewSignal {
            task: fence.task,
            kind: SignalKind::Answer,
            payload: json!({ "key": key }),
            key: key.into(),
        };
        world.store.signal(SYSTEM, signal).await.unwrap();
    }
    let signals = world.store.signals(SYSTEM, fence.task).await.unwrap();
    let keys: Vec<_> = signals
        .iter()
        .map(|signal| &signal.payload["key"])
        .collect();
    assert_eq!(keys, ["a", "b"], "in the order in which they came");
    let mut batch = world.batch(TaskState::Working);
    batch.consumed = vec![signals[0].id];
    world.store.append(fence, batch.into()).await.unwrap();
    let left = world.store.signals(SYSTEM, fence.task).await.unwrap();
    assert_eq!(left, signals[1..]);
}

pub(crate) async fn a_list_carries_no_payload(world: &World) {
    let long = "\u{e4}".repeat(SUMMARY_CHARACTERS * 3);
    let mut task = world.task(1);
    task.description.clone_from(&long);
    world.submit(task).await;
    let fence = world.claim_one("w").await.fence();
    let mut batch = world.batch(TaskState::Completed);
    standing(&mut batch).result = Some(long.clone());
    world.store.append(fence, batch.into()).await.unwrap();
    let page = world
        .store
        .query(SYSTEM, Filter::default(), Page::default())
        .await;
    let summary = page.unwrap().tasks.remove(0);
    let cut: String = long.chars().take(SUMMARY_CHARACTERS).collect();
    assert_eq!(
        (summary.description, summary.result),
        (cut.clone(), Some(cut))
    );
    let record = world.store.task(SYSTEM, fence.task).await.unwrap().unwrap();
    assert_eq!(
        (record.description, record.result),
        (long.clone(), Some(long))
    );
}

pub(crate) async fn counting_stops_at_its_bound(world: &World) {
    for id in 1..=7 {
        world.submit(world.task(id)).await;
    }
    for (at_most, counted) in [(0, 0), (3, 3), (7, 7), (99, 7)] {
        let filter = Filter::default();
        assert_eq!(
            world.store.count(SYSTEM, filter, at_most).await,
            Ok(counted)
        );
    }
}

pub(crate) async fn a_cursor_stays_right_while_tasks_come(world: &World) {
    for id in 1..=4 {
        world.submit(world.task(id)).await;
    }
    let page = |after| Page { after, limit: 2 };
    let first = world
        .store
        .query(SYSTEM, Filter::default(), page(None))
        .await
        .unwrap();
    world.submit(world.task(5)).await;
    let second = world
        .store
        .query(SYSTEM, Filter::default(), page(first.next))
        .await
        .unwrap();
    let ids: Vec<_> = first
        .tasks
        .iter()
        .chain(&second.tasks)
        .map(|task| task.id.as_u128())
        .collect();
    assert_eq!(ids, [4, 3, 2, 1]);
    assert_eq!(second.next, None);
}

pub(crate) async fn a_page_of_any_size_can_be_read(world: &World) {
    for id in 1..=2 {
        world.submit(world.task(id)).await;
    }
    for (limit, found, more) in [
        (0, 0, false),
        (1, 1, true),
        (2, 2, false),
        (usize::MAX, 2, false),
    ] {
        let page = Page { after: None, limit };
        let page = world.store.query(SYSTEM, Filter::default(), page).await;
        let page = page.unwrap();
        assert_eq!(
            (page.tasks.len(), page.next.is_some()),
            (found, more),
            "{limit}"
        );
    }
}

pub(crate) async fn a_claim_carries_the_time_of_the_store(world: &World) {
    world.clock.advance(Duration::from_secs(3));
    let claim = convoke_store::Claim {
        worker: "w".into(),
        apps: Vec::new(),
        except: Vec::new(),
        lease: LEASE,
        limit: 1,
    };
    let claimed = world.store.claim(claim).await.unwrap();
    assert_eq!(claimed.now, world.clock.now());
    assert_eq!(world.store.now().await, Ok(world.clock.now()));
}

pub(crate) async fn a_dropped_call_takes_effect_all_the_same(world: &World) {
    drop(world.store.submit(world.task(1)));
    let fence = world.claim_one("w").await.fence();
    drop(
        world
            .store
            .append(fence, world.batch(TaskState::Working).into()),
    );
    let signal = NewSignal {
        task: fence.task,
        kind: SignalKind::Cancel,
        payload: json!({}),
        key: "k".into(),
    };
    drop(world.store.signal(SYSTEM, signal));
    // A change after them is made after them.
    world.submit(world.task(2)).await;
    let loaded = world
        .store
        .load(SYSTEM, fence.task, 1)
        .await
        .unwrap()
        .unwrap();
    assert_eq!((loaded.entries.len(), loaded.signals.len()), (2, 1));
}

pub(crate) async fn nothing_is_appended_over_a_gap(world: &World) {
    let fence = six_entries(world).await;
    // As if the append before this one had been lost.
    let ahead = convoke_store::Fence {
        seq: fence.seq + 1,
        ..fence
    };
    for _ in 0..2 {
        let appended = world
            .store
            .append(ahead, world.batch(TaskState::Working).into());
        assert!(matches!(appended.await, Err(StoreError::Fenced { .. })));
    }
    let record = world.store.task(SYSTEM, fence.task).await.unwrap().unwrap();
    assert_eq!(
        (record.seq, record.epoch),
        (fence.seq, fence.epoch),
        "what a read back tells"
    );
    let appended = world
        .store
        .append(fence, world.batch(TaskState::Working).into());
    assert_eq!(appended.await, Ok(fence.seq + 1));
}

pub(crate) async fn a_lapsed_lease_that_nobody_claimed_is_prolonged(world: &World) {
    let fence = six_entries(world).await;
    world.clock.advance(LEASE * 3);
    let renewed = world.store.renew(vec![fence], LEASE).await.unwrap();
    assert!(renewed[0].held);
    assert!(world.claim("other", 9).await.is_empty());
}

pub(crate) async fn a_task_is_not_claimed_before_its_time(world: &World) {
    let mut task = world.task(1);
    task.not_before = Some(Duration::from_mins(1));
    // Nobody holds a task that is not due.
    task.hold = Some(convoke_store::Lease {
        worker: "w".into(),
        time: LEASE,
    });
    let submitted = world.store.submit(task).await;
    let id = Uuid::from_u128(1);
    assert_eq!(submitted, Ok(Submission::Created { id, held: false }));
    world.clock.advance(Duration::from_millis(59_999));
    assert!(world.claim("w", 9).await.is_empty());
    world.clock.advance(Duration::from_millis(1));
    assert_eq!(world.claim_one("w").await.record.id, id);
}

pub(crate) async fn a_claim_says_when_the_next_task_is_ready(world: &World) {
    let claim = |app: &str| {
        world.store.claim(Claim {
            worker: "w".into(),
            apps: vec![app.into()],
            except: Vec::new(),
            lease: LEASE,
            limit: 9,
        })
    };
    let next_ready_in = async |app: &str| claim(app).await.unwrap().next_ready_in;
    assert_eq!(next_ready_in("todo").await, None);
    for (id, seconds) in [(1, 60), (2, 20)] {
        let mut task = world.task(id);
        task.not_before = Some(Duration::from_secs(seconds));
        world.submit(task).await;
    }
    assert_eq!(next_ready_in("todo").await, Some(Duration::from_secs(20)));
    assert_eq!(next_ready_in("home").await, None);
    world.clock.advance(Duration::from_secs(20));
    let claimed = claim("todo").await.unwrap();
    assert_eq!(claimed.tasks.len(), 1);
    let expires_in = LEASE.min(Duration::from_secs(40));
    assert_eq!(claimed.next_ready_in, Some(expires_in));
}

pub(crate) async fn a_task_that_is_not_due_keeps_nobody_waiting(world: &World) {
    let conversation = Some(Uuid::from_u128(7));
    let mut later = world.task(1);
    (later.conversation, later.not_before) = (conversation, Some(Duration::from_mins(1)));
    world.submit(later).await;
    let mut now = world.task(2);
    now.conversation = conversation;
    world.submit(now).await;
    assert_eq!(world.claim_one("w").await.record.id, Uuid::from_u128(2));
}
