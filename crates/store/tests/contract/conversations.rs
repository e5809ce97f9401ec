//! Conversations: whose they are, with which app, what was said, and whose turn it is.

use std::sync::Arc;
use std::time::Duration;

use convoke_model::{Clock, TaskState};
use convoke_store::{
    ClaimedTask, ConversationRecord, Deletion, Filter, Lease, NewSignal, NewTask, Page, SignalKind,
    StoreError, Submission, Viewer,
};
use serde_json::json;
use uuid::Uuid;

use crate::world::{ANN, BEN, LEASE, World, said};

const CONVERSATION: Uuid = Uuid::from_u128(500);

fn ids(claimed: &[ClaimedTask]) -> Vec<u128> {
    let ids = claimed.iter().map(|claimed| claimed.record.id.as_u128());
    ids.collect()
}

fn in_conversation(world: &World, id: u128) -> NewTask {
    NewTask {
        conversation: Some(CONVERSATION),
        ..world.task(id)
    }
}

async fn end(world: &World, claimed: &ClaimedTask) {
    let batch = world.batch(TaskState::Completed);
    world
        .store
        .append(claimed.fence(), batch.into())
        .await
        .unwrap();
}

async fn wait_for_person(world: &World, claimed: &ClaimedTask) {
    let pause = world.pause(None);
    world
        .store
        .append(claimed.fence(), pause.into())
        .await
        .unwrap();
}

async fn answer(world: &World, task: u128) {
    let signal = NewSignal {
        task: Uuid::from_u128(task),
        kind: SignalKind::Answer,
        payload: json!({}),
        key: "a".into(),
    };
    world.store.signal(&Viewer::System, signal).await.unwrap();
}

pub(crate) async fn one_conversation_is_worked_on_in_order_one_at_a_time(world: &World) {
    let conversation = Uuid::from_u128(500);
    for id in 1..=3 {
        let mut task = world.task(id);
        task.conversation = Some(conversation);
        world.submit(task).await;
    }
    world.submit(world.task(4)).await;
    let first = world.claim("w", 9).await;
    assert_eq!(ids(&first), [1, 4]);
    world
        .store
        .append(first[0].fence(), world.batch(TaskState::Completed).into())
        .await
        .unwrap();
    let second = world.claim("w", 9).await;
    assert_eq!(ids(&second), [2]);
    // A task that waits for a person does not hold up the conversation.
    world
        .store
        .append(second[0].fence(), world.pause(None).into())
        .await
        .unwrap();
    assert_eq!(ids(&world.claim("w", 9).await), [3]);
}

