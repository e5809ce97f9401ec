//! How long after the limit an answer arrives if tool servers fail: three data domains, each with a real
//! server over stdio, of which one or all are slow, stuck, silent or dead.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context;
use convoke::{IncomingRequest, Runtime, StoreChoice, TaskState, local_user};
use serde::Serialize;
use serde_json::{Value, json};

use crate::app::executor;
use crate::figures::Times;

/// The scripted server of the tests.
const SERVER: &str = include_str!("../../crates/cli/tests/servers/faulty.py");

/// The app's limits.
const TASK: Duration = Duration::from_secs(2);
const TOOL: Duration = Duration::from_secs(1);

/// How late an answer may be, in milliseconds.
const AIM_MS: f64 = 100.0;

const QUESTION: &str = "which products are abandoned most and how many units are in stock and \
    what is the price of boots";

/// A domain: its name, a word that only its questions contain, and example questions.
const DOMAINS: [(&str, &str, [&str; 3]); 3] = [
    (
        "carts",
        "abandoned",
        [
            "which products are abandoned most in carts",
            "how many carts are abandoned",
            "cart abandonment by product",
        ],
    ),
    (
        "stock",
        "stock",
        [
            "how many units are in stock",
            "which products are low in stock",
            "how full is the warehouse",
        ],
    ),
    (
        "prices",
        "price",
        [
            "what is the price of boots",
            "which prices have changed",
            "how much does a jacket cost",
        ],
    ),
];

/// A fault, and when the answer is due.
struct Case {
    what: &'static str,
    /// The fault of each domain's server.
    faults: [&'static str; 3],
    /// When the answer is due, counted from the question.
    due: Duration,
    /// Whether tools have a longer limit than the task.
    grants_more: bool,
}

impl Case {
    /// One faulty server, whose tool has its own limit.
    const fn one(what: &'static str, fault: &'static str) -> Self {
        Self {
            what,
            faults: ["none", "none", fault],
            due: TOOL,
            grants_more: false,
        }
    }

    /// Tools with a longer limit than the task.
    const fn until_the_task_ends(what: &'static str, faults: [&'static str; 3]) -> Self {
        Self {
            what,
            faults,
            due: TASK,
            grants_more: true,
        }
    }

    /// The number of domains that answer.
    fn working_domains(&self) -> usize {
        let is_sound = |fault: &&str| ["none", "slow:300"].contains(fault);
        self.faults.iter().filter(|fault| is_sound(fault)).count()
    }
}

const CASES: [Case; 12] = [
    Case::one("no fault", "none"),
    Case::one("answers after 300 ms", "slow:300"),
    Case::one("answers after 10 s", "slow:10000"),
    Case::one("stuck in the call", "hanging"),
    Case::one("forgets the call", "forgetful"),
    Case::one("silent at initialize", "mute"),
    Case::one("never lists its tools", "listless"),
    Case::one("dies in the call", "dying"),
    Case::one("dies at its start", "crashing"),
    Case::one("writes without end", "flooding"),
    Case::until_the_task_ends("stuck, longer than the task", ["none", "none", "hanging"]),
    Case::until_the_task_ends("nothing comes at all", ["hanging", "mute", "forgetful"]),
];

/// How long after the limit the answers of one case arrived; negative if before.
#[derive(Debug, Serialize)]
struct Row {
    what: &'static str,
    limit_ms: u128,
    median_ms: f64,
    max_ms: f64,
}

pub(crate) fn run(folder: &Path, runs: usize, json: bool) -> anyhow::Result<()> {
    let rows = executor()?.block_on(measure(folder, runs))?;
    if json {
        crate::print(&serde_json::to_string(&rows)?);
        return Ok(());
    }
    crate::print(&format!(
        "{runs} runs each; milliseconds from the limit to the answer\n{:<32}{:>8}{:>10}{:>10}",
        "the server", "limit", "median", "longest"
    ));
    for row in &rows {
        let Row {
            what,
            limit_ms,
            median_ms,
            max_ms,
        } = row;
        let missed = if *max_ms > AIM_MS { "  missed" } else { "" };
        crate::print(&format!(
            "{what:<32}{limit_ms:>8}{median_ms:>10.1}{max_ms:>10.1}{missed}"
        ));
    }
    Ok(())
}

