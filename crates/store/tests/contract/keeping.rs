//! What the port promises of definitions, and of tasks that move from one store to another.

use std::sync::Arc;
use std::time::Duration;

use convoke_model::{RetentionPolicy, TaskState};
use convoke_store::{
    Claim, Definition, Filter, Imported, NewSignal, Page, SignalKind, SignalReceipt, StateWriter,
    Sweep, Viewer,
};
use serde_json::json;
use uuid::Uuid;

use crate::world::{LEASE, World, definition, said};

pub(crate) async fn a_definition_is_stored_while_a_task_names_it(world: &World) {
    let mut old = world.task(1);
    old.definition = definition("old");
    world.submit(old).await;
    let mut live = world.task(2);
    live.definition = definition("live");
    world.submit(live).await;
    let found = world.store.definition("old").await.unwrap();
    assert_eq!(found.as_ref(), Some(&*definition("old")));
    assert_eq!(world.store.definition("none").await.unwrap(), None);

    let claimed = world.claim_one("w").await;
    let batch = world.batch(TaskState::Completed);
    world
        .store
        .append(claimed.fence(), batch.into())
        .await
        .unwrap();
    world.clock.advance(Duration::from_hours(24 * 8));
    let sweep = |dry_run| Sweep {
        app: "todo".into(),
        policy: RetentionPolicy::default(),
        dry_run,
    };
    world.store.sweep(sweep(true)).await.unwrap();
    assert!(world.store.definition("old").await.unwrap().is_some());
    world.store.sweep(sweep(false)).await.unwrap();
    assert_eq!(world.store.definition("old").await.unwrap(), None);
    assert!(world.store.definition("live").await.unwrap().is_some());
}

pub(crate) async fn what_a_worker_cannot_run_it_does_not_claim(world: &World) {
    let mut old = world.task(1);
    old.definition = definition("old");
    world.submit(old).await;
    let new = world.submit(world.task(2)).await;
    let claim = Claim {
        worker: "w".into(),
        apps: vec!["todo".into()],
        except: vec!["old".into()],
        lease: LEASE,
        limit: 10,
    };
    let claimed = world.store.claim(claim).await.unwrap().tasks;
    let ids: Vec<Uuid> = claimed.iter().map(|claimed| claimed.record.id).collect();
    assert_eq!(ids, [new]);
}

/// A task in a conversation, with a signal taken in and one that waits, paused for a day.
async fn paused(world: &World) -> Uuid {
    let mut task = world.task(1);
    task.key = Some("k".into());
    task.conversation = Some(Uuid::from_u128(7));
    task.tags = vec!["critical".into()];
    let id = world.submit(task).await;
    let signal = |key: &str| NewSignal {
        task: id,
        kind: SignalKind::Answer,
        payload: json!({ "confidence": 0.123_456_789_012_345_67 }),
        key: key.into(),
    };
    world
        .store
        .signal(&Viewer::System, signal("first"))
        .await
        .unwrap();
    let claimed = world.claim_one("w").await;
    let mut batch = world.pause(Some(Duration::from_hours(24)));
    batch.consumed = vec![claimed.signals[0].id];
    let at = convoke_model::Clock::now(&*world.clock);
    batch.messages = vec![said("and then?", at)];
    world
        .store
        .append(claimed.fence(), batch.into())
        .await
        .unwrap();
    world
        .store
        .signal(&Viewer::System, signal("second"))
        .await
        .unwrap();
    id
}