pub(crate) async fn a_foreign_conversation_is_refused(world: &World) {
    let conversation = Uuid::from_u128(500);
    let mut mine = world.task(1);
    mine.conversation = Some(conversation);
    world.submit(mine).await;
    let mut theirs = world.task(2);
    theirs.conversation = Some(conversation);
    theirs.owner = BEN;
    let refused = world.store.submit(theirs).await;
    assert_eq!(
        refused,
        Err(StoreError::ForeignConversation { conversation })
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

pub(crate) async fn a_conversation_holds_what_was_spoken_before_a_task(world: &World) {
    let conversation = Uuid::from_u128(500);
    for id in 1..=2 {
        let mut task = world.task(id);
        task.conversation = Some(conversation);
        world.submit(task).await;
    }
    let claimed = world.claim_one("w").await;
    world.clock.advance(Duration::from_secs(5));
    let mut batch = world.batch(TaskState::Completed);
    batch.messages = vec![said("answer 1", world.clock.now())];
    let mut silent = said("not spoken", world.clock.now());
    silent.in_conversation = false;
    batch.messages.push(silent);
    world
        .store
        .append(claimed.fence(), batch.into())
        .await
        .unwrap();

    let texts = |record: &convoke_store::ConversationRecord| {
        record
            .messages
            .iter()
            .map(|message| message.content.clone())
            .collect::<Vec<_>>()
    };
    let all = world
        .store
        .conversation(&Viewer::System, conversation, None, 50)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(texts(&all), ["hello 1", "answer 1", "hello 2"]);
    assert_eq!(
        (all.owner, all.older, all.updated_at),
        (ANN, 0, world.clock.now())
    );
    let before = Some(Uuid::from_u128(2));
    let earlier = world
        .store
        .conversation(&Viewer::System, conversation, before, 50)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(texts(&earlier), ["hello 1", "answer 1"]);
    let newest = world
        .store
        .conversation(&Viewer::System, conversation, None, 1)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        (texts(&newest), newest.older),
        (vec!["hello 2".to_owned()], 2)
    );
    assert!(
        world
            .store
            .conversation(&Viewer::System, Uuid::from_u128(9), None, 1)
            .await
            .unwrap()
            .is_none()
    );
    assert_eq!(
        world
            .store
            .conversations(&Viewer::user(ANN, "todo"), None, 9)
            .await
            .unwrap()
            .len(),
        1
    );
    assert!(
        world
            .store
            .conversations(&Viewer::user(BEN, "todo"), None, 9)
            .await
            .unwrap()
            .is_empty()
    );
}

pub(crate) async fn an_answered_task_waits_while_a_later_one_is_at_work(world: &World) {
    world.submit(in_conversation(world, 1)).await;
    world.submit(in_conversation(world, 2)).await;
    wait_for_person(world, &world.claim_one("w").await).await;
    let later = world.claim_one("w").await;
    assert_eq!(later.record.id, Uuid::from_u128(2));
    answer(world, 1).await;
    assert!(world.claim("w", 9).await.is_empty(), "one at a time");
    end(world, &later).await;
    assert_eq!(ids(&world.claim("w", 9).await), [1], "then it is its turn");
}

pub(crate) async fn an_answered_task_comes_before_later_ones_that_have_not_started(world: &World) {
    for id in 1..=2 {
        world.submit(in_conversation(world, id)).await;
    }
    wait_for_person(world, &world.claim_one("w").await).await;
    answer(world, 1).await;
    // Neither one claim of several nor a worker that would hold a new task at once takes two.
    let mut new = in_conversation(world, 3);
    new.hold = Some(Lease {
        worker: "w".into(),
        time: LEASE,
    });
    let submitted = world.store.submit(new).await.unwrap();
    assert!(matches!(submitted, Submission::Created { held: false, .. }));
    let claimed = world.claim("w", 9).await;
    assert_eq!(ids(&claimed), [1]);
    // Claimed, it still stands as one that waits, and holds up the others all the same.
    assert_eq!(claimed[0].record.status, TaskState::InputRequired);
    assert!(world.claim("w", 9).await.is_empty());
    end(world, &claimed[0]).await;
    assert_eq!(ids(&world.claim("w", 9).await), [2]);
}

pub(crate) async fn a_task_whose_worker_died_goes_on_before_an_answered_one(world: &World) {
    world.submit(in_conversation(world, 1)).await;
    world.submit(in_conversation(world, 2)).await;
    wait_for_person(world, &world.claim_one("w").await).await;
    assert_eq!(ids(&world.claim("w", 9).await), [2]);
    answer(world, 1).await;
    world.clock.advance(LEASE);
    let claimed = world.claim("v", 9).await;
    assert_eq!(ids(&claimed), [2]);
    end(world, &claimed[0]).await;
    assert_eq!(ids(&world.claim("v", 9).await), [1]);
}

pub(crate) async fn a_conversation_belongs_to_one_app(world: &World) {
    world.submit(in_conversation(world, 1)).await;
    let other = NewTask {
        app: "home".into(),
        ..in_conversation(world, 2)
    };
    assert_eq!(
        world.store.submit(other).await,
        Err(StoreError::ForeignConversation {
            conversation: CONVERSATION
        })
    );
    let kept = world
        .store
        .conversation(&Viewer::System, CONVERSATION, None, 9)
        .await;
    let kept = kept.unwrap().unwrap();
    assert_eq!((kept.app.as_str(), kept.messages.len()), ("todo", 1));
    let with = async |app: &str| {
        let listed = world
            .store
            .conversations(&Viewer::user(ANN, app), None, 9)
            .await;
        listed.unwrap().len()
    };
    assert_eq!((with("todo").await, with("home").await), (1, 0));
}

pub(crate) async fn a_key_belongs_to_one_app(world: &World) {
    let keyed = |id, app: &str| NewTask {
        key: Some("k".into()),
        app: app.into(),
        ..world.task(id)
    };
    world.submit(keyed(1, "todo")).await;
    world.submit(keyed(2, "home")).await;
    let again = world.store.submit(keyed(3, "home")).await;
    assert_eq!(again, Ok(Submission::Existing(Uuid::from_u128(2))));
}

pub(crate) async fn the_same_key_with_another_request_is_refused(world: &World) {
    let keyed = |id, fingerprint: Option<&str>| NewTask {
        key: Some("k".into()),
        fingerprint: fingerprint.map(str::to_owned),
        ..world.task(id)
    };
    let task = world.submit(keyed(1, Some("milk"))).await;
    let same = world.store.submit(keyed(2, Some("milk"))).await;
    assert_eq!(same, Ok(Submission::Existing(task)));
    let other = world.store.submit(keyed(3, Some("bread"))).await;
    assert_eq!(other, Err(StoreError::KeyReused { task }));
    assert_eq!(
        world.claim("w", 9).await.len(),
        1,
        "what was refused is not there"
    );
    // Whoever gives no fingerprint, such as a parent that asks its child again, gets the task.
    let unknown = world.store.submit(keyed(4, None)).await;
    assert_eq!(unknown, Ok(Submission::Existing(task)));
}

pub(crate) async fn a_conversations_update_time_is_that_of_its_last_message(world: &World) {
    world.submit(in_conversation(world, 1)).await;
    let held = world.claim("w", 1).await.remove(0);
    let updated_at = async || {
        let found = world
            .store
            .conversation(&Viewer::System, CONVERSATION, None, 0)
            .await;
        found.unwrap().unwrap().updated_at
    };
    let begun = world.clock.now();
    world.clock.advance(Duration::from_mins(1));
    // A step that says nothing, and one that does no more than say something.
    let mut fence = held.fence();
    let mut silent = world.batch(TaskState::Working);
    silent.standing = None;
    fence.seq = world.store.append(fence, Arc::new(silent)).await.unwrap();
    assert_eq!(updated_at().await, begun);
    let mut speaking = world.batch(TaskState::Working);
    speaking.standing = None;
    speaking.messages = vec![said("hello", world.clock.now())];
    world.store.append(fence, Arc::new(speaking)).await.unwrap();
    assert_eq!(updated_at().await, world.clock.now());
}

pub(crate) async fn conversations_are_listed_in_pages(world: &World) {
    for id in 1..=5 {
        // Two of them within one millisecond.
        if id != 3 {
            world.clock.advance(Duration::from_millis(1));
        }
        let task = NewTask {
            conversation: Some(Uuid::from_u128(100 + id)),
            ..world.task(id)
        };
        world.submit(task).await;
    }
    let viewer = Viewer::user(ANN, "todo");
    let all = world.store.conversations(&viewer, None, 9).await.unwrap();
    let ids = |listed: &[ConversationRecord]| -> Vec<u128> {
        listed.iter().map(|it| it.id.as_u128() - 100).collect()
    };
    assert_eq!(ids(&all), [5, 4, 3, 2, 1]);
    let (mut paged, mut after) = (Vec::new(), None);
    loop {
        let page = world.store.conversations(&viewer, after, 2).await.unwrap();
        let Some(last) = page.last() else { break };
        after = Some(last.cursor());
        paged.extend(ids(&page));
    }
    assert_eq!(paged, ids(&all));
}

pub(crate) async fn a_conversation_is_deleted_once_all_its_tasks_have_ended(world: &World) {
    world.submit(in_conversation(world, 1)).await;
    let child = NewTask {
        parent: Some(Uuid::from_u128(1)),
        ..world.task(2)
    };
    world.submit(child).await;
    world.submit(world.task(3)).await;
    let delete = async |viewer: Viewer| {
        let deleted = world.store.delete_conversation(&viewer, CONVERSATION).await;
        deleted.unwrap()
    };
    let owner = || Viewer::user(ANN, "todo");
    let mut claimed = world.claim("w", 9).await;
    claimed.retain(|task| task.record.id != Uuid::from_u128(3));
    for task in claimed {
        assert_eq!(delete(owner()).await, Some(Deletion::Unfinished));
        end(world, &task).await;
    }
    for other in [Viewer::user(BEN, "todo"), Viewer::user(ANN, "home")] {
        assert_eq!(delete(other).await, None);
    }
    let listed = async || {
        let page = Page::default();
        let found = world
            .store
            .query(&Viewer::System, Filter::default(), page)
            .await;
        found
            .unwrap()
            .tasks
            .iter()
            .map(|task| task.id.as_u128())
            .collect::<Vec<_>>()
    };
    assert_eq!(listed().await, [3, 2, 1]);
    assert_eq!(delete(owner()).await, Some(Deletion::Deleted));
    assert_eq!(listed().await, [3]);
    assert_eq!(delete(owner()).await, None);
    let read = world
        .store
        .conversation(&owner(), CONVERSATION, None, 9)
        .await;
    assert_eq!(read.unwrap(), None);
}

pub(crate) async fn a_task_is_refused_while_its_conversation_is_busy_if_it_asks_for_that(
    world: &World,
) {
    let refusing = |id| NewTask {
        refused_if_busy: true,
        ..in_conversation(world, id)
    };
    let busy = Err(StoreError::ConversationBusy {
        conversation: CONVERSATION,
    });
    let keyed = NewTask {
        key: Some("k".into()),
        ..refusing(1)
    };
    world.submit(keyed.clone()).await;
    // Ready, and then at work.
    assert_eq!(world.store.submit(refusing(2)).await, busy);
    let held = world.claim_one("w").await;
    assert_eq!(world.store.submit(refusing(2)).await, busy);
    let again = NewTask {
        id: Uuid::from_u128(9),
        ..keyed
    };
    let first = Ok(Submission::Existing(Uuid::from_u128(1)));
    assert_eq!(world.store.submit(again).await, first);
    // Whoever it does not belong to is not told that it is busy.
    let foreign = NewTask {
        owner: BEN,
        ..refusing(2)
    };
    let unknown = Err(StoreError::ForeignConversation {
        conversation: CONVERSATION,
    });
    assert_eq!(world.store.submit(foreign).await, unknown);
    // A task that waits for a person is not at work.
    wait_for_person(world, &held).await;
    world.submit(refusing(3)).await;
    let only = world.claim("w", 9).await;
    assert_eq!(ids(&only), [3]);
}
