//! Implements `trainyard completions SHELL`, which prints a script that completes commands, options, files, and the
//! names of runs, stages, artifacts, stage kinds and recipes.

use crate::args::CompletionsArgs;
use crate::complete;
use crate::exit::CliExit;
use crate::output::human::print_raw;
use trainyard_core::Result;

/// Prints the script for a shell.
pub fn run(args: &CompletionsArgs) -> Result<CliExit> {
    print_raw(&complete::script(&args.shell.to_string())?);
    Ok(CliExit::Done)
}
