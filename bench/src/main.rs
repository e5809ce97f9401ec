//! Measures Convoke's performance targets, one subcommand each.

mod app;
mod cold;
mod deadline;
mod decide;
mod figures;
mod journal;
mod lists;
mod long_task;
mod paused;
mod processes;
mod route;
mod steps;
mod store;

use std::path::PathBuf;

use clap::{Parser, Subcommand};

/// Benchmarks of Convoke.
#[derive(Debug, Parser)]
#[command(name = "convoke-bench")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Train and measure the local decision engine on CLINC150.
    Decide {
        /// The data: a JSON object with `train`, `val`, `oos_train` and `oos_val`.
        #[arg(long)]
        data: PathBuf,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Measure durable appends per second and the bytes of a long task.
    Store {
        /// A folder on the disk to measure.
        #[arg(long, default_value = "target/bench")]
        folder: PathBuf,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Measure lists, claims and submissions in a small and in a large store.
    Lists {
        /// A folder on the disk to measure.
        #[arg(long, default_value = "target/bench")]
        folder: PathBuf,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Measure the time from starting the binary to its first answer.
    Cold {
        /// The binary; by default the one next to this program.
        #[arg(long)]
        binary: Option<PathBuf>,
        /// The app to run.
        #[arg(long, default_value = "apps/todo")]
        app: PathBuf,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Measure the cost of tasks that wait for a person, and how fast one continues.
    Paused {
        /// Waiting tasks.
        #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..))]
        tasks: u32,
        /// A folder on the disk to measure.
        #[arg(long, default_value = "target/bench")]
        folder: PathBuf,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Measure requests per second on one core, end to end without a model.
    Route {
        /// Total number of requests.
        #[arg(long, default_value_t = 5_000, value_parser = clap::value_parser!(u32).range(1..))]
        requests: u32,
        /// Concurrent users, each of whom sends requests in sequence.
        #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..))]
        users: u32,
        /// The binary whose tool server is used; by default the one next to this program.
        #[arg(long)]
        binary: Option<PathBuf>,
        /// The app to run.
        #[arg(long, default_value = "apps/home")]
        app: PathBuf,
        /// A folder on the disk to measure.
        #[arg(long, default_value = "target/bench")]
        folder: PathBuf,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Measure how long after the limit an answer arrives when a tool server fails.
    Deadline {
        /// Runs per fault.
        #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
        runs: u32,
        /// A folder for the apps and their stores.
        #[arg(long, default_value = "target/bench")]
        folder: PathBuf,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Measure the journal of long tasks: its size, and the time to open it.
    Journal {
        /// Steps of the longest task; others have a tenth, a fifth and a half of them.
        #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(20..))]
        steps: u32,
        /// A folder on the disk to measure.
        #[arg(long, default_value = "target/bench")]
        folder: PathBuf,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Measure the CPU time of long tasks by the number of their steps.
    Steps {
        /// Steps of the longest task; others have a tenth, a fifth and a half of them.
        #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(20..))]
        steps: u32,
        /// Runs per task, of which the one with the least CPU time counts.
        #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
        runs: u32,
        /// A folder on the disk to measure.
        #[arg(long, default_value = "target/bench")]
        folder: PathBuf,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

// The allocator of the product, so that its memory is measured.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> anyhow::Result<()> {
    match Arguments::parse().command {
        Command::Decide { data, json } => decide::run(&data, json),
        Command::Lists { folder, json } => lists::run(&folder, json),
        Command::Store { folder, json } => store::run(&folder, json),
        Command::Cold { binary, app, json } => cold::run(binary, &app, json),
        Command::Paused {
            tasks,
            folder,
            json,
        } => paused::run(&folder, tasks, json),
        Command::Route {
            requests,
            users,
            binary,
            app,
            folder,
            json,
        } => {
            let options = route::Options {
                binary,
                app,
                folder,
                requests: requests as usize,
                users: users as usize,
            };
            route::run(&options, json)
        }
        Command::Deadline { runs, folder, json } => deadline::run(&folder, runs as usize, json),
        Command::Journal {
            steps,
            folder,
            json,
        } => journal::run(&folder, steps, json),
        Command::Steps {
            steps,
            runs,
            folder,
            json,
        } => steps::run(&folder, steps, runs, json),
    }
}

/// Prints a result.
#[expect(clippy::print_stdout, reason = "the program prints its results")]
fn print(text: &str) {
    println!("{text}");
}
