//! What the port promises, one promise a function. Each runs against every backend.

use std::time::Duration;

use convoke_model::{Clock, TaskState};
use convoke_store::{
    Claim, FIRST_EPOCH, Fence, Filter, Lease, NewSignal, Page, Scope, SignalKind, SignalReceipt,
    StoreError, Submission, TaskRecord, Viewer,
};
use serde_json::json;
use uuid::Uuid;

use crate::world::{ANN, BEN, LEASE, World, said, standing};

const A_DAY: Duration = Duration::from_hours(24);

fn signal(task: Uuid, key: &str) -> NewSignal {
    NewSignal {
        task,
        kind: SignalKind::Answer,
        payload: json!({"yes": true}),
        key: key.into(),
    }
}

pub(crate) async fn a_submitted_task_is_found_with_its_first_entry(world: &World) {
    let id = world.submit(world.task(1)).await;
    let loaded = world
        .store
        .load(&Viewer::System, id, 1)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(loaded.record.status, TaskState::Submitted);
    assert_eq!((loaded.record.seq, loaded.record.epoch), (1, 0));
    assert_eq!(loaded.record.created_at, world.clock.now());
    assert_eq!(loaded.entries.len(), 1);
    assert_eq!(loaded.entries[0].seq, 1);
    assert_eq!(loaded.entries[0].state.value(), json!({"n": 1}));
    assert_eq!(loaded.messages[0].message.content, "hello 1");
    assert!(
        world
            .store
            .load(&Viewer::System, Uuid::from_u128(99), 1)
            .await
            .unwrap()
            .is_none()
    );
}

pub(crate) async fn the_same_key_of_the_same_owner_is_the_same_task(world: &World) {
    let mut first = world.task(1);
    first.key = Some("k".into());
    let mut second = world.task(2);
    second.key = Some("k".into());
    let id = world.submit(first).await;
    assert_eq!(
        world.store.submit(second).await.unwrap(),
        Submission::Existing(id)
    );
    assert!(
        world
            .store
            .load(&Viewer::System, Uuid::from_u128(2), 1)
            .await
            .unwrap()
            .is_none()
    );
}

pub(crate) async fn the_same_key_of_another_owner_is_another_task(world: &World) {
    let mut first = world.task(1);
    first.key = Some("k".into());
    let mut second = world.task(2);
    second.key = Some("k".into());
    second.owner = BEN;
    world.submit(first).await;
    assert_eq!(world.submit(second).await, Uuid::from_u128(2));
}

pub(crate) async fn a_taken_id_is_refused(world: &World) {
    let id = world.submit(world.task(1)).await;
    assert_eq!(
        world.store.submit(world.task(1)).await,
        Err(StoreError::IdTaken { task: id })
    );
}

fn lease(worker: &str) -> Lease {
    Lease {
        worker: worker.into(),
        time: LEASE,
    }
}

pub(crate) async fn a_task_can_be_held_from_the_start(world: &World) {
    let mut task = world.task(1);
    task.hold = Some(lease("a"));
    let submitted = world.store.submit(task).await.unwrap();
    let id = Uuid::from_u128(1);
    assert_eq!(submitted, Submission::Created { id, held: true });
    let record = world
        .store
        .load(&Viewer::System, id, 1)
        .await
        .unwrap()
        .unwrap()
        .record;
    assert_eq!(record.status, TaskState::Working);
    assert_eq!(record.worker.as_deref(), Some("a"));
    assert_eq!(record.started_at, Some(world.clock.now()));
    assert!(world.claim("b", 9).await.is_empty());
    let fence = Fence {
        task: id,
        epoch: FIRST_EPOCH,
        seq: 1,
    };
    let appended = world
        .store
        .append(fence, world.batch(TaskState::Working).into());
    assert_eq!(appended.await, Ok(2));
    world.clock.advance(LEASE);
    assert_eq!(world.claim("b", 9).await.len(), 1, "its lease is over");
}

