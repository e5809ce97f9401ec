//! The commands, one file each.

mod chat;
pub(crate) mod check;
mod completions;
mod conversations;
mod dev;
mod doctor;
mod eval;
mod keys;
mod new;
mod progress;
pub(crate) mod refusal;
mod resume;
mod run;
mod schema;
mod serve;
mod speaker;
pub(crate) mod tasks;
mod token;
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
        Command::Token(args) => token::run(args, cli.json),
        Command::Keys(command) => keys::run(command, cli.json),
        Command::Tasks(command) => tasks::run(command, cli.json).await,
        Command::Conversations(command) => conversations::run(command, cli.json).await,
        Command::Check(args) => check::run(args, cli.json).await,
        Command::Eval(args) => eval::run(args, cli.json).await,
        Command::Schema { name, into } => match into {
            Some(app) => schema::write(app, cli.json),
            None => schema::run(name.as_deref(), cli.json),
        },
        Command::New(args) => new::run(args, cli.json),
        Command::Dev(args) => dev::run(args, cli.json).await,
        Command::Doctor(args) => doctor::run(args, cli.json).await,
        Command::Completions { shell } => completions::run(*shell),
        Command::Tools(command) => tools::run(command).await,
    }
}
