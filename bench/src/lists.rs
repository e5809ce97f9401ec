//! The cost of lists, claims and submissions in a small and in a large store.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use convoke_model::{RetentionPolicy, SystemClock, TaskState};
use convoke_store::{
    Batch, Claim, Filter, LeaseAction, NewTask, Page, SqliteStore, StatusUpdate, Store, Sweep,
    Viewer,
};
use futures::future::try_join_all;
use serde::Serialize;
use uuid::Uuid;

use crate::store::{entry, task};

/// Users and apps that the tasks are of.
const OWNERS: u128 = 50;
const APPS: usize = 2;

/// Tasks of the long conversation, and how many of them wait.
const CONVERSATION: Uuid = Uuid::from_u128(u128::MAX);
const WAITING: usize = 51;

/// Repetitions of each measurement.
const ROUNDS: usize = 41;

/// Limit of a list's median in the largest store.
const LIST_LIMIT: Duration = Duration::from_millis(5);

/// Median milliseconds of one store.
#[derive(Debug, Serialize)]
struct Medians {
    tasks: usize,
    list_all: f64,
    list_by_state: f64,
    list_by_app: f64,
    list_by_owner_and_state: f64,
    list_of_a_user: f64,
    count_of_a_state: f64,
    dry_sweep: f64,
    submit: f64,
    claim: f64,
    conversation_tasks: usize,
    submit_in_conversation: f64,
    claim_in_conversation: f64,
}

pub(crate) fn run(folder: &Path, json: bool) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("{}", folder.display()))?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let mut reports = Vec::new();
    for (tasks, conversation) in [(1_000, 200), (100_000, 20_000)] {
        let medians = runtime.block_on(measure(folder, tasks, conversation))?;
        if json {
            crate::print(&serde_json::to_string(&medians)?);
        } else {
            crate::print(&format!("{medians:#?}"));
        }
        reports.push(medians);
    }
    if let Some(large) = reports.last() {
        let slowest = [
            large.list_all,
            large.list_by_state,
            large.list_by_app,
            large.list_by_owner_and_state,
            large.list_of_a_user,
        ]
        .into_iter()
        .fold(0.0, f64::max);
        anyhow::ensure!(
            slowest < LIST_LIMIT.as_secs_f64() * 1_000.0,
            "a list takes {slowest:.1} ms"
        );
    }
    Ok(())
}

async fn measure(folder: &Path, tasks: usize, conversation: usize) -> anyhow::Result<Medians> {
    let folder = tempfile::tempdir_in(folder)?;
    let path = folder.path().join("store.db");
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(&path, Arc::new(SystemClock))?);
    fill(&*store, tasks, conversation).await?;
    let system = &Viewer::System;
    let owner = Uuid::from_u128(7);
    let states = vec![TaskState::Completed];
    let list = async |viewer: &Viewer, filter: Filter| {
        let page = Page::default();
        let page = store.query(viewer, filter, page).await?;
        anyhow::ensure!(!page.tasks.is_empty(), "the list is empty");
        Ok(())
    };
    let filter = Filter::default;
    Ok(Medians {
        tasks,
        list_all: median(async || list(system, filter()).await).await?,
        list_by_state: median(async || {
            let states = states.clone();
            list(system, Filter { states, ..filter() }).await
        })
        .await?,
        list_by_app: median(async || list(&Viewer::operator("bench-1"), filter()).await).await?,
        list_by_owner_and_state: median(async || {
            let (owner, states) = (Some(owner), states.clone());
            let filter = Filter {
                owner,
                states,
                ..filter()
            };
            list(system, filter).await
        })
        .await?,
        list_of_a_user: median(async || list(&Viewer::user(owner, "bench-1"), filter()).await)
            .await?,
        count_of_a_state: median(async || {
            let states = vec![TaskState::Submitted];
            let filter = Filter { states, ..filter() };
            store.count(system, filter, 10_000).await?;
            Ok(())
        })
        .await?,
        dry_sweep: median(async || {
            let sweep = Sweep {
                app: "bench-1".into(),
                policy: RetentionPolicy::default(),
                dry_run: true,
            };
            store.sweep(sweep).await?;
            Ok(())
        })
        .await?,
        submit: median(async || {
            store.submit(numbered(fresh())?).await?;
            Ok(())
        })
        .await?,
        claim: median(async || claim_one(&*store, "bench-0").await).await?,
        conversation_tasks: conversation,
        submit_in_conversation: median(async || {
            let mut task = numbered(fresh())?;
            (task.conversation, task.owner) = (Some(CONVERSATION), Uuid::nil());
            task.app = "talk".into();
            store.submit(task).await?;
            Ok(())
        })
        .await?,
        // One of the conversation is at work, so that nothing can be claimed of it: the search is the cost.
        claim_in_conversation: median(async || claim(&*store, "talk").await.map(drop)).await?,
    })
}