pub(crate) async fn a_task_that_has_to_wait_its_turn_is_not_held_from_the_start(world: &World) {
    let conversation = Some(Uuid::from_u128(100));
    let mut first = world.task(1);
    first.conversation = conversation;
    world.submit(first).await;
    let mut second = world.task(2);
    second.conversation = conversation;
    second.hold = Some(lease("a"));
    let submitted = world.store.submit(second).await.unwrap();
    let id = Uuid::from_u128(2);
    assert_eq!(submitted, Submission::Created { id, held: false });
    let claimed = world.claim("b", 9).await;
    assert_eq!(claimed.len(), 1);
    assert_eq!(claimed[0].record.id, Uuid::from_u128(1));
}

pub(crate) async fn an_append_without_a_status_change_keeps_the_row(world: &World) {
    let id = world.submit(world.task(1)).await;
    let claimed = world.claim_one("a").await;
    let mut batch = world.batch(TaskState::Working);
    batch.standing = None;
    batch.messages = vec![said("a thought", world.clock.now())];
    assert_eq!(
        world.store.append(claimed.fence(), batch.into()).await,
        Ok(2)
    );
    let loaded = world
        .store
        .load(&Viewer::System, id, 2)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(loaded.entries.len(), 1);
    assert_eq!(loaded.messages[1].seq, 2);
    let expected = TaskRecord {
        seq: 2,
        ..claimed.record
    };
    assert_eq!(loaded.record, expected);
}

pub(crate) async fn sequences_are_contiguous_from_one(world: &World) {
    let id = world.submit(world.task(1)).await;
    let mut fence = world.claim_one("w").await.fence();
    for _ in 0..5 {
        let mut batch = world.batch(TaskState::Working);
        batch.entries.push(batch.entries[0].clone());
        fence.seq = world.store.append(fence, batch.into()).await.unwrap();
    }
    let loaded = world
        .store
        .load(&Viewer::System, id, 1)
        .await
        .unwrap()
        .unwrap();
    let sequences: Vec<_> = loaded.entries.iter().map(|entry| entry.seq).collect();
    assert_eq!(sequences, (1..=11).collect::<Vec<_>>());
    let tail = world
        .store
        .load(&Viewer::System, id, 10)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        tail.entries
            .iter()
            .map(|entry| entry.seq)
            .collect::<Vec<_>>(),
        [10, 11]
    );
    let none = world
        .store
        .load(&Viewer::System, id, u64::MAX)
        .await
        .unwrap()
        .unwrap();
    assert!(none.entries.is_empty());
}

pub(crate) async fn a_task_is_claimed_by_one_worker_only(world: &World) {
    world.submit(world.task(1)).await;
    let claimed = world.claim_one("a").await;
    assert_eq!(claimed.record.epoch, 1);
    assert_eq!(claimed.record.status, TaskState::Working);
    assert_eq!(claimed.record.worker.as_deref(), Some("a"));
    assert!(world.claim("b", 9).await.is_empty());
}

pub(crate) async fn an_expired_lease_can_be_claimed_and_fences_the_old_worker(world: &World) {
    world.submit(world.task(1)).await;
    let old = world.claim_one("a").await.fence();
    world.clock.advance(LEASE);
    let new = world.claim_one("b").await.fence();
    assert_eq!(new.epoch, old.epoch + 1);
    let late = world
        .store
        .append(old, world.batch(TaskState::Completed).into())
        .await;
    assert_eq!(late, Err(StoreError::Fenced { task: old.task }));
    assert_eq!(
        world
            .store
            .append(new, world.batch(TaskState::Completed).into())
            .await,
        Ok(2)
    );
}

