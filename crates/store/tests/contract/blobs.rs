//! Large values beside the journal: kept once, seen through a task, gone with the last one.

use std::sync::Arc;
use std::time::Duration;

use convoke_model::{BlobHash, Clock, Message, Part, RetentionPolicy, TaskState};
use convoke_store::{Blob, BlobInfo, NewMessage, NewTask, StoreError, Sweep, Viewer};
use uuid::Uuid;

use crate::world::{ANN, BEN, World};

/// More than two chunks of any backend, and no two of them alike.
fn large() -> Blob {
    let content: Vec<u8> = (0..700_000_u32).flat_map(u32::to_le_bytes).collect();
    blob(&content)
}

fn blob(content: &[u8]) -> Blob {
    Blob::new(content.into(), u64::MAX).unwrap()
}

async fn content(world: &World, viewer: &Viewer, task: Uuid, hash: BlobHash) -> Option<Vec<u8>> {
    let found = world.store.blob(viewer, task, hash, 0..u64::MAX).await;
    found.unwrap().map(|found| found.content)
}

/// A message that carries a blob.
fn carrying(world: &World, info: BlobInfo) -> NewMessage {
    let message = Message::user("see the list", world.clock.now()).unwrap();
    let message = message.with(|message| {
        message.parts = vec![Part::File {
            name: "list.csv".into(),
            media_type: "text/csv".into(),
            blob: info.hash,
            bytes: info.bytes,
        }];
    });
    NewMessage::in_conversation(&message.unwrap())
}

async fn end(world: &World) {
    let claimed = world.claim_one("w").await;
    let done = world.batch(TaskState::Completed);
    world
        .store
        .append(claimed.fence(), done.into())
        .await
        .unwrap();
}

async fn sweep_one(world: &World) {
    world.clock.advance(Duration::from_hours(24 * 365));
    let sweep = Sweep {
        app: "todo".into(),
        policy: RetentionPolicy::default(),
        dry_run: false,
    };
    assert_eq!(world.store.sweep(sweep).await.unwrap().tasks.len(), 1);
}

pub(crate) async fn a_blob_is_read_back_whole_and_by_range(world: &World) {
    let id = world.submit(world.task(1)).await;
    let large = large();
    let (hash, whole) = (large.hash(), Arc::clone(large.content()));
    assert!(
        world
            .store
            .put_blob(&Viewer::System, id, large)
            .await
            .unwrap()
    );
    let length = whole.len();
    let ends = length as u64;
    let ranges = [
        0..ends,
        0..u64::MAX,
        0..1,
        262_143..262_145,
        300_000..900_001,
        ends - 1..ends,
        ends..ends + 5,
        7..7,
    ];
    for range in ranges {
        let found = world
            .store
            .blob(&Viewer::System, id, hash, range.clone())
            .await
            .unwrap()
            .unwrap();
        let place = |at: u64| usize::try_from(at).unwrap_or(length).min(length);
        let expected = &whole[place(range.start)..place(range.end)];
        assert!(found.content == expected, "{range:?}");
        assert_eq!(found.bytes, ends);
    }
    let infos = world.store.blobs(&Viewer::System, id).await.unwrap();
    assert_eq!(infos, [BlobInfo { hash, bytes: ends }]);
    let empty = blob(b"");
    let hash = empty.hash();
    world
        .store
        .put_blob(&Viewer::System, id, empty)
        .await
        .unwrap();
    assert_eq!(
        content(world, &Viewer::System, id, hash).await,
        Some(vec![])
    );
}

pub(crate) async fn a_blob_is_seen_only_through_a_task_that_names_it(world: &World) {
    let anns = world.submit(world.task(1)).await;
    let bens = NewTask {
        owner: BEN,
        ..world.task(2)
    };
    let bens = world.submit(bens).await;
    let (ann, ben) = (Viewer::user(ANN, "todo"), Viewer::user(BEN, "todo"));
    let secret = blob(b"ann's secret");
    let hash = secret.hash();
    let foreign = world.store.put_blob(&ben, anns, secret.clone()).await;
    assert!(!foreign.unwrap(), "the task is not there for ben");
    assert_eq!(content(world, &Viewer::System, anns, hash).await, None);
    assert!(world.store.put_blob(&ann, anns, secret).await.unwrap());
    for (viewer, task) in [(&ben, anns), (&ben, bens), (&ann, bens)] {
        assert_eq!(content(world, viewer, task, hash).await, None);
    }
    let elsewhere = Viewer::operator("home");
    assert_eq!(content(world, &elsewhere, anns, hash).await, None);
    assert!(world.store.blobs(&ben, anns).await.unwrap().is_empty());
    for viewer in [&ann, &Viewer::operator("todo"), &Viewer::System] {
        assert!(content(world, viewer, anns, hash).await.is_some());
    }
    let unknown = blob(b"unknown").hash();
    assert_eq!(content(world, &ann, anns, unknown).await, None);
}

