//! Measures what Convoke promises, one subcommand per promise.

mod cold;
mod decide;
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
    /// Measure durable appends a second and the bytes of a long task.
    Store {
        /// A folder on the disk to be measured.
        #[arg(long, default_value = "target/bench")]
        folder: PathBuf,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Measure the time from starting the binary to its first answer.
    Cold {
        /// The binary; by default the one built beside this program.
        #[arg(long)]
        binary: Option<PathBuf>,
        /// The app to ask.
        #[arg(long, default_value = "apps/todo")]
        app: PathBuf,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

fn main() -> anyhow::Result<()> {
    match Arguments::parse().command {
        Command::Decide { data, json } => decide::run(&data, json),
        Command::Store { folder, json } => store::run(&folder, json),
        Command::Cold { binary, app, json } => cold::run(binary, &app, json),
    }
}

/// Prints a result.
#[expect(
    clippy::print_stdout,
    reason = "printing results is what this program is for"
)]
fn print(text: &str) {
    println!("{text}");
}
