//! Implements `trainyard completions SHELL`, which prints a script that completes commands, options and files.

use crate::args::{Cli, CompletionsArgs};
use crate::exit::CliExit;
use clap::CommandFactory as _;
use trainyard_core::Result;

/// Prints the script for a shell.
pub fn run(args: &CompletionsArgs) -> Result<CliExit> {
    clap_complete::generate(args.shell, &mut Cli::command(), "trainyard", &mut std::io::stdout());
    Ok(CliExit::Done)
}