pub(crate) async fn a_task_that_is_taken_out_and_brought_in_is_the_same(world: &World) {
    let id = paused(world).await;
    let taken = world
        .store
        .take_out(&Viewer::System, id)
        .await
        .unwrap()
        .unwrap();
    assert_eq!((taken.entries.len(), taken.signals.len()), (2, 2));
    assert_eq!(taken.messages.len(), 2);
    assert!(taken.conversation.is_some());
    let other = World::sqlite();
    let kept = world.store.definition("d1").await.unwrap();
    let brought_in = other.store.bring_in(taken.clone(), kept).await.unwrap();
    assert_eq!(brought_in, Imported::Created);
    let again = other
        .store
        .take_out(&Viewer::System, id)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(again, taken);
    assert!(other.store.definition("d1").await.unwrap().is_some());
    // And back again, into a store of this kind.
    let back = World::memory();
    back.store.bring_in(again, None).await.unwrap();
    assert_eq!(
        back.store
            .take_out(&Viewer::System, id)
            .await
            .unwrap()
            .unwrap(),
        taken
    );
    assert_eq!(
        world
            .store
            .take_out(&Viewer::System, Uuid::max())
            .await
            .unwrap(),
        None
    );
}

pub(crate) async fn a_task_that_is_there_already_is_not_brought_in(world: &World) {
    let id = paused(world).await;
    let mut taken = world
        .store
        .take_out(&Viewer::System, id)
        .await
        .unwrap()
        .unwrap();
    taken.record.description = "changed".into();
    let brought_in = world.store.bring_in(taken.clone(), None).await.unwrap();
    assert_eq!(brought_in, Imported::Existing);
    // The owner's key stands for one task, whatever its id.
    taken.record.id = Uuid::from_u128(2);
    let brought_in = world.store.bring_in(taken, None).await.unwrap();
    assert_eq!(brought_in, Imported::Existing);
    let page = world
        .store
        .query(&Viewer::System, Filter::default(), Page::default())
        .await;
    let tasks = page.unwrap().tasks;
    assert_eq!(tasks.len(), 1);
    assert_eq!(tasks[0].description, "task 1");
}

pub(crate) async fn a_task_brought_in_goes_on_where_it_stood(world: &World) {
    let source = World::memory();
    let id = paused(&source).await;
    let taken = source
        .store
        .take_out(&Viewer::System, id)
        .await
        .unwrap()
        .unwrap();
    world.store.bring_in(taken, None).await.unwrap();
    world.clock.advance(Duration::from_secs(1));
    let claimed = world.claim_one("w").await;
    assert_eq!((claimed.record.id, claimed.record.seq), (id, 2));
    assert_eq!(claimed.signals.len(), 1);
    // A key that was used before is used.
    let again = NewSignal {
        task: id,
        kind: SignalKind::Answer,
        payload: json!({}),
        key: "first".into(),
    };
    let signalled = world.store.signal(&Viewer::System, again).await.unwrap();
    assert_eq!(signalled, SignalReceipt::Duplicate);
    let batch = world.batch(TaskState::Completed);
    assert_eq!(
        world.store.append(claimed.fence(), batch.into()).await,
        Ok(3)
    );
}

/// Brings a task into a store, with what it was begun with.
async fn bring_in(world: &World, definition: &Definition) {
    let source = World::memory();
    let id = paused(&source).await;
    let taken = source
        .store
        .take_out(&Viewer::System, id)
        .await
        .unwrap()
        .unwrap();
    let definition = Some(definition.clone());
    let brought_in = world.store.bring_in(taken, definition).await.unwrap();
    assert_eq!(brought_in, Imported::Created);
}

async fn is_trusted(world: &World, hash: &str) -> bool {
    let kept = world.store.definition(hash).await.unwrap();
    kept.unwrap().trusted
}

pub(crate) async fn an_imported_definition_is_trusted_after_trust(world: &World) {
    assert!(!world.store.trust("d1").await.unwrap(), "there is none yet");
    bring_in(world, &definition("d1")).await;
    assert!(!is_trusted(world, "d1").await, "whatever it says itself");
    assert!(!world.store.trust("other").await.unwrap());
    assert!(!is_trusted(world, "d1").await);
    assert!(world.store.trust("d1").await.unwrap());
    assert!(is_trusted(world, "d1").await);
    assert!(
        world.store.trust("d1").await.unwrap(),
        "once more is no harm"
    );
}