pub(crate) async fn a_wrong_sequence_is_fenced_and_changes_nothing(world: &World) {
    let id = world.submit(world.task(1)).await;
    let fence = world.claim_one("w").await.fence();
    let before = world.store.load(&Viewer::System, id, 1).await.unwrap();
    for seq in [0, 2, 99] {
        let wrong = convoke_store::Fence { seq, ..fence };
        let refused = world
            .store
            .append(wrong, world.batch(TaskState::Failed).into())
            .await;
        assert_eq!(refused, Err(StoreError::Fenced { task: id }));
    }
    assert_eq!(
        world.store.load(&Viewer::System, id, 1).await.unwrap(),
        before
    );
}

pub(crate) async fn a_delivery_after_completion_is_fenced(world: &World) {
    let id = world.submit(world.task(1)).await;
    let mut fence = world.claim_one("w").await.fence();
    fence.seq = world
        .store
        .append(fence, world.batch(TaskState::Completed).into())
        .await
        .unwrap();
    let again = world
        .store
        .append(fence, world.batch(TaskState::Working).into())
        .await;
    assert_eq!(again, Err(StoreError::Fenced { task: id }));
    let record = world
        .store
        .load(&Viewer::System, id, 1)
        .await
        .unwrap()
        .unwrap()
        .record;
    assert_eq!(record.status, TaskState::Completed);
    assert_eq!(record.completed_at, Some(world.clock.now()));
    assert_eq!((record.worker, record.ready_at), (None, None));
    world.clock.advance(A_DAY);
    assert!(world.claim("w", 9).await.is_empty());
}

pub(crate) async fn a_renewed_lease_holds_and_a_lost_one_does_not(world: &World) {
    world.submit(world.task(1)).await;
    let fence = world.claim_one("a").await.fence();
    world.clock.advance(LEASE / 2);
    let renewed = world.store.renew(vec![fence], LEASE).await.unwrap();
    assert!(renewed[0].held && !renewed[0].signalled);
    world.clock.advance(LEASE / 2);
    assert!(world.claim("b", 9).await.is_empty());
    world
        .store
        .signal(&Viewer::System, signal(fence.task, "s"))
        .await
        .unwrap();
    assert!(world.store.renew(vec![fence], LEASE).await.unwrap()[0].signalled);
    world.clock.advance(LEASE);
    world.claim_one("b").await;
    assert!(!world.store.renew(vec![fence], LEASE).await.unwrap()[0].held);
}

pub(crate) async fn a_signal_before_the_wait_is_not_lost(world: &World) {
    let id = world.submit(world.task(1)).await;
    let fence = world.claim_one("w").await.fence();
    assert_eq!(
        world.store.signal(&Viewer::System, signal(id, "s")).await,
        Ok(SignalReceipt::Accepted)
    );
    world
        .store
        .append(fence, world.pause(None).into())
        .await
        .unwrap();
    let claimed = world.claim_one("w").await;
    assert_eq!(claimed.signals.len(), 1);
    assert_eq!(claimed.signals[0].payload, json!({"yes": true}));
    let mut batch = world.pause(None);
    batch.consumed = vec![claimed.signals[0].id];
    world
        .store
        .append(claimed.fence(), batch.into())
        .await
        .unwrap();
    assert!(world.claim("w", 9).await.is_empty());
}

pub(crate) async fn a_signal_wakes_a_waiting_task(world: &World) {
    let id = world.submit(world.task(1)).await;
    let fence = world.claim_one("w").await.fence();
    world
        .store
        .append(fence, world.pause(None).into())
        .await
        .unwrap();
    world.clock.advance(A_DAY);
    assert!(world.claim("w", 9).await.is_empty());
    world
        .store
        .signal(&Viewer::System, signal(id, "s"))
        .await
        .unwrap();
    let claimed = world.claim_one("w").await;
    assert_eq!(claimed.record.status, TaskState::InputRequired);
    assert_eq!(claimed.signals.len(), 1);
}

