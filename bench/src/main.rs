//! Measures what Convoke promises, one subcommand per promise.

mod decide;

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
}

fn main() -> anyhow::Result<()> {
    match Arguments::parse().command {
        Command::Decide { data, json } => decide::run(&data, json),
    }
}
