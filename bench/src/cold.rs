//! Time from starting the binary to the first answer, with and without starting a tool server.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;
use serde::Serialize;

/// Runs of each kind; the median is reported.
const RUNS: usize = 15;

/// The measurements, in milliseconds.
#[derive(Debug, Serialize)]
struct Report {
    /// A question that needs no tool.
    before_the_first_tool_server: f64,
    /// A request that starts the tool server and waits for its durable effect.
    to_the_first_effect: f64,
    /// `convoke --version`: the cost of starting any process.
    process: f64,
}

pub(crate) fn run(binary: Option<PathBuf>, app: &Path, json: bool) -> anyhow::Result<()> {
    let binary = match binary {
        Some(binary) => binary,
        None => std::env::current_exe()?.with_file_name("convoke"),
    };
    anyhow::ensure!(
        binary.exists(),
        "there is no binary at {}; build it with `cargo build --release`",
        binary.display()
    );
    let folder = tempfile::tempdir()?;
    let app = app
        .canonicalize()
        .with_context(|| format!("{}", app.display()))?;
    let app = app.to_str().context("the app's path is not UTF-8")?;
    let measure = |arguments: &[&str]| median(&binary, folder.path(), arguments);
    let report = Report {
        process: measure(&["--version"])?,
        before_the_first_tool_server: measure(&["run", app, "what is the weather like"])?,
        to_the_first_effect: measure(&["run", app, "remind me to buy milk"])?,
    };
    if json {
        crate::print(&serde_json::to_string(&report)?);
    } else {
        crate::print(&format!(
            "starting any process                       {:>8.1} ms\n\
             to an answer that needs no tool server     {:>8.1} ms\n\
             to an answer after the first durable call  {:>8.1} ms",
            report.process, report.before_the_first_tool_server, report.to_the_first_effect
        ));
    }
    Ok(())
}

fn median(binary: &Path, folder: &Path, arguments: &[&str]) -> anyhow::Result<f64> {
    let mut times: Vec<Duration> = Vec::with_capacity(RUNS);
    for _ in 0..RUNS {
        let started = Instant::now();
        let status = Command::new(binary)
            .args(arguments)
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .status()?;
        times.push(started.elapsed());
        anyhow::ensure!(
            status.success(),
            "`convoke {}` failed: {status}",
            arguments.join(" ")
        );
    }
    times.sort();
    Ok(times[RUNS / 2].as_secs_f64() * 1_000.0)
}