pub(crate) async fn a_signal_is_taken_once_under_its_key(world: &World) {
    let id = world.submit(world.task(1)).await;
    assert_eq!(
        world.store.signal(&Viewer::System, signal(id, "s")).await,
        Ok(SignalReceipt::Accepted)
    );
    assert_eq!(
        world.store.signal(&Viewer::System, signal(id, "s")).await,
        Ok(SignalReceipt::Duplicate)
    );
    assert_eq!(
        world.store.signal(&Viewer::System, signal(id, "t")).await,
        Ok(SignalReceipt::Accepted)
    );
    let claimed = world.claim_one("w").await;
    assert_eq!(claimed.signals.len(), 2);
    let mut batch = world.batch(TaskState::Working);
    batch.consumed = claimed.signals.iter().map(|signal| signal.id).collect();
    world
        .store
        .append(claimed.fence(), batch.into())
        .await
        .unwrap();
    assert_eq!(
        world.store.signal(&Viewer::System, signal(id, "s")).await,
        Ok(SignalReceipt::Duplicate)
    );
    assert!(
        world
            .store
            .load(&Viewer::System, id, 1)
            .await
            .unwrap()
            .unwrap()
            .signals
            .is_empty()
    );
}

pub(crate) async fn signals_to_ended_and_to_missing_tasks_are_distinguished(world: &World) {
    let id = world.submit(world.task(1)).await;
    let fence = world.claim_one("w").await.fence();
    world
        .store
        .append(fence, world.batch(TaskState::Completed).into())
        .await
        .unwrap();
    assert_eq!(
        world.store.signal(&Viewer::System, signal(id, "s")).await,
        Ok(SignalReceipt::Ended)
    );
    let missing = signal(Uuid::from_u128(99), "s");
    assert_eq!(
        world.store.signal(&Viewer::System, missing).await,
        Ok(SignalReceipt::Unknown)
    );
}

pub(crate) async fn a_waiting_task_wakes_at_its_time(world: &World) {
    world.submit(world.task(1)).await;
    let fence = world.claim_one("w").await.fence();
    world
        .store
        .append(fence, world.pause(Some(A_DAY)).into())
        .await
        .unwrap();
    world
        .clock
        .advance(Duration::from_millis(24 * 60 * 60 * 1_000 - 1));
    assert!(world.claim("w", 9).await.is_empty());
    world.clock.advance(Duration::from_millis(1));
    world.claim_one("w").await;
}

pub(crate) async fn only_known_apps_are_claimed(world: &World) {
    let mut task = world.task(1);
    task.app = "home".into();
    world.submit(task).await;
    assert!(world.claim("w", 9).await.is_empty());
    let both = vec!["todo".into(), "home".into()];
    let claim = Claim {
        worker: "w".into(),
        apps: both,
        except: Vec::new(),
        lease: LEASE,
        limit: 9,
    };
    assert_eq!(world.store.claim(claim).await.unwrap().tasks.len(), 1);
}

pub(crate) async fn claims_without_progress_are_counted(world: &World) {
    world.submit(world.task(1)).await;
    for claims in 1..=3 {
        let claimed = world.claim_one("w").await;
        assert_eq!(claimed.record.claims, claims);
        let mut batch = world.batch(TaskState::Working);
        standing(&mut batch).progress = false;
        world
            .store
            .append(claimed.fence(), batch.into())
            .await
            .unwrap();
        world.clock.advance(LEASE);
    }
    let claimed = world.claim_one("w").await;
    world
        .store
        .append(claimed.fence(), world.batch(TaskState::Working).into())
        .await
        .unwrap();
    world.clock.advance(LEASE);
    assert_eq!(world.claim_one("w").await.record.claims, 1);
}

