//! Tasks that wait for a person: the cost of ten thousand, and the time to continue one after its
//! answer.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use convoke::{Runtime, TaskState};
use convoke_engine::QuestionAnswer;
use convoke_store::{Scope, Viewer};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::app::{BenchApp, executor, idle_agent, request};
use crate::figures::{Process, Times, per, store_bytes};

/// The measurements.
#[derive(Debug, Serialize)]
struct Report {
    tasks: u32,
    before: Process,
    paused: Process,
    resident_bytes_per_task: f64,
    store_bytes_per_task: f64,
    seconds_to_pause_all: f64,
    resumed: usize,
    /// From the answer to the task's end, in milliseconds.
    resume_ms: Times,
    /// From the answer until it is durable, in milliseconds.
    accepted_ms: Times,
}

/// Tasks submitted at once: half of a worker's capacity, so that each goes directly to the worker
/// without being read from the store.
const IN_FLIGHT: usize = 32;

/// Tasks paused before measuring, so that one-time costs are not counted.
const WARM_UP: u32 = 64;

/// Tasks that are answered.
const RESUMED: u32 = 200;

pub(crate) fn run(folder: &Path, tasks: u32, json: bool) -> anyhow::Result<()> {
    let report = executor()?.block_on(measure(folder, tasks))?;
    if json {
        crate::print(&serde_json::to_string(&report)?);
        return Ok(());
    }
    let resident = |process: &Process| per(process.resident_bytes, 1 << 20);
    crate::print(&format!(
        "tasks that wait for a person         {:>10}\n\
         seconds until all of them wait       {:>10.2}\n\
         threads before                       {:>10}\n\
         threads while all wait               {:>10}\n\
         resident before                      {:>10.1} MiB\n\
         resident while all wait              {:>10.1} MiB\n\
         resident a waiting task              {:>10.0} bytes\n\
         store a waiting task                 {:>10.0} bytes",
        report.tasks,
        report.seconds_to_pause_all,
        report.before.threads,
        report.paused.threads,
        resident(&report.before),
        resident(&report.paused),
        report.resident_bytes_per_task,
        report.store_bytes_per_task,
    ));
    for (what, times) in [
        ("from the answer to the end", &report.resume_ms),
        ("of which until it is accepted", &report.accepted_ms),
    ] {
        let Times {
            median, p95, max, ..
        } = times;
        crate::print(&format!(
            "{what:<37}{median:>10.2} ms median, {p95:.2} ms p95, {max:.2} ms max ({} times)",
            report.resumed
        ));
    }
    Ok(())
}

async fn measure(folder: &Path, tasks: u32) -> anyhow::Result<Report> {
    let app = BenchApp::write(folder, &idle_agent(), Some(&asking_workflow()))?;
    let runtime = Arc::new(app.start().await?);
    pause(&runtime, WARM_UP).await?;
    let before = Process::now()?;
    let started = Instant::now();
    let waiting = pause(&runtime, tasks).await?;
    let seconds_to_pause_all = started.elapsed().as_secs_f64();
    let paused = Process::now()?;
    let stored = store_bytes(&app.store())?;
    let (mut resume, mut accepted) = (Vec::new(), Vec::new());
    // Evenly distributed, so that the position in the file has no effect.
    let answered = RESUMED.min(tasks) as usize;
    for number in 0..answered {
        let task = waiting[number * waiting.len() / answered];
        let (in_all, until_accepted) = answer(&runtime, task).await?;
        resume.push(in_all);
        accepted.push(until_accepted);
    }
    let runtime = Arc::into_inner(runtime).context("somebody still uses the runtime")?;
    runtime.shutdown().await?;
    let more = paused.resident_bytes.saturating_sub(before.resident_bytes);
    Ok(Report {
        tasks,
        before,
        paused,
        resident_bytes_per_task: per(more, tasks.into()),
        store_bytes_per_task: per(stored, u64::from(tasks + WARM_UP)),
        seconds_to_pause_all,
        resumed: resume.len(),
        resume_ms: Times::of(resume),
        accepted_ms: Times::of(accepted),
    })
}

/// A workflow that asks a person and reports the answer.
fn asking_workflow() -> Value {
    json!({
        "name": "main",
        "nodes": {
            "agree": { "type": "human", "prompt": "May it go on?" },
            "report": { "type": "compose", "prompt": "They said {{ agree.action }}." },
        },
        "edges": [{ "from": "agree", "to": "report" }],
        "entry_point": "agree",
    })
}

/// Submits tasks and waits until all of them wait for a person.
async fn pause(runtime: &Arc<Runtime>, tasks: u32) -> anyhow::Result<Vec<Uuid>> {
    let mut waiting = Vec::with_capacity(tasks as usize);
    let mut running = JoinSet::new();
    for _ in 0..tasks {
        if running.len() == IN_FLIGHT
            && let Some(asked) = running.join_next().await
        {
            waiting.push(asked??);
        }
        let runtime = Arc::clone(runtime);
        running.spawn(async move {
            let asked = runtime.ask(request()).await?;
            anyhow::ensure!(
                asked.status == TaskState::InputRequired,
                "a task that asks is {}: {:?}",
                asked.status,
                asked.error
            );
            Ok(asked.facts.id)
        });
    }
    while let Some(asked) = running.join_next().await {
        waiting.push(asked??);
    }
    Ok(waiting)
}

/// Answers a task's question and waits for its end. Returns the total time, and the time until the
/// answer was accepted.
async fn answer(runtime: &Runtime, task: Uuid) -> anyhow::Result<(Duration, Duration)> {
    let store = runtime.store();
    let mut rest = store.watch(Scope::Rest(task));
    let started = Instant::now();
    let approve = QuestionAnswer::Approve { message: None };
    runtime
        .engine()
        .answer(&Viewer::System, task, None, approve)
        .await?;
    let accepted = started.elapsed();
    loop {
        rest.changed().await;
        let (record, _) = store
            .newest(&Viewer::System, task)
            .await?
            .context("the task is gone")?;
        if record.status.is_final() {
            let ended = started.elapsed();
            anyhow::ensure!(
                record.status == TaskState::Completed,
                "an answered task is {}: {:?}",
                record.status,
                record.error
            );
            return Ok((ended, accepted));
        }
    }
}
