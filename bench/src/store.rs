//! The embedded store: durable appends per second, and the cost of a long task.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use convoke_model::{Channel, Clock, Message, SystemClock};
use convoke_store::{Batch, Claim, Fence, NewEntry, NewMessage, NewTask, SqliteStore, Store};
use serde::Serialize;
use uuid::Uuid;

/// The measurements.
#[derive(Debug, Serialize)]
struct Report {
    appends_per_second_1_task: f64,
    appends_per_second_64_tasks: f64,
    bytes_per_step_first_half: f64,
    bytes_per_step_second_half: f64,
    bytes_of_200_steps: u64,
}

/// Duration of measuring each rate.
const MEASURED: Duration = Duration::from_secs(3);

/// Steps of the long task.
const STEPS: usize = 200;

/// Characters of the message added by each step.
const MESSAGE: usize = 2_000;

pub(crate) fn run(folder: &Path, json: bool) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("{}", folder.display()))?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let report = runtime.block_on(async {
        let one = appends_per_second(folder, 1).await?;
        let many = appends_per_second(folder, 64).await?;
        let (first, second, total) = bytes_per_step(folder).await?;
        anyhow::Ok(Report {
            appends_per_second_1_task: one,
            appends_per_second_64_tasks: many,
            bytes_per_step_first_half: first,
            bytes_per_step_second_half: second,
            bytes_of_200_steps: total,
        })
    })?;
    if json {
        crate::print(&serde_json::to_string(&report)?);
    } else {
        crate::print(&format!(
            "durable appends a second, 1 task     {:>10.0}\n\
             durable appends a second, 64 tasks   {:>10.0}\n\
             bytes a step, steps 1 to 100         {:>10.0}\n\
             bytes a step, steps 101 to 200       {:>10.0}\n\
             bytes of 200 steps in all            {:>10}",
            report.appends_per_second_1_task,
            report.appends_per_second_64_tasks,
            report.bytes_per_step_first_half,
            report.bytes_per_step_second_half,
            report.bytes_of_200_steps,
        ));
    }
    // With quadratic growth, the second half would take three times as much.
    anyhow::ensure!(
        report.bytes_per_step_second_half < 1.5 * report.bytes_per_step_first_half,
        "a step costs more the longer the task is"
    );
    Ok(())
}

/// Tasks that append small steps in sequence, each waiting for the disk.
#[expect(clippy::cast_precision_loss, reason = "a rate needs no more digits")]
async fn appends_per_second(folder: &Path, tasks: usize) -> anyhow::Result<f64> {
    let file = tempfile::tempdir_in(folder)?;
    let store = Arc::new(SqliteStore::open(
        &file.path().join("store.db"),
        Arc::new(SystemClock),
    )?);
    let fences = claimed(&*store, tasks).await?;
    let started = Instant::now();
    let mut running = tokio::task::JoinSet::new();
    for mut fence in fences {
        let store = Arc::clone(&store);
        running.spawn(async move {
            let mut appended = 0_u64;
            while started.elapsed() < MEASURED {
                fence.seq = store.append(fence, step(Vec::new()).into()).await?;
                appended += 1;
            }
            anyhow::Ok(appended)
        });
    }
    let mut appended = 0;
    while let Some(done) = running.join_next().await {
        appended += done??;
    }
    Ok(appended as f64 / started.elapsed().as_secs_f64())
}

/// The growth of the file over the first and second hundred steps of one task.
#[expect(clippy::cast_precision_loss, reason = "a rate needs no more digits")]
async fn bytes_per_step(folder: &Path) -> anyhow::Result<(f64, f64, u64)> {
    let file = tempfile::tempdir_in(folder)?;
    let path = file.path().join("store.db");
    let mut fence = {
        let store = SqliteStore::open(&path, Arc::new(SystemClock))?;
        claimed(&store, 1)
            .await?
            .pop()
            .context("nothing was claimed")?
    };
    let mut sizes = vec![size(&path)?];
    for _ in 0..2 {
        // Closing the store checkpoints the log, so that all data is in one file.
        let store = SqliteStore::open(&path, Arc::new(SystemClock))?;
        for _ in 0..STEPS / 2 {
            let text = "x".repeat(MESSAGE);
            let message = Message::assistant(text, SystemClock.now())?;
            fence.seq = store
                .append(fence, step(vec![NewMessage::internal(&message)]).into())
                .await?;
        }
        drop(store);
        sizes.push(size(&path)?);
    }
    let half = (STEPS / 2) as f64;
    let first = (sizes[1] - sizes[0]) as f64 / half;
    let second = (sizes[2] - sizes[1]) as f64 / half;
    Ok((first, second, sizes[2] - sizes[0]))
}

fn size(path: &Path) -> anyhow::Result<u64> {
    let mut wal = path.as_os_str().to_owned();
    wal.push("-wal");
    let log = std::fs::metadata(wal).map_or(0, |log| log.len());
    Ok(std::fs::metadata(path)?.len() + log)
}

async fn claimed(store: &dyn Store, tasks: usize) -> anyhow::Result<Vec<Fence>> {
    for number in 0..tasks {
        store.submit(task(number)?).await?;
    }
    let claim = Claim {
        worker: "bench".into(),
        apps: vec!["bench".into()],
        except: Vec::new(),
        lease: Duration::from_mins(10),
        limit: tasks,
    };
    Ok(store
        .claim(claim)
        .await?
        .tasks
        .iter()
        .map(convoke_store::ClaimedTask::fence)
        .collect())
}

pub(crate) fn task(number: usize) -> anyhow::Result<NewTask> {
    let at = SystemClock.now();
    let message = Message::user("a task of the bench", at)?;
    Ok(NewTask {
        id: Uuid::from_u128(number as u128 + 1),
        key: None,
        fingerprint: None,
        owner: Uuid::nil(),
        conversation: None,
        refused_if_busy: false,
        channel: Channel::Terminal,
        app: "bench".into(),
        definition: std::sync::Arc::default(),
        description: "bench".into(),
        parent: None,
        deadline: at,
        retention_days: None,
        tags: Vec::new(),
        stage: None,
        entry: entry(),
        messages: vec![NewMessage::in_conversation(&message)],
        hold: None,
        not_before: None,
        trace: None,
        blobs: Vec::new(),
    })
}

fn step(messages: Vec<NewMessage>) -> Batch {
    Batch {
        entries: vec![entry()],
        messages,
        consumed: Vec::new(),
        standing: None,
        inline_bytes: convoke_store::INLINE_BYTES,
    }
}

/// An entry as large as that of a tool call.
pub(crate) fn entry() -> NewEntry {
    NewEntry {
        at: SystemClock.now(),
        kind: "returned".into(),
        event: serde_json::json!({ "type": "returned", "outcome": "y".repeat(300) }).to_string(),
        state: serde_json::json!({ "status": "working", "program": "z".repeat(600) }).to_string(),
    }
}