pub(crate) async fn a_trusted_definition_takes_the_place_of_one_that_is_not(world: &World) {
    let mut foreign = (*definition("d1")).clone();
    foreign
        .files
        .insert("agents/a.yaml".into(), "theirs".into());
    bring_in(world, &foreign).await;
    let kept = world.store.definition("d1").await.unwrap().unwrap();
    assert_eq!((&kept.files, kept.trusted), (&foreign.files, false));
    world.submit(world.task(2)).await;
    let kept = world.store.definition("d1").await.unwrap();
    assert_eq!(kept.as_ref(), Some(&*definition("d1")));

    // The other way round, what is its user's stays.
    let own = World::memory();
    own.submit(own.task(2)).await;
    bring_in(&own, &foreign).await;
    let kept = own.store.definition("d1").await.unwrap();
    assert_eq!(kept.as_ref(), Some(&*definition("d1")));
}

pub(crate) async fn a_task_of_an_untrusted_definition_does_not_make_it_trusted(world: &World) {
    bring_in(world, &definition("d1")).await;
    let mut fork = world.task(2);
    let kept = world.store.definition("d1").await.unwrap().unwrap();
    fork.definition = Arc::new(kept);
    world.submit(fork).await;
    assert!(!is_trusted(world, "d1").await);
}

/// A state that grows with every step, and is long from the first on.
fn long_state(step: u64) -> String {
    let done: Vec<u64> = (0..2_000 + step).collect();
    json!({ "status": "working", "step": step, "done": done }).to_string()
}

pub(crate) async fn a_long_state_is_read_back_at_every_point(world: &World) {
    const STEPS: u64 = 80;
    let mut states = StateWriter::default();
    let mut task = world.task(1);
    task.entry.state = states.write_text(long_state(1));
    let id = world.submit(task).await;
    let mut fence = world.claim_one("w").await.fence();
    let mut written = 0;
    for step in 2..=STEPS {
        let mut batch = world.batch(TaskState::Working);
        batch.entries[0].state = states.write_text(long_state(step));
        written += batch.entries[0].state.len();
        fence.seq = world.store.append(fence, batch.into()).await.unwrap();
    }
    assert!(
        written < 10 * long_state(STEPS).len(),
        "{written} bytes are more than what changed"
    );
    for from in [1, 2, 17, STEPS - 1, STEPS] {
        let loaded = world
            .store
            .load(&Viewer::System, id, from)
            .await
            .unwrap()
            .unwrap();
        assert_eq!(loaded.entries.len() as u64, STEPS - from + 1);
        for entry in &loaded.entries {
            assert_eq!(
                entry.state.as_str(),
                long_state(entry.seq),
                "entry {}",
                entry.seq
            );
        }
    }
    let (_, newest) = world
        .store
        .newest(&Viewer::System, id)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(newest.state.as_str(), long_state(STEPS));
    world.clock.advance(LEASE);
    let claimed = world.claim_one("other").await;
    assert_eq!(claimed.entry.state.as_str(), long_state(STEPS));
    // Whoever goes on knows only the newest state, which is enough to write the next.
    let mut states = StateWriter::after(&claimed.entry.state);
    let mut batch = world.batch(TaskState::Working);
    batch.entries[0].state = states.write_text(long_state(STEPS + 1));
    assert!(batch.entries[0].state.len() < 200);
    world
        .store
        .append(claimed.fence(), batch.into())
        .await
        .unwrap();
    let taken = world
        .store
        .take_out(&Viewer::System, id)
        .await
        .unwrap()
        .unwrap();
    let other = World::sqlite();
    other.store.bring_in(taken.clone(), None).await.unwrap();
    let again = other
        .store
        .take_out(&Viewer::System, id)
        .await
        .unwrap()
        .unwrap();
    assert!(
        again.entries == taken.entries,
        "what was brought in is what was taken out"
    );
    assert_eq!(
        taken.entries.last().unwrap().state.as_str(),
        long_state(STEPS + 1)
    );
}
