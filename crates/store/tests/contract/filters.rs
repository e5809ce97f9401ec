//! Which tasks a filter finds.

use convoke_model::TaskState;
use convoke_store::{Filter, Page, Viewer};
use uuid::Uuid;

use crate::world::{ANN, BEN, World};

const CONVERSATION: Uuid = Uuid::from_u128(500);

async fn found(world: &World, filter: &Filter) -> Vec<u128> {
    let page = world
        .store
        .query(&Viewer::System, filter.clone(), Page::default())
        .await;
    let tasks = page.unwrap().tasks.into_iter();
    tasks.map(|task| task.id.as_u128()).collect()
}

/// Two tasks of Ben and five of Ann; the first is at work, the others differ from it in one thing or two.
async fn submit_tasks(world: &World) {
    let parent = Some(Uuid::from_u128(1));
    let mut tasks = [1, 2, 3, 4, 5, 6, 7].map(|id| world.task(id));
    let [_, bens, talk, notes, child, urgent, bens_child] = &mut tasks;
    bens.owner = BEN;
    talk.conversation = Some(CONVERSATION);
    notes.app = "notes".into();
    child.parent = parent;
    urgent.tags = vec!["urgent".into()];
    (bens_child.owner, bens_child.parent) = (BEN, parent);
    for task in tasks {
        world.submit(task).await;
    }
    let claimed = world.claim_one("w").await;
    assert_eq!(claimed.record.id.as_u128(), 1);
}

pub(crate) async fn every_part_of_a_filter_leaves_out_what_does_not_fit(world: &World) {
    submit_tasks(world).await;
    let of = |change: fn(&mut Filter)| {
        let mut filter = Filter::default();
        change(&mut filter);
        filter
    };
    let expected: [(Filter, &[u128]); 11] = [
        (of(|_| {}), &[7, 6, 5, 4, 3, 2, 1]),
        (of(|all| all.states = vec![TaskState::Working]), &[1]),
        (of(|all| all.owner = Some(ANN)), &[6, 5, 4, 3, 1]),
        (of(|all| all.owner = Some(BEN)), &[7, 2]),
        (of(|all| all.conversation = Some(CONVERSATION)), &[3]),
        (of(|all| all.app = Some("notes".into())), &[4]),
        (of(|all| all.parent = Some(Uuid::from_u128(1))), &[7, 5]),
        (of(|all| all.tag = Some("urgent".into())), &[6]),
        (
            of(|all| (all.parent, all.owner) = (Some(Uuid::from_u128(1)), Some(ANN))),
            &[5],
        ),
        (
            of(|all| {
                all.states = vec![TaskState::Working, TaskState::Submitted];
                (all.owner, all.app) = (Some(ANN), Some("todo".into()));
            }),
            &[6, 5, 3, 1],
        ),
        (
            of(|all| (all.states, all.owner) = (vec![TaskState::Completed], Some(ANN))),
            &[],
        ),
    ];
    for (filter, ids) in expected {
        assert_eq!(found(world, &filter).await, ids, "{filter:?}");
    }
}
