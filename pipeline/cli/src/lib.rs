//! Trainyard as a library: the command line of a program with a [`Catalogue`].
//!
//! ```no_run
//! use trainyard::prelude::*;
//!
//! fn main() -> std::process::ExitCode {
//!     trainyard::main(Catalogue::builder())
//! }
//! ```

#![warn(missing_docs)]

mod args;
mod commands;
mod compiled;
mod exit;
mod logging;
mod names;
mod output;
pub mod prelude;
mod session;
mod shipped;

use args::{Cli, Command};
use clap::Parser as _;
use exit::Exit;
use std::process::ExitCode;
use std::sync::Arc;
use trainyard_app::{Builder, Catalogue, attempt, query_process};
use trainyard_core::Error;

/// Parses the command line, runs one command, and returns its exit code (`docs/workflows.md`).
///
/// A program starts itself again as an attempt, a query or a tool worker; these also start here, so the program must
/// not run anything else.
pub fn main(builder: Builder) -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // `--help` and `--version` are not errors.
            let code = if error.use_stderr() { Exit::Invalid } else { Exit::Done };
            let _ = error.print();
            return ExitCode::from(code as u8);
        }
    };
    if let Err(error) = logging::init(&cli.log) {
        return ExitCode::from(failed(&error) as u8);
    }
    match cli.command {
        // Workers start often and need no catalogue.
        Command::QueryWorker => ExitCode::from(query_process::worker::main()),
        Command::ToolWorker { .. } => ExitCode::from(u8::try_from(trainyard_envs::tools::worker::main()).unwrap_or(1)),
        command => match builder.build() {
            Ok(catalogue) => run(command, &Arc::new(catalogue)),
            Err(error) => ExitCode::from(failed(&error) as u8),
        },
    }
}

fn run(command: Command, catalogue: &Arc<Catalogue>) -> ExitCode {
    let outcome = match command {
        Command::Run(args) => commands::run::run(&args, catalogue),
        Command::Check(args) => commands::check::run(&args, catalogue),
        Command::Plan(args) => commands::plan::run(&args, catalogue),
        Command::Try(args) => commands::try_stage::run(&args, catalogue),
        Command::Runs(args) => commands::runs::run(&args, catalogue),
        Command::Logs(args) => commands::logs::run(&args, catalogue),
        Command::Explain(args) => commands::explain::run(&args, catalogue),
        Command::Artifacts(args) => commands::artifacts::run(&args, catalogue),
        Command::Serve(args) => commands::serve::run(&args, catalogue),
        Command::ServeModel(args) => commands::serve_model::run(&args, catalogue),
        Command::ServeTools(args) => commands::serve_tools::run(&args, catalogue),
        Command::Schedules(args) => commands::schedules::run(&args, catalogue),
        Command::Stages(args) => commands::stages::run(&args, catalogue),
        Command::Recipes(args) => commands::recipes::run(&args, catalogue),
        Command::Schema(args) => commands::schema::run(&args, catalogue),
        Command::Init(args) => commands::init::run(&args, catalogue),
        Command::Doctor(args) => commands::doctor::run(&args, catalogue),
        Command::Conformance(args) => commands::conformance::run(&args, catalogue),
        Command::Parity(args) => commands::parity::run(&args),
        Command::Completions(args) => commands::completions::run(&args),
        // The error was reported to the engine; the exit code only indicates success.
        Command::Attempt(args) => Ok(attempt::main(&args.url, catalogue).map_or(Exit::Failed, |()| Exit::Done)),
        Command::QueryWorker | Command::ToolWorker { .. } => return ExitCode::from(Exit::Invalid as u8),
    };
    ExitCode::from(outcome.unwrap_or_else(|error| failed(&error)) as u8)
}

fn failed(error: &Error) -> Exit {
    output::human::print_error(error);
    Exit::from(error)
}
