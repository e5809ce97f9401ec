//! What a sweep removes, and what it leaves alone.

use std::time::Duration;

use convoke_model::{RetentionPolicy, TaskState};
use convoke_store::{NewTask, Sweep, Viewer};
use uuid::Uuid;

use crate::world::World;

const A_DAY: Duration = Duration::from_hours(24);

fn sweep() -> Sweep {
    Sweep {
        app: "todo".into(),
        policy: RetentionPolicy::default(),
        dry_run: false,
    }
}

fn dry() -> Sweep {
    Sweep {
        dry_run: true,
        ..sweep()
    }
}

pub(crate) async fn a_sweep_never_touches_live_tasks(world: &World) {
    for id in 1..=3 {
        world.submit(world.task(id)).await;
    }
    let done = world.claim_one("w").await;
    world
        .store
        .append(done.fence(), world.batch(TaskState::Completed).into())
        .await
        .unwrap();
    let paused = world.claim_one("w").await;
    world
        .store
        .append(paused.fence(), world.pause(None).into())
        .await
        .unwrap();
    world.clock.advance(6 * A_DAY);
    assert!(world.store.sweep(sweep()).await.unwrap().tasks.is_empty());
    world.clock.advance(365 * A_DAY);
    assert_eq!(
        world.store.sweep(sweep()).await.unwrap().tasks,
        [done.record.id]
    );
    assert!(
        world
            .store
            .load(&Viewer::System, done.record.id, 1)
            .await
            .unwrap()
            .is_none()
    );
    for id in [2, 3] {
        assert!(
            world
                .store
                .load(&Viewer::System, Uuid::from_u128(id), 1)
                .await
                .unwrap()
                .is_some()
        );
    }
}

pub(crate) async fn a_sweep_keeps_children_of_live_parents(world: &World) {
    world.submit(world.task(1)).await;
    let mut child = world.task(2);
    child.parent = Some(Uuid::from_u128(1));
    world.submit(child).await;
    let claimed = world.claim("w", 2).await;
    world
        .store
        .append(claimed[1].fence(), world.batch(TaskState::Completed).into())
        .await
        .unwrap();
    world.clock.advance(365 * A_DAY);
    assert!(world.store.sweep(sweep()).await.unwrap().tasks.is_empty());
    let parent = world.claim_one("w").await;
    world
        .store
        .append(parent.fence(), world.batch(TaskState::Failed).into())
        .await
        .unwrap();
    assert_eq!(
        world.store.sweep(sweep()).await.unwrap().tasks,
        [Uuid::from_u128(2)]
    );
}

pub(crate) async fn a_dry_sweep_removes_nothing(world: &World) {
    let mut task = world.task(1);
    task.conversation = Some(Uuid::from_u128(500));
    let id = world.submit(task).await;
    let claimed = world.claim_one("w").await;
    world
        .store
        .append(claimed.fence(), world.batch(TaskState::Completed).into())
        .await
        .unwrap();
    world.clock.advance(365 * A_DAY);
    assert_eq!(world.store.sweep(dry()).await.unwrap().tasks, [id]);
    assert!(
        world
            .store
            .load(&Viewer::System, id, 1)
            .await
            .unwrap()
            .is_some()
    );
    world.store.sweep(sweep()).await.unwrap();
    let conversation = world
        .store
        .conversation(&Viewer::System, Uuid::from_u128(500), None, 9)
        .await
        .unwrap();
    assert!(
        conversation.is_none(),
        "an empty conversation goes with its last task"
    );
}

pub(crate) async fn a_sweep_touches_no_task_of_another_app(world: &World) {
    let mut ended = Vec::new();
    for (id, app) in [(1, "todo"), (2, "home")] {
        let task = NewTask {
            app: app.into(),
            ..world.task(id)
        };
        ended.push(world.submit(task).await);
    }
    for _ in &ended {
        let claim = convoke_store::Claim {
            worker: "w".into(),
            apps: vec!["todo".into(), "home".into()],
            except: Vec::new(),
            lease: crate::world::LEASE,
            limit: 1,
        };
        let claimed = world.store.claim(claim).await.unwrap().tasks.remove(0);
        let done = world.batch(TaskState::Completed);
        world
            .store
            .append(claimed.fence(), done.into())
            .await
            .unwrap();
    }
    world.clock.advance(365 * A_DAY);
    assert_eq!(
        world.store.sweep(dry()).await.unwrap().tasks,
        [Uuid::from_u128(1)]
    );
    let swept = world.store.sweep(sweep()).await.unwrap();
    assert_eq!(swept.tasks, [Uuid::from_u128(1)]);
    let other = world
        .store
        .load(&Viewer::System, ended[1], 1)
        .await
        .unwrap();
    assert!(other.is_some(), "its own app says how long it is kept");
}

pub(crate) async fn a_sweep_goes_through_more_than_one_group(world: &World) {
    // A group is 500 ended tasks.
    for id in 1..=900 {
        world.submit(world.task(id)).await;
    }
    // Every third is still open, so that groups are not of one kind.
    for (claimed, place) in world.claim("w", 900).await.iter().zip(0..) {
        if place % 3 > 0 {
            let done = world.batch(TaskState::Completed);
            world
                .store
                .append(claimed.fence(), done.into())
                .await
                .unwrap();
        }
    }
    world.clock.advance(365 * A_DAY);
    assert_eq!(world.store.sweep(dry()).await.unwrap().tasks.len(), 600);
    assert_eq!(world.store.sweep(sweep()).await.unwrap().tasks.len(), 600);
    assert!(world.store.sweep(sweep()).await.unwrap().tasks.is_empty());
}
