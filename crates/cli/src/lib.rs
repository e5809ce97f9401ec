//! The command line: reads the arguments, runs one command, and maps its result to an exit code.

mod attachments;
mod cli;
mod commands;
mod exit;
mod history;
mod lines;
mod log;
mod output;
mod progress;
mod start;
mod stopping;
mod times;

use std::process::ExitCode;

use clap::Parser;

#[cfg(fuzzing)]
#[doc(hidden)]
pub use crate::commands::tasks::fuzzing;

use crate::cli::Cli;
use crate::exit::Exit;

/// Runs the command that the process was started with.
pub fn main() -> ExitCode {
    std::panic::set_hook(Box::new(output::panicked));
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(refusal) => return output::refuse(wants_json(), &refusal),
    };
    log::init(cli.verbose, cli.log_format);
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => {
            return output::report(
                cli.json,
                &anyhow::anyhow!("cannot start: {error}"),
                Exit::Broken,
            );
        }
    };
    let exit = runtime.block_on(commands::run(&cli));
    // A blocked read of the terminal must not keep a finished program alive.
    runtime.shutdown_background();
    match exit {
        Ok(exit) => exit.into(),
        Err(error) => {
            let exit = Exit::of(&error);
            output::report(cli.json, &error, exit)
        }
    }
}

/// Whether a command line that cannot be read asks for JSON.
fn wants_json() -> bool {
    let mut arguments = std::env::args_os().take_while(|argument| argument != "--");
    arguments.any(|argument| argument == "--json")
}
