//! A closed loop over the runtime, and its measurements: the same fields as the hand-written loop
//! prints.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use convoke::Runtime;
use serde_json::json;
use tokio::task::JoinSet;

/// The result of one closed loop.
#[derive(Default)]
struct Load {
    millis: Vec<f64>,
    right: usize,
    wrong: usize,
    last: String,
}

#[expect(
    clippy::cast_precision_loss,
    reason = "the numbers of a benchmark are small"
)]
pub(crate) async fn measure(
    label: &str,
    runtime: &Arc<Runtime>,
    tasks: usize,
    concurrency: usize,
    warmup: usize,
    max_seconds: f64,
    idle_mb: f64,
) -> anyhow::Result<()> {
    let limit = Duration::from_secs_f64(max_seconds);
    if warmup > 0 {
        load(runtime, warmup, concurrency.min(warmup), limit).await?;
    }
    print("MEASURE_START");
    // Resets the peak, so that the printed one belongs to the measured part.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
    let (user, system) = cpu_seconds();
    let started = Instant::now();
    let mut load = load(runtime, tasks, concurrency, limit).await?;
    let wall = started.elapsed().as_secs_f64();
    let (user_after, system_after) = cpu_seconds();
    let (user, system) = (user_after - user, system_after - system);
    load.millis.sort_by(f64::total_cmp);
    let done = load.millis.len().max(1) as f64;
    let at = |share: f64| percentile(&load.millis, share);
    print(
        &json!({
            "peer": label, "n": load.millis.len(), "concurrency": concurrency,
            "ok": load.right, "errors": load.wrong, "last": load.last,
            "wall_s": wall, "tasks_per_s": load.millis.len() as f64 / wall,
            "cpu_s": user + system, "cpu_user_s": user, "cpu_sys_s": system,
            "cpu_ms_per_task": (user + system) * 1e3 / done,
            "mean_ms": load.millis.iter().sum::<f64>() / done,
            "min_ms": at(0.0), "p50_ms": at(0.5), "p90_ms": at(0.9), "p99_ms": at(0.99), "max_ms": at(1.0),
            "rss_idle_mb": idle_mb, "rss_peak_mb": resident_mb("VmHWM:"),
        })
        .to_string(),
    );
    Ok(())
}

/// Runs this many workers until all tasks are taken or the time is up.
async fn load(
    runtime: &Arc<Runtime>,
    tasks: usize,
    concurrency: usize,
    limit: Duration,
) -> anyhow::Result<Load> {
    let next = Arc::new(AtomicUsize::new(0));
    let started = Instant::now();
    let mut workers = JoinSet::new();
    for _ in 0..concurrency.min(tasks) {
        let (runtime, next) = (Arc::clone(runtime), Arc::clone(&next));
        workers.spawn(async move {
            let mut load = Load::default();
            while started.elapsed() < limit && next.fetch_add(1, Ordering::Relaxed) < tasks {
                let task = Instant::now();
                match runtime.run(crate::INPUT).await {
                    Ok(answer) if answer.text.contains("ANSWER") => load.right += 1,
                    Ok(answer) => {
                        load.wrong += 1;
                        load.last = format!("unexpected: {}", answer.text);
                    }
                    Err(error) => {
                        load.wrong += 1;
                        load.last = format!("error: {error}");
                    }
                }
                load.millis.push(task.elapsed().as_secs_f64() * 1e3);
            }
            load
        });
    }
    let mut whole = Load::default();
    while let Some(part) = workers.join_next().await {
        let part = part?;
        whole.millis.extend(part.millis);
        whole.right += part.right;
        whole.wrong += part.wrong;
        if !part.last.is_empty() {
            whole.last = part.last;
        }
    }
    Ok(whole)
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "an index into a small list"
)]
fn percentile(sorted: &[f64], share: f64) -> f64 {
    let index = (sorted.len().saturating_sub(1) as f64 * share).round() as usize;
    sorted.get(index).copied().unwrap_or(0.0)
}

/// CPU seconds of this process, in user and kernel mode.
#[expect(
    clippy::cast_precision_loss,
    reason = "the numbers of a benchmark are small"
)]
fn cpu_seconds() -> (f64, f64) {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = text
        .rsplit(')')
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .collect();
    let ticks = rustix::param::clock_ticks_per_second() as f64;
    let seconds = |index: usize| {
        fields
            .get(index)
            .and_then(|field| field.parse::<f64>().ok())
            .unwrap_or(0.0)
            / ticks
    };
    (seconds(11), seconds(12))
}

/// A field of this process's status, in megabytes.
pub(crate) fn resident_mb(key: &str) -> f64 {
    std::fs::read_to_string("/proc/self/status")
        .unwrap_or_default()
        .lines()
        .find_map(|line| {
            line.strip_prefix(key)?
                .trim()
                .trim_end_matches(" kB")
                .parse::<f64>()
                .ok()
        })
        .unwrap_or(0.0)
        / 1024.0
}

#[expect(clippy::print_stdout, reason = "the program prints its results")]
pub(crate) fn print(text: &str) {
    println!("{text}");
}
