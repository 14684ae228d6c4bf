//! `trainyard completions SHELL`: a script that completes commands, options and files.

use crate::args::{Cli, CompletionsArgs};
use crate::exit::Exit;
use clap::CommandFactory as _;
use trainyard_core::Result;

/// Prints the script for a shell.
pub fn run(args: &CompletionsArgs) -> Result<Exit> {
    clap_complete::generate(args.shell, &mut Cli::command(), "trainyard", &mut std::io::stdout());
    Ok(Exit::Done)
}
