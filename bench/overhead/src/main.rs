//! Runs an agent through the library with the same command line and output as the hand-written loop it
//! is compared with: four model calls and three calls of a Rust tool `add` per task.

mod measure;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::{Parser, Subcommand, ValueEnum};
use convoke::{AgentFields, Runtime, RustTool, StoreChoice};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

const SYSTEM: &str = "You are a helpful assistant. Use the tools.";
const INPUT: &str = "Add the numbers step by step and tell me the result.";

/// Duration of the slow tool.
const SLOW: Duration = Duration::from_millis(50);

#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run tasks in this process and print one line of JSON
    Run(RunArgs),
}

#[derive(Debug, clap::Args)]
struct RunArgs {
    /// The model server
    #[arg(long, default_value = "http://127.0.0.1:9100/v1")]
    base_url: String,
    /// What the scripted model does
    #[arg(long, default_value = "react-3")]
    model: String,
    /// Tasks to run
    #[arg(long, default_value_t = 1_000)]
    n: usize,
    /// Tasks in flight
    #[arg(long, default_value_t = 1)]
    concurrency: usize,
    /// Where the journal goes
    #[arg(long, default_value = "none")]
    durable: Durable,
    /// The tool that the model calls
    #[arg(long, default_value = "add")]
    tool: String,
    /// Threads of the runtime
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Tasks that are run before measuring
    #[arg(long, default_value_t = 20)]
    warmup: usize,
    /// When to stop at the latest
    #[arg(long, default_value_t = 30.0)]
    max_seconds: f64,
    /// One task from the start of the process
    #[arg(long)]
    cold: bool,
    /// A folder on the disk to be measured
    #[arg(long, default_value = "target/bench")]
    dir: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Durable {
    /// In memory
    None,
    /// SQLite with synchronous FULL and group commit
    SqliteFullGroup,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Numbers {
    a: i64,
    b: i64,
}

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> anyhow::Result<()> {
    let Command::Run(args) = Arguments::parse().command;
    let runtime = match args.threads {
        1 => tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?,
        threads => tokio::runtime::Builder::new_multi_thread()
            .worker_threads(threads)
            .enable_all()
            .build()?,
    };
    runtime.block_on(run(&args))
}

async fn run(args: &RunArgs) -> anyhow::Result<()> {
    std::fs::create_dir_all(&args.dir).with_context(|| format!("{}", args.dir.display()))?;
    let folder = tempfile::tempdir_in(&args.dir)?;
    let store = match args.durable {
        Durable::None => StoreChoice::Memory,
        Durable::SqliteFullGroup => StoreChoice::Sqlite(folder.path().join("store.db")),
    };
    let slow = args.tool.starts_with("slow");
    let add = RustTool::new(
        &*args.tool,
        "Add two numbers.",
        move |_, numbers: Numbers| async move {
            if slow {
                tokio::time::sleep(SLOW).await;
            }
            Ok((numbers.a + numbers.b).to_string())
        },
    )
    .read_only();
    let agent: AgentFields = serde_json::from_value(json!({
        "name": "adder",
        "role": "Adds numbers.",
        "system_prompt": SYSTEM,
        "tools": [format!("rust.{}", args.tool)],
        "tool_mode": "native",
        "llm_config": { "endpoint": args.base_url, "model": args.model, "api_key": "x" },
    }))?;
    let concurrent = u32::try_from(args.concurrency.max(1))?;
    let runtime = Runtime::builder()
        .agent(agent)
        .tool(add)
        .store(store)
        .concurrent_tasks(concurrent)
        .model_options(convoke::ModelOptions {
            max_concurrent: args.concurrency.max(1),
            ..convoke::ModelOptions::default()
        })
        .build()
        .await?;
    let runtime = Arc::new(runtime);
    let idle = measure::resident_mb("VmRSS:");
    if args.cold {
        let answer = runtime.run(INPUT).await?;
        measure::print(&format!("FIRST_ANSWER {}", answer.text));
        return Ok(());
    }
    let label = match args.durable {
        Durable::None => "convoke",
        Durable::SqliteFullGroup => "convoke+sqlite-full-group",
    };
    measure::measure(
        label,
        &runtime,
        args.n,
        args.concurrency,
        args.warmup,
        args.max_seconds,
        idle,
    )
    .await
}