pub(crate) async fn a_message_names_the_blobs_of_its_owner_and_of_nobody_else(world: &World) {
    let attached = blob(b"milk,2");
    let info = attached.info();
    let with_message = |id| NewTask {
        messages: vec![carrying(world, info)],
        ..world.task(id)
    };
    let first = NewTask {
        blobs: vec![attached],
        ..with_message(1)
    };
    let first = world.submit(first).await;
    let second = world.submit(with_message(2)).await;
    let foreign = NewTask {
        owner: BEN,
        ..with_message(3)
    };
    let foreign = world.submit(foreign).await;
    let other_app = NewTask {
        app: "home".into(),
        ..with_message(4)
    };
    let other_app = world.submit(other_app).await;
    let at = |task| content(world, &Viewer::System, task, info.hash);
    assert_eq!(at(first).await.unwrap(), b"milk,2");
    assert_eq!(at(second).await.unwrap(), b"milk,2");
    assert_eq!(at(foreign).await, None, "a hash is no key to its content");
    assert_eq!(at(other_app).await, None);
    // A message that is appended does the same.
    let third = world.submit(world.task(5)).await;
    let claimed = world.claim("w", 5).await;
    let claimed = claimed.iter().find(|claimed| claimed.record.id == third);
    let mut batch = world.batch(TaskState::Working);
    batch.messages = vec![carrying(world, info)];
    batch.standing = None;
    let fence = claimed.unwrap().fence();
    world.store.append(fence, batch.into()).await.unwrap();
    assert_eq!(at(third).await.unwrap(), b"milk,2");
}

pub(crate) async fn a_blob_goes_with_the_last_task_that_names_it(world: &World) {
    let shared = blob(b"shared");
    let own = blob(b"own");
    let (hash, own_hash) = (shared.hash(), own.hash());
    let first = world.submit(world.task(1)).await;
    for blob in [&shared, &own, &own] {
        world
            .store
            .put_blob(&Viewer::System, first, blob.clone())
            .await
            .unwrap();
    }
    assert_eq!(
        world
            .store
            .blobs(&Viewer::System, first)
            .await
            .unwrap()
            .len(),
        2
    );
    end(world).await;
    let second = world.submit(world.task(2)).await;
    world
        .store
        .put_blob(&Viewer::System, second, shared.clone())
        .await
        .unwrap();
    sweep_one(world).await;
    assert!(
        content(world, &Viewer::System, second, hash)
            .await
            .is_some()
    );
    assert_eq!(content(world, &Viewer::System, first, own_hash).await, None);
    end(world).await;
    sweep_one(world).await;
    // Whoever names it now finds nothing that was left behind.
    let third = NewTask {
        messages: vec![carrying(world, shared.info())],
        ..world.task(3)
    };
    let third = world.submit(third).await;
    assert_eq!(content(world, &Viewer::System, third, hash).await, None);
}

pub(crate) async fn a_task_moves_with_its_blobs(world: &World) {
    let large = large();
    let task = NewTask {
        messages: vec![carrying(world, large.info())],
        blobs: vec![large.clone()],
        ..world.task(1)
    };
    let id = world.submit(task).await;
    let taken = world.store.take_out(&Viewer::System, id).await.unwrap();
    let taken = taken.unwrap();
    assert_eq!(taken.blobs, std::slice::from_ref(&large));
    for other in [World::sqlite(), World::memory()] {
        other.store.bring_in(taken.clone(), None).await.unwrap();
        let again = other.store.take_out(&Viewer::System, id).await.unwrap();
        assert_eq!(again.unwrap(), taken);
        let found = content(&other, &Viewer::user(ANN, "todo"), id, large.hash()).await;
        assert!(found.unwrap() == **large.content());
    }
}

pub(crate) async fn a_blob_that_is_too_large_is_refused_by_name(world: &World) {
    let at_the_limit = Blob::new(vec![0; 10].into(), 10).unwrap();
    let id = world.submit(world.task(1)).await;
    let put = world.store.put_blob(&Viewer::System, id, at_the_limit);
    assert!(put.await.unwrap());
    let refused = Blob::new(vec![0; 11].into(), 10).unwrap_err();
    let expected = StoreError::BlobTooLarge {
        bytes: 11,
        limit_bytes: 10,
    };
    assert_eq!(refused, expected);
    assert_eq!(refused.code(), "store.blob_too_large");
}
