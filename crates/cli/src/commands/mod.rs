//! The commands, one file each.

mod chat;
pub(crate) mod check;
mod eval;
mod new;
mod progress;
mod resume;
mod run;
mod schema;
mod serve;
mod speaker;
pub(crate) mod tasks;
mod tools;

use crate::cli::{Cli, Command};
use crate::exit::Exit;

/// Runs the command that was asked for.
pub(crate) async fn run(cli: &Cli) -> anyhow::Result<Exit> {
    match &cli.command {
        Command::Run(args) => run::run(args, cli.json).await,
        Command::Chat(args) => chat::run(args, cli.json).await,
        Command::Resume(args) => resume::run(args, cli.json).await,
        Command::Serve(args) => serve::run(args, cli.json).await,
        Command::Tasks(command) => tasks::run(command, cli.json).await,
        Command::Check(args) => check::run(args, cli.json).await,
        Command::Eval(args) => eval::run(args, cli.json).await,
        Command::Schema { name } => schema::run(name.as_deref(), cli.json),
        Command::New { dir, from } => new::run(dir, from.as_deref(), cli.json),
        Command::Tools(command) => tools::run(command).await,
    }
}
