//! What a viewer cannot see is missing: every read and every signal, one promise a method.

use convoke_model::{Channel, TaskState};
use convoke_store::{
    Filter, NewSignal, Page, SignalKind, SignalReceipt, Store, Submission, Viewer,
};
use serde_json::json;
use uuid::Uuid;

use crate::world::{ANN, BEN, World};

const CONVERSATION: Uuid = Uuid::from_u128(100);

/// Everybody who must not see a task that Ann gave to the app `todo`.
fn strangers() -> [Viewer; 3] {
    [
        Viewer::user(BEN, "todo"),
        Viewer::user(ANN, "home"),
        Viewer::operator("home"),
    ]
}

/// Everybody who sees it.
fn insiders() -> [Viewer; 3] {
    [
        Viewer::user(ANN, "todo"),
        Viewer::operator("todo"),
        Viewer::System,
    ]
}

async fn anns_task(world: &World) -> Uuid {
    let mut task = world.task(1);
    task.conversation = Some(CONVERSATION);
    world.submit(task).await
}

/// How much of a task each read gives a viewer.
async fn reads(store: &dyn Store, viewer: &Viewer, task: Uuid) -> Vec<(&'static str, usize)> {
    vec![
        (
            "task",
            store.task(viewer, task).await.unwrap().iter().count(),
        ),
        (
            "newest",
            store.newest(viewer, task).await.unwrap().iter().count(),
        ),
        (
            "load",
            store.load(viewer, task, 1).await.unwrap().iter().count(),
        ),
        (
            "entries",
            store.entries(viewer, task, 1..=9).await.unwrap().len(),
        ),
        (
            "events",
            store.events(viewer, task, 1..=9).await.unwrap().len(),
        ),
        ("signals", store.signals(viewer, task).await.unwrap().len()),
        (
            "take_out",
            store.take_out(viewer, task).await.unwrap().iter().count(),
        ),
    ]
}

fn cancel(task: Uuid, key: &str) -> NewSignal {
    NewSignal {
        task,
        kind: SignalKind::Cancel,
        payload: json!({}),
        key: key.into(),
    }
}

pub(crate) async fn a_task_of_another_user_or_app_is_missing_for_every_read(world: &World) {
    let id = anns_task(world).await;
    let signalled = world.store.signal(&Viewer::System, cancel(id, "k")).await;
    assert_eq!(signalled, Ok(SignalReceipt::Accepted));
    for viewer in insiders() {
        for (read, found) in reads(&*world.store, &viewer, id).await {
            assert_eq!(found, 1, "{viewer:?} {read}");
        }
    }
    for viewer in strangers() {
        for (read, found) in reads(&*world.store, &viewer, id).await {
            assert_eq!(found, 0, "{viewer:?} {read}");
        }
    }
}

pub(crate) async fn a_task_of_another_user_or_app_takes_no_signal(world: &World) {
    let id = anns_task(world).await;
    for viewer in strangers() {
        let receipt = world.store.signal(&viewer, cancel(id, "stranger")).await;
        assert_eq!(receipt, Ok(SignalReceipt::Unknown), "{viewer:?}");
    }
    assert!(
        world
            .store
            .signals(&Viewer::System, id)
            .await
            .unwrap()
            .is_empty()
    );
    for (number, viewer) in insiders().into_iter().enumerate() {
        let receipt = world
            .store
            .signal(&viewer, cancel(id, &number.to_string()))
            .await;
        assert_eq!(receipt, Ok(SignalReceipt::Accepted), "{viewer:?}");
    }
}

pub(crate) async fn a_conversation_of_another_user_or_app_is_missing(world: &World) {
    anns_task(world).await;
    for viewer in insiders() {
        let found = world
            .store
            .conversation(&viewer, CONVERSATION, None, 9)
            .await;
        assert_eq!(found.unwrap().unwrap().messages.len(), 1, "{viewer:?}");
        assert_eq!(
            world
                .store
                .conversations(&viewer, None, 9)
                .await
                .unwrap()
                .len(),
            1
        );
    }
    for viewer in strangers() {
        let found = world
            .store
            .conversation(&viewer, CONVERSATION, None, 9)
            .await;
        assert_eq!(found.unwrap(), None, "{viewer:?}");
        assert!(
            world
                .store
                .conversations(&viewer, None, 9)
                .await
                .unwrap()
                .is_empty()
        );
    }
}

/// Three tasks of each of two users with each of two apps, of which one has begun.
async fn twelve_tasks(world: &World) {
    let mut id = 0;
    for app in ["todo", "home"] {
        for owner in [ANN, BEN] {
            for _ in 0..3 {
                id += 1;
                let mut task = world.task(id);
                (task.owner, task.app, task.channel) = (owner, app.into(), Channel::Http);
                let submitted = world.store.submit(task).await;
                assert!(matches!(submitted, Ok(Submission::Created { .. })));
            }
        }
    }
    world.claim_one("w").await;
}

async fn sees(world: &World, viewer: &Viewer, filter: Filter) -> usize {
    let counted = world.store.count(viewer, filter.clone(), 99).await.unwrap();
    let listed = world.store.query(viewer, filter, Page::default()).await;
    assert_eq!(listed.unwrap().tasks.len(), counted, "{viewer:?}");
    counted
}

pub(crate) async fn lists_and_counts_hold_what_the_viewer_sees(world: &World) {
    twelve_tasks(world).await;
    let all = Filter::default;
    assert_eq!(sees(world, &Viewer::System, all()).await, 12);
    assert_eq!(sees(world, &Viewer::operator("todo"), all()).await, 6);
    assert_eq!(sees(world, &Viewer::user(ANN, "todo"), all()).await, 3);
    assert_eq!(sees(world, &Viewer::user(ANN, "other"), all()).await, 0);
    let begun = Filter {
        states: vec![TaskState::Working],
        ..all()
    };
    assert_eq!(
        sees(world, &Viewer::user(ANN, "todo"), begun.clone()).await,
        1
    );
    assert_eq!(sees(world, &Viewer::user(BEN, "todo"), begun).await, 0);
}

pub(crate) async fn an_operator_sees_all_of_one_app_and_nothing_of_another(world: &World) {
    twelve_tasks(world).await;
    // A filter narrows what is seen and never widens it.
    for foreign in [
        Filter {
            app: Some("home".into()),
            ..Filter::default()
        },
        Filter {
            app: Some("home".into()),
            owner: Some(ANN),
            ..Filter::default()
        },
    ] {
        assert_eq!(sees(world, &Viewer::operator("todo"), foreign).await, 0);
    }
    let bens = Filter {
        owner: Some(BEN),
        ..Filter::default()
    };
    assert_eq!(
        sees(world, &Viewer::operator("todo"), bens.clone()).await,
        3
    );
    assert_eq!(sees(world, &Viewer::user(ANN, "todo"), bens).await, 0);
}
