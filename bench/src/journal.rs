//! The journal of a long task: the cost of a step, its growth with the task's length, and the time to
//! open the task.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use convoke_model::SystemClock;
use convoke_store::{SqliteStore, Store, Viewer};
use serde::Serialize;
use uuid::Uuid;

use crate::app::executor;
use crate::figures::{JournalBytes, Times, per};
use crate::long_task::{Shape, execute};

/// The measurements of tasks of one shape, shortest first.
#[derive(Debug, Serialize)]
struct Report {
    shape: Shape,
    sizes: Vec<Measured>,
    /// Bytes per step of the longest task relative to the shortest; about 1 if the journal grows
    /// linearly.
    growth: f64,
}

/// The measurements of one task.
#[derive(Debug, Serialize)]
struct Measured {
    journal: JournalBytes,
    bytes_per_step: f64,
    file_growth: u64,
    load_ms: Times,
    newest_ms: Times,
    seconds_to_carry_out: f64,
}

/// Runs of opening a task; the median is reported.
const RUNS: usize = 20;

pub(crate) fn run(folder: &Path, steps: u32, json: bool) -> anyhow::Result<()> {
    let executor = executor()?;
    for shape in Shape::ALL {
        let mut sizes = Vec::new();
        for steps in [steps / 10, steps / 5, steps / 2, steps] {
            sizes.push(executor.block_on(measure(folder, shape, steps))?);
        }
        let growth = match sizes.as_slice() {
            [first, .., last] => last.bytes_per_step / first.bytes_per_step,
            _ => 1.0,
        };
        let report = Report {
            shape,
            sizes,
            growth,
        };
        if json {
            crate::print(&serde_json::to_string(&report)?);
        } else {
            crate::print(&table(&report));
        }
    }
    Ok(())
}

async fn measure(folder: &Path, shape: Shape, steps: u32) -> anyhow::Result<Measured> {
    let long = execute(folder, shape, steps).await?;
    let path = long.app.store();
    let journal = JournalBytes::of(&path)?;
    let (mut load, mut newest) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        load.push(time_to_load(&path, long.task, journal.entries).await?);
        newest.push(time_of_newest(&path, long.task).await?);
    }
    Ok(Measured {
        bytes_per_step: per(journal.all(), journal.entries),
        journal,
        file_growth: long.file_growth,
        load_ms: Times::of(load),
        newest_ms: Times::of(newest),
        seconds_to_carry_out: long.took.as_secs_f64(),
    })
}

/// The time to read the whole task, in a freshly opened store.
async fn time_to_load(path: &Path, task: Uuid, entries: u64) -> anyhow::Result<Duration> {
    let store = SqliteStore::open(path, Arc::new(SystemClock))?;
    let started = Instant::now();
    let loaded = store.load(&Viewer::System, task, 1).await?;
    let took = started.elapsed();
    let read = loaded.map_or(0, |loaded| loaded.entries.len() as u64);
    anyhow::ensure!(read == entries, "{read} of {entries} entries were read");
    Ok(took)
}

/// The time to read the newest entry, in a freshly opened store.
async fn time_of_newest(path: &Path, task: Uuid) -> anyhow::Result<Duration> {
    let store = SqliteStore::open(path, Arc::new(SystemClock))?;
    let started = Instant::now();
    let newest = store.newest(&Viewer::System, task).await?;
    let took = started.elapsed();
    newest.context("the task is gone")?;
    Ok(took)
}

fn table(report: &Report) -> String {
    let mut text = format!(
        "{}\n{:>8} {:>11} {:>12} {:>10} {:>12} {:>12} {:>10} {:>10} {:>12}\n",
        report.shape.in_words(),
        "entries",
        "events B",
        "states B",
        "messages B",
        "B a step",
        "file grew B",
        "load ms",
        "newest ms",
        "carried out"
    );
    for size in &report.sizes {
        let JournalBytes {
            entries,
            event,
            state,
            messages,
        } = size.journal;
        let line = format!(
            "{entries:>8} {event:>11} {state:>12} {messages:>10} {:>12.0} {:>12} {:>10.2} {:>10.2} {:>10.2} s\n",
            size.bytes_per_step,
            size.file_growth,
            size.load_ms.median,
            size.newest_ms.median,
            size.seconds_to_carry_out,
        );
        text.push_str(&line);
    }
    let growth = format!(
        "a step of the longest costs {:.2} times one of the shortest\n",
        report.growth
    );
    text.push_str(&growth);
    text
}
