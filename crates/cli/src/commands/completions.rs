//! `convoke completions`: what a shell reads to complete commands, options and values.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::cli::Cli;
use crate::exit::Exit;
use crate::output;

pub(crate) fn run(shell: Shell) -> anyhow::Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "convoke", &mut script);
    output::line(String::from_utf8(script)?.trim_end());
    Ok(Exit::Done)
}