/// Ended tasks, and a long conversation in which one task is at work and many wait.
async fn fill(store: &dyn Store, tasks: usize, conversation: usize) -> anyhow::Result<()> {
    for group in (0..tasks).collect::<Vec<_>>().chunks(2_000) {
        let submitted: anyhow::Result<Vec<_>> = group
            .iter()
            .map(|number| Ok(store.submit(numbered(*number)?)))
            .collect();
        try_join_all(submitted?).await?;
        for app in 0..APPS {
            end_all(store, &format!("bench-{app}")).await?;
        }
    }
    for number in 0..conversation {
        let mut task = numbered(fresh())?;
        (task.conversation, task.owner) = (Some(CONVERSATION), Uuid::nil());
        task.app = "talk".into();
        drop(store.submit(task));
        if number + WAITING < conversation {
            end_all(store, "talk").await?;
        }
    }
    let at_work = claim(store, "talk").await?;
    anyhow::ensure!(
        at_work == 1,
        "one of a conversation is at work, not {at_work}"
    );
    for _ in 0..2 * ROUNDS {
        store.submit(numbered(0)?.with_id(fresh())).await?;
    }
    Ok(())
}

trait WithId {
    fn with_id(self, number: usize) -> Self;
}

impl WithId for NewTask {
    fn with_id(mut self, number: usize) -> Self {
        self.id = Uuid::from_u128(number as u128 + 1);
        self
    }
}

/// A number that no task has yet.
fn fresh() -> usize {
    static NEXT: std::sync::atomic::AtomicUsize =
        std::sync::atomic::AtomicUsize::new(1_000_000_000);
    NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
}

fn numbered(number: usize) -> anyhow::Result<NewTask> {
    let mut task = task(number)?;
    task.owner = Uuid::from_u128(number as u128 / APPS as u128 % OWNERS);
    task.app = format!("bench-{}", number % APPS);
    Ok(task)
}

async fn claim(store: &dyn Store, app: &str) -> anyhow::Result<usize> {
    let claim = Claim {
        worker: "bench".into(),
        apps: vec![app.into()],
        except: Vec::new(),
        lease: Duration::from_hours(1),
        limit: 1,
    };
    Ok(store.claim(claim).await?.tasks.len())
}

async fn claim_one(store: &dyn Store, app: &str) -> anyhow::Result<()> {
    let claimed = claim(store, app).await?;
    anyhow::ensure!(claimed == 1, "nothing to claim");
    Ok(())
}

/// Ends every task of an app that is ready.
async fn end_all(store: &dyn Store, app: &str) -> anyhow::Result<()> {
    let claim = Claim {
        worker: "bench".into(),
        apps: vec![app.into()],
        except: Vec::new(),
        lease: Duration::from_hours(1),
        limit: 5_000,
    };
    let claimed = store.claim(claim).await?.tasks;
    let ends = claimed.iter().map(|claimed| {
        let batch = Batch {
            entries: vec![entry()],
            messages: Vec::new(),
            consumed: Vec::new(),
            standing: Some(StatusUpdate {
                status: TaskState::Completed,
                stage: None,
                hold: LeaseAction::Release { wake_in: None },
                result: Some("done".into()),
                error: None,
                progress: true,
            }),
            inline_bytes: convoke_store::INLINE_BYTES,
        };
        store.append(claimed.fence(), Arc::new(batch))
    });
    try_join_all(ends.collect::<Vec<_>>()).await?;
    Ok(())
}

/// The median milliseconds of an operation.
async fn median(operation: impl AsyncFn() -> anyhow::Result<()>) -> anyhow::Result<f64> {
    let mut times = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let started = Instant::now();
        operation().await?;
        times.push(started.elapsed().as_secs_f64() * 1_000.0);
    }
    times.sort_by(f64::total_cmp);
    Ok(times[ROUNDS / 2])
}
