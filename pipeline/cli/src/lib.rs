//! Provides Trainyard as a library: the command line of a program with a custom [`Catalogue`].
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
mod complete;
mod exit;
mod logging;
mod output;
mod pages;
pub mod prelude;
mod session;
mod shipped;
mod top;

use args::{Cli, CliCommand};
use clap::{CommandFactory as _, Parser as _};
use exit::CliExit;
use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::sync::Arc;
use trainyard_app::{Catalogue, CatalogueBuilder, attempt, query_process};
use trainyard_core::Error;

/// Parses the command line, runs one command, and returns its exit code (`docs/workflows.md`). Prints errors on stderr.
///
/// The program also starts itself as an attempt, a query worker or a tool worker, which run through this function. So
/// the program should only call this function.
pub fn main(builder: CatalogueBuilder) -> ExitCode {
    if complete::is_requested() {
        complete::respond(Cli::command, builder);
        return ExitCode::SUCCESS;
    }
    let cli = match Cli::try_parse().and_then(Cli::settled) {
        Ok(cli) => cli,
        Err(error) => {
            // `--help` and `--version` are not errors.
            let code = if error.use_stderr() { CliExit::Invalid } else { CliExit::Done };
            let _ = error.print();
            return ExitCode::from(code as u8);
        }
    };
    // Diagnostics on the terminal would be drawn over the screen.
    let draws = matches!(cli.command, CliCommand::Top(_)) && std::io::stderr().is_terminal();
    if !draws && let Err(error) = logging::init(&cli.log) {
        return ExitCode::from(failed(&error) as u8);
    }
    match cli.command {
        // Workers are started often and need no catalogue.
        CliCommand::QueryWorker => ExitCode::from(query_process::worker::main()),
        CliCommand::ToolWorker { .. } => {
            ExitCode::from(u8::try_from(trainyard_envs::tools::worker::main()).unwrap_or(1))
        }
        command => match builder.build() {
            Ok(catalogue) => run(command, &Arc::new(catalogue)),
            Err(error) => ExitCode::from(failed(&error) as u8),
        },
    }
}

fn run(command: CliCommand, catalogue: &Arc<Catalogue>) -> ExitCode {
    let outcome = match command {
        CliCommand::Run(args) => commands::run::run(&args, catalogue),
        CliCommand::Check(args) => commands::check::run(&args, catalogue),
        CliCommand::Plan(args) => commands::plan::run(&args, catalogue),
        CliCommand::Try(args) => commands::try_stage::run(&args, catalogue),
        CliCommand::Runs(args) => commands::runs::run(&args, catalogue),
        CliCommand::Top(args) => commands::top::run(&args, catalogue),
        CliCommand::Pages(args) => commands::pages::run(&args, catalogue),
        CliCommand::Report(args) => commands::report::run(&args, catalogue),
        CliCommand::Logs(args) => commands::logs::run(&args, catalogue),
        CliCommand::Explain(args) => commands::explain::run(&args, catalogue),
        CliCommand::Artifacts(args) => commands::artifacts::run(&args, catalogue),
        CliCommand::Search(args) => commands::search::run(&args, catalogue),
        CliCommand::Serve(args) => commands::serve::run(&args, catalogue),
        CliCommand::ServeModel(args) => commands::serve_model::run(&args, catalogue),
        CliCommand::ServeTools(args) => commands::serve_tools::run(&args, catalogue),
        CliCommand::Schedules(args) => commands::schedules::run(&args, catalogue),
        CliCommand::Stages(args) => commands::stages::run(&args, catalogue),
        CliCommand::Recipes(args) => commands::recipes::run(&args, catalogue),
        CliCommand::Schema(args) => commands::schema::run(&args, catalogue),
        CliCommand::Init(args) => commands::init::run(&args, catalogue),
        CliCommand::Doctor(args) => commands::doctor::run(&args, catalogue),
        CliCommand::Conformance(args) => commands::conformance::run(&args, catalogue),
        CliCommand::Parity(args) => commands::parity::run(&args),
        CliCommand::Completions(args) => commands::completions::run(&args),
        // The attempt has already reported the error. The exit code only indicates success.
        CliCommand::Attempt(args) => {
            Ok(attempt::main(&args.url, catalogue).map_or(CliExit::Failed, |()| CliExit::Done))
        }
        CliCommand::QueryWorker | CliCommand::ToolWorker { .. } => return ExitCode::from(CliExit::Invalid as u8),
    };
    ExitCode::from(outcome.unwrap_or_else(|error| failed(&error)) as u8)
}

fn failed(error: &Error) -> CliExit {
    output::human::print_error(error);
    CliExit::from(error)
}
