//! The CPU time of a task by the number of its steps: about the same for each, however many there are.

use std::path::Path;

use serde::Serialize;

use crate::app::executor;
use crate::figures::JournalBytes;
use crate::long_task::{Shape, execute};

/// Tasks of one shape, shortest first.
#[derive(Debug, Serialize)]
struct Report {
    shape: Shape,
    sizes: Vec<Measured>,
}

/// The measurement of one task.
#[derive(Debug, Serialize)]
struct Measured {
    entries: u64,
    cpu_seconds: f64,
    /// CPU time of a step relative to one of the shortest task.
    growth: f64,
}

/// Parts of the longest task that the others are.
const PARTS: [u32; 4] = [10, 5, 2, 1];

pub(crate) fn run(folder: &Path, steps: u32, runs: u32, json: bool) -> anyhow::Result<()> {
    let executor = executor()?;
    for shape in Shape::ALL {
        let mut sizes: Vec<Measured> = Vec::new();
        for part in PARTS {
            let (entries, cpu_seconds) =
                executor.block_on(measure(folder, shape, steps / part, runs))?;
            let per_step = |seconds: f64, entries: u64| seconds / per(entries);
            let first = sizes.first();
            let first = first.map_or((cpu_seconds, entries), |one| (one.cpu_seconds, one.entries));
            sizes.push(Measured {
                entries,
                cpu_seconds,
                growth: per_step(cpu_seconds, entries) / per_step(first.0, first.1),
            });
        }
        let report = Report { shape, sizes };
        if json {
            crate::print(&serde_json::to_string(&report)?);
        } else {
            crate::print(&table(&report));
        }
    }
    Ok(())
}

/// The entries of a task, and the least CPU time that it took in several runs: other load only adds to it.
async fn measure(folder: &Path, shape: Shape, steps: u32, runs: u32) -> anyhow::Result<(u64, f64)> {
    let (mut entries, mut least) = (0, f64::INFINITY);
    for _ in 0..runs {
        let long = execute(folder, shape, steps).await?;
        entries = JournalBytes::of(&long.app.store())?.entries;
        least = least.min(long.cpu_seconds);
    }
    Ok((entries, least))
}

fn per(entries: u64) -> f64 {
    crate::figures::per(entries, 1)
}

fn table(report: &Report) -> String {
    let mut text = format!(
        "{}\n{:>8} {:>10} {:>10} {:>14}\n",
        report.shape.in_words(),
        "entries",
        "CPU s",
        "µs a step",
        "of the first"
    );
    for size in &report.sizes {
        let line = format!(
            "{:>8} {:>10.2} {:>10.1} {:>14.2}\n",
            size.entries,
            size.cpu_seconds,
            size.cpu_seconds / per(size.entries) * 1e6,
            size.growth
        );
        text.push_str(&line);
    }
    text
}
