//! Random histories, carried out on a backend and on the in-memory store at once: every answer and
//! the whole content afterwards must be the same.

use std::time::Duration;

use convoke_model::{RetentionPolicy, TaskState};
use convoke_store::{
    Batch, FIRST_EPOCH, Fence, Filter, Lease, LeaseAction, NewSignal, Page, SignalKind,
    StatusUpdate, Store, Submission, Viewer,
};
use proptest::prelude::*;
use serde_json::json;
use uuid::Uuid;

use crate::world::{ANN, BEN, LEASE, World, said};

#[derive(Debug, Clone)]
enum Operation {
    Submit {
        id: u128,
        key: Option<u8>,
        ben: bool,
        conversation: Option<u128>,
        parent: Option<u128>,
        hold: bool,
    },
    Claim {
        worker: u8,
        limit: usize,
    },
    /// Appends with a fence taken from the claims seen so far, possibly a stale one.
    Append {
        claim: usize,
        entries: usize,
        outcome: u8,
        wake: Option<u64>,
        progress: bool,
    },
    Renew {
        claim: usize,
    },
    Signal {
        id: u128,
        key: u8,
    },
    Sweep {
        dry_run: bool,
    },
    Advance {
        seconds: u64,
    },
}

fn operation() -> impl Strategy<Value = Operation> {
    let id = 1..12_u128;
    prop_oneof![
        4 => (id.clone(), prop::option::of(0..4_u8), any::<bool>(), prop::option::of(100..103_u128), prop::option::of(1..12_u128), any::<bool>())
            .prop_map(|(id, key, ben, conversation, parent, hold)| Operation::Submit { id, key, ben, conversation, parent, hold }),
        4 => (0..3_u8, 0..4_usize).prop_map(|(worker, limit)| Operation::Claim { worker, limit }),
        8 => (any::<usize>(), 1..3_usize, 0..5_u8, prop::option::of(0..30_u64), any::<bool>())
            .prop_map(|(claim, entries, outcome, wake, progress)| Operation::Append { claim, entries, outcome, wake, progress }),
        2 => any::<usize>().prop_map(|claim| Operation::Renew { claim }),
        3 => (id, 0..4_u8).prop_map(|(id, key)| Operation::Signal { id, key }),
        1 => any::<bool>().prop_map(|dry_run| Operation::Sweep { dry_run }),
        3 => prop_oneof![0..20_u64, Just(8 * 86_400)].prop_map(|seconds| Operation::Advance { seconds }),
    ]
}

/// Carries an operation out and says what came of it, in words that can be compared.
#[expect(
    clippy::too_many_lines,
    reason = "one arm for each operation reads best in one place"
)]
async fn carry_out(world: &World, operation: &Operation, claims: &mut Vec<Fence>) -> String {
    let store = &world.store;
    match operation.clone() {
        Operation::Submit {
            id,
            key,
            ben,
            conversation,
            parent,
            hold,
        } => {
            let mut task = world.task(id);
            task.key = key.map(|key| key.to_string());
            task.owner = if ben { BEN } else { ANN };
            task.conversation = conversation.map(Uuid::from_u128);
            task.parent = parent.map(Uuid::from_u128);
            task.hold = hold.then(|| Lease {
                worker: "worker-0".into(),
                time: LEASE,
            });
            let submitted = store.submit(task).await;
            if let Ok(Submission::Created { id, held: true }) = submitted {
                claims.push(Fence {
                    task: id,
                    epoch: FIRST_EPOCH,
                    seq: 1,
                });
            }
            format!("{submitted:?}")
        }
        Operation::Claim { worker, limit } => {
            let claimed = world.claim(&format!("worker-{worker}"), limit).await;
            claims.extend(claimed.iter().map(convoke_store::ClaimedTask::fence));
            format!("{claimed:?}")
        }
        Operation::Append {
            claim,
            entries,
            outcome,
            wake,
            progress,
        } => {
            let Some(index) = claim.checked_rem(claims.len()) else {
                return String::new();
            };
            let status = match outcome {
                0 | 1 => TaskState::Working,
                2 => TaskState::InputRequired,
                3 => TaskState::Completed,
                _ => TaskState::Failed,
            };
            let base = if status == TaskState::InputRequired {
                world.pause(wake.map(Duration::from_secs))
            } else {
                world.batch(status)
            };
            let base_standing = base.standing.clone().unwrap();
            let stands = StatusUpdate {
                hold: if wake.is_none() && outcome == 1 {
                    LeaseAction::Release { wake_in: None }
                } else {
                    base_standing.hold
                },
                result: (outcome == 3).then(|| "done".into()),
                error: (outcome == 4).then(|| "broken".into()),
                progress,
                ..base_standing
            };
            let signals = store
                .load(&Viewer::System, claims[index].task, 1)
                .await
                .unwrap();
            let batch = Batch {
                inline_bytes: convoke_store::INLINE_BYTES,
                entries: vec![base.entries[0].clone(); entries],
                messages: if progress {
                    vec![said("reply", base.entries[0].at)]
                } else {
                    Vec::new()
                },
                consumed: signals.map_or(Vec::new(), |loaded| {
                    loaded
                        .signals
                        .iter()
                        .take(1)
                        .map(|signal| signal.id)
                        .collect()
                }),
                // Some steps change the journal only.
                standing: (outcome != 0 || wake.is_some()).then_some(stands),
            };
            let appended = store.append(claims[index], batch.into()).await;
            if let Ok(seq) = appended {
                claims[index].seq = seq;
            }
            format!("{appended:?}")
        }
        Operation::Renew { claim } => {
            let Some(index) = claim.checked_rem(claims.len()) else {
                return String::new();
            };
            format!("{:?}", store.renew(vec![claims[index]], LEASE).await)
        }
        Operation::Signal { id, key } => {
            let signal = NewSignal {
                task: Uuid::from_u128(id),
                kind: SignalKind::Answer,
                payload: json!({ "key": key }),
                key: key.to_string(),
            };
            format!("{:?}", store.signal(&Viewer::System, signal).await)
        }
        Operation::Sweep { dry_run } => {
            format!(
                "{:?}",
                store
                    .sweep(convoke_store::Sweep {
                        app: "todo".into(),
                        policy: RetentionPolicy::default(),
                        dry_run,
                    })
                    .await
            )
        }
        Operation::Advance { seconds } => {
            world.clock.advance(Duration::from_secs(seconds));
            String::new()
        }
    }
}

/// All that the store holds.
async fn content(store: &dyn Store) -> String {
    let page = store
        .query(
            &Viewer::System,
            Filter::default(),
            Page {
                after: None,
                limit: 1_000,
            },
        )
        .await
        .unwrap();
    let mut all = Vec::new();
    for task in &page.tasks {
        all.push(format!(
            "{:?}",
            store.load(&Viewer::System, task.id, 1).await.unwrap()
        ));
    }
    for id in 100..103 {
        all.push(format!(
            "{:?}",
            store
                .conversation(&Viewer::System, Uuid::from_u128(id), None, 3)
                .await
        ));
    }
    all.join("\n")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn sqlite_does_what_the_memory_store_does(history in prop::collection::vec(operation(), 1..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (real, reference) = (World::sqlite(), World::memory());
            let (mut claims, mut expected_claims) = (Vec::new(), Vec::new());
            for operation in &history {
                let done = carry_out(&real, operation, &mut claims).await;
                let expected = carry_out(&reference, operation, &mut expected_claims).await;
                prop_assert_eq!(done, expected, "{:?}", operation);
            }
            prop_assert_eq!(content(&*real.store).await, content(&*reference.store).await);
            Ok(())
        })?;
    }
}