async fn measure(folder: &Path, runs: usize) -> anyhow::Result<Vec<Row>> {
    std::fs::create_dir_all(folder).with_context(|| format!("{}", folder.display()))?;
    // Tool servers run in their own folders, so the path must be absolute.
    let folder = &folder.canonicalize()?;
    let mut rows = Vec::with_capacity(CASES.len());
    for case in &CASES {
        let mut took = Vec::with_capacity(runs);
        for _ in 0..runs {
            took.push(answer(folder, case).await?);
        }
        let limit = case.due.as_secs_f64() * 1_000.0;
        let times = Times::of(took);
        rows.push(Row {
            what: case.what,
            limit_ms: case.due.as_millis(),
            median_ms: times.median - limit,
            max_ms: times.max - limit,
        });
    }
    Ok(rows)
}

/// The time to one answer, which must contain what the working servers say. Every run starts without
/// running servers.
async fn answer(folder: &Path, case: &Case) -> anyhow::Result<Duration> {
    let folder = tempfile::tempdir_in(folder)?;
    let app = folder.path().join("app");
    write(&app, case)?;
    let runtime = Runtime::builder()
        .app(&app)
        .store(StoreChoice::Sqlite(folder.path().join("store.db")))
        .build()
        .await?;
    let incoming = IncomingRequest::new(local_user(), QUESTION);
    let started = Instant::now();
    let ended = runtime.ask(incoming).await?;
    let took = started.elapsed();
    runtime.shutdown().await?;
    let answer = ended.answer.context("no answer came")?;
    let state = match case.working_domains() {
        0 => TaskState::Failed,
        _ => TaskState::Completed,
    };
    anyhow::ensure!(
        ended.status == state
            && answer.sources.len() == case.working_domains()
            && answer.partial_results == (case.working_domains() < DOMAINS.len()),
        "{} is {}: {answer:?}",
        case.what,
        ended.status
    );
    Ok(took)
}

fn write(app: &Path, case: &Case) -> anyhow::Result<()> {
    let script = app.join("server.py");
    let (mut servers, mut domains) = (Vec::new(), Vec::new());
    for ((name, keyword, examples), fault) in DOMAINS.iter().zip(case.faults) {
        let server = format!("{name}_server");
        domains.push(json!({
            "name": name, "display_name": name, "description": format!("All about {name}."),
            "examples": examples, "keywords": [keyword], "mcp_tools": [format!("{server}.ask")],
        }));
        let own = if case.grants_more {
            json!({ "ask": { "timeout_seconds": 60 } })
        } else {
            json!({})
        };
        let words = format!("The {name} are told of.");
        servers.push(json!({
            "name": server, "tools": own,
            "transport": { "stdio": { "command": "python3", "args": [script, fault, words] } },
        }));
    }
    let limits = json!({ "task_seconds": TASK.as_secs(), "tool_seconds": TOOL.as_secs() });
    let agent = json!({ "name": "clerk", "role": "Is there.", "system_prompt": "You are there." });
    let files: [(&str, Value); 4] = [
        ("convoke.json", json!({ "name": "bench", "limits": limits })),
        ("agents/clerk.json", agent),
        ("config/domains.json", json!({ "domains": domains })),
        ("config/mcp_servers.json", json!({ "servers": servers })),
    ];
    for (file, content) in files {
        let path = app.join(file);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)?;
        }
        std::fs::write(path, content.to_string())?;
    }
    std::fs::write(script, SERVER)?;
    Ok(())
}
