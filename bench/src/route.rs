//! Requests end to end without a model: decided locally, executed by a real tool server over stdio, with
//! a durable journal. Measures throughput on one core.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use convoke::{IncomingRequest, Runtime, StoreChoice, TaskState, UserId};
use serde::Serialize;
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::figures::Times;
use crate::processes::{CpuSeconds, cores};

/// Messages to the house with the expected skill. Half of them read, half change something.
const REQUESTS: [(&str, &str); 16] = [
    ("turn on the kitchen lights", "turn_on_light"),
    ("which lights are on", "light_status"),
    ("heat the bedroom to 19", "set_temperature"),
    ("how warm is it in the living room", "climate_status"),
    ("play some jazz in the kitchen", "play_music"),
    ("what is playing", "media_status"),
    ("lock the back door please", "lock_door"),
    ("are all the doors locked", "security_status"),
    ("dim the lights in the bedroom", "dim_light"),
    ("is a window open", "window_status"),
    ("turn off the living room lights", "turn_off_light"),
    ("what's the humidity in the office", "humidity"),
    ("volume 25 percent in the kitchen", "set_volume"),
    ("which scenes are there", "list_scenes"),
    ("switch to night mode", "activate_scene"),
    ("is there any movement in the house", "motion_status"),
];

/// Messages per conversation; then the user starts another one.
const CONVERSATION: usize = 8;

/// Requests before measuring, so that starting the tool server and training the classifier are not
/// counted.
const WARM_UP: usize = 64;

/// Requests in sequence.
const ONE_AT_A_TIME: usize = 1_000;

/// The measurements.
#[derive(Debug, Serialize)]
struct Report {
    cores: usize,
    one_at_a_time_ms: Times,
    requests: usize,
    users: usize,
    seconds: f64,
    requests_a_second: f64,
    cpu_seconds: CpuSeconds,
    requests_a_cpu_second: f64,
    requests_a_cpu_second_with_tool_server: f64,
    /// From request to answer under load, in milliseconds.
    under_load_ms: Times,
}

/// Options of the measurement.
#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) binary: Option<PathBuf>,
    pub(crate) app: PathBuf,
    pub(crate) folder: PathBuf,
    pub(crate) requests: usize,
    pub(crate) users: usize,
}

pub(crate) fn run(options: &Options, json: bool) -> anyhow::Result<()> {
    // One thread per available core.
    let executor = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(cores()?)
        .enable_all()
        .build()?;
    let report = executor.block_on(measure(options))?;
    if json {
        crate::print(&serde_json::to_string(&report)?);
        return Ok(());
    }
    crate::print(&format!(
        "cores that may be used                      {:>10}\n\
         requests                                    {:>10}\n\
         users at once                               {:>10}\n\
         seconds                                     {:>10.2}\n\
         requests a second                           {:>10.0}\n\
         CPU seconds of this process                 {:>10.2}\n\
         CPU seconds of the tool server              {:>10.2}\n\
         requests a CPU second                       {:>10.0}\n\
         requests a CPU second with the tool server  {:>10.0}",
        report.cores,
        report.requests,
        report.users,
        report.seconds,
        report.requests_a_second,
        report.cpu_seconds.own,
        report.cpu_seconds.children,
        report.requests_a_cpu_second,
        report.requests_a_cpu_second_with_tool_server,
    ));
    for (what, times) in [
        ("one at a time", &report.one_at_a_time_ms),
        ("with all users", &report.under_load_ms),
    ] {
        let Times {
            median, p99, max, ..
        } = times;
        crate::print(&format!(
            "{what:<44}{median:>10.2} ms median, {p99:.2} ms p99, {max:.2} ms max"
        ));
    }
    Ok(())
}

async fn measure(options: &Options) -> anyhow::Result<Report> {
    let folder = &options.folder;
    std::fs::create_dir_all(folder).with_context(|| format!("{}", folder.display()))?;
    let data = tempfile::tempdir_in(folder)?;
    let runtime = Arc::new(start(options, data.path()).await?);
    as_one_user(&runtime, WARM_UP, 0).await?;
    let one_at_a_time = as_one_user(&runtime, ONE_AT_A_TIME, 0).await?;
    let before = CpuSeconds::now()?;
    let started = Instant::now();
    let mut users = JoinSet::new();
    for user in 0..options.users {
        let runtime = Arc::clone(&runtime);
        // The first users send one more request if the number is not divisible.
        let share =
            options.requests / options.users + usize::from(user < options.requests % options.users);
        users.spawn(async move { as_one_user(&runtime, share, user).await });
    }
    let mut under_load = Vec::with_capacity(options.requests);
    while let Some(times) = users.join_next().await {
        under_load.extend(times??);
    }
    let seconds = started.elapsed().as_secs_f64();
    let cpu_seconds = CpuSeconds::now()?.since(before);
    let runtime = Arc::into_inner(runtime).context("somebody still uses the runtime")?;
    runtime.shutdown().await?;
    let requests = under_load.len();
    Ok(Report {
        cores: cores()?,
        one_at_a_time_ms: Times::of(one_at_a_time),
        requests,
        users: options.users,
        seconds,
        requests_a_second: rate(requests, seconds),
        requests_a_cpu_second: rate(requests, cpu_seconds.own),
        requests_a_cpu_second_with_tool_server: rate(requests, cpu_seconds.all()),
        cpu_seconds,
        under_load_ms: Times::of(under_load),
    })
}

/// The app with a journal on disk and the built-in tool server as a child process.
async fn start(options: &Options, data: &Path) -> anyhow::Result<Runtime> {
    let binary = match &options.binary {
        Some(binary) => binary.clone(),
        None => std::env::current_exe()?.with_file_name("convoke"),
    };
    anyhow::ensure!(
        binary.exists(),
        "there is no binary at {}; build it with `cargo build --release`",
        binary.display()
    );
    let app = options.app.canonicalize();
    let runtime = Runtime::builder()
        .app(app.with_context(|| format!("{}", options.app.display()))?)
        .data(data)
        .store(StoreChoice::Sqlite(data.join("store.db")))
        .convoke_program(binary)
        .build();
    Ok(runtime.await?)
}

/// Sends requests in sequence as a new user, starting at this position of the list.
async fn as_one_user(
    runtime: &Runtime,
    requests: usize,
    place: usize,
) -> anyhow::Result<Vec<Duration>> {
    let user = UserId::from(runtime.ids().next());
    let mut times = Vec::with_capacity(requests);
    let mut conversation = runtime.ids().next();
    for number in 0..requests {
        if number % CONVERSATION == 0 {
            conversation = runtime.ids().next();
        }
        let (text, skill) = REQUESTS[(place + number) % REQUESTS.len()];
        let started = Instant::now();
        ask(runtime, user, conversation, text, skill).await?;
        times.push(started.elapsed());
    }
    Ok(times)
}

/// Sends one request, which must be decided correctly and executed.
async fn ask(
    runtime: &Runtime,
    user: UserId,
    conversation: Uuid,
    text: &str,
    skill: &str,
) -> anyhow::Result<()> {
    let incoming = IncomingRequest::new(user, text).conversation(conversation);
    let ended = runtime.ask(incoming).await?;
    let answer = ended.answer.context("no answer came")?;
    anyhow::ensure!(
        ended.status == TaskState::Completed
            && answer.tool_calls.len() == 1
            && answer
                .metadata
                .get("intent")
                .is_some_and(|intent| intent == skill),
        "{text:?} is {}: {:?}",
        ended.status,
        answer.text
    );
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "a figure needs no more digits")]
fn rate(requests: usize, seconds: f64) -> f64 {
    requests as f64 / seconds
}