pub(crate) async fn queries_filter_and_page_newest_first(world: &World) {
    for id in 1..=5 {
        let mut task = world.task(id);
        task.owner = if id % 2 == 0 { BEN } else { ANN };
        task.parent = (id == 5).then(|| Uuid::from_u128(1));
        task.tags = match id {
            2 | 3 => vec!["paid".into(), "it's \"late\"".into()],
            4 => vec!["unpaid".into()],
            _ => Vec::new(),
        };
        world.submit(task).await;
    }
    let claimed = world.claim_one("w").await;
    world
        .store
        .append(claimed.fence(), world.batch(TaskState::Completed).into())
        .await
        .unwrap();
    let ids = async |filter: Filter, page: Page| {
        let found = world
            .store
            .query(&Viewer::System, filter, page)
            .await
            .unwrap();
        (
            found
                .tasks
                .iter()
                .map(|task| task.id.as_u128())
                .collect::<Vec<_>>(),
            found.next,
        )
    };
    let all = Filter::default();
    assert_eq!(
        ids(all.clone(), Page::default()).await,
        (vec![5, 4, 3, 2, 1], None)
    );
    let (first, next) = ids(
        all.clone(),
        Page {
            after: None,
            limit: 2,
        },
    )
    .await;
    assert_eq!((first, next.is_some()), (vec![5, 4], true));
    assert_eq!(
        ids(
            all,
            Page {
                after: next,
                limit: 3
            }
        )
        .await,
        (vec![3, 2, 1], None)
    );
    let bens = Filter {
        owner: Some(BEN),
        ..Filter::default()
    };
    assert_eq!(ids(bens, Page::default()).await.0, [4, 2]);
    let ended = Filter {
        states: vec![TaskState::Completed],
        ..Filter::default()
    };
    assert_eq!(ids(ended, Page::default()).await.0, [1]);
    let children = Filter {
        parent: Some(Uuid::from_u128(1)),
        ..Filter::default()
    };
    assert_eq!(ids(children, Page::default()).await.0, [5]);
    let tagged = |tag: &str, owner| Filter {
        tag: Some(tag.into()),
        owner,
        ..Filter::default()
    };
    assert_eq!(ids(tagged("paid", None), Page::default()).await.0, [3, 2]);
    let quoted = tagged("it's \"late\"", Some(BEN));
    assert_eq!(ids(quoted, Page::default()).await.0, [2]);
    assert!(ids(tagged("pai", None), Page::default()).await.0.is_empty());
}

pub(crate) async fn a_watcher_is_told_of_work_and_of_its_task(world: &World) {
    let mut work = world.store.watch(Scope::Work);
    let id = world.submit(world.task(1)).await;
    work.changed().await;
    let mut journal = world.store.watch(Scope::Task(id));
    let mut inbox = world.store.watch(Scope::Inbox(id));
    let fence = world.claim_one("w").await.fence();
    world
        .store
        .append(fence, world.batch(TaskState::Working).into())
        .await
        .unwrap();
    journal.changed().await;
    world
        .store
        .signal(&Viewer::System, signal(id, "s"))
        .await
        .unwrap();
    inbox.changed().await;
}

pub(crate) async fn many_writers_at_once_lose_nothing(world: &World) {
    let submits = (1..=200).map(|id| world.store.submit(world.task(id)));
    for outcome in futures::future::join_all(submits).await {
        outcome.unwrap();
    }
    let claimed = world.claim("w", 500).await;
    assert_eq!(claimed.len(), 200);
    // Queued one after the other without waiting, as a driver does.
    let appends = claimed.iter().flat_map(|claimed| {
        let mut fence = claimed.fence();
        (0..5).map(move |step| {
            fence.seq = 1 + step;
            world
                .store
                .append(fence, world.batch(TaskState::Working).into())
        })
    });
    for outcome in futures::future::join_all(appends).await {
        outcome.unwrap();
    }
    for claimed in &claimed {
        let loaded = world
            .store
            .load(&Viewer::System, claimed.record.id, 1)
            .await
            .unwrap()
            .unwrap();
        assert_eq!(loaded.record.seq, 6);
        assert_eq!(loaded.entries.len(), 6);
    }
}
