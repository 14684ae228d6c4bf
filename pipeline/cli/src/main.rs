//! The `trainyard` binary: parses the command line, calls one command, turns its outcome into an exit code.

mod args;
mod attempt;
mod commands;
mod compiled;
mod exit;
mod in_process;
mod logging;
mod machine;
mod names;
mod notifications;
mod output;
mod query_process;
mod session;
mod shipped;
mod wiring;
mod world;

use args::{Cli, Command};
use clap::Parser as _;
use exit::Exit;
use std::process::ExitCode;

// Training allocates and frees the same large buffers at every step; the system allocator gives them back to the kernel
// each time and pays for zeroed pages again. One global allocator serves all subcommands.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // `--help` and `--version` are not mistakes.
            let code = if error.use_stderr() { Exit::Invalid } else { Exit::Done };
            let _ = error.print();
            return ExitCode::from(code as u8);
        }
    };
    if let Err(error) = logging::init(&cli.log) {
        output::human::print_error(&error);
        return ExitCode::from(Exit::from(&error) as u8);
    }
    let outcome = match cli.command {
        Command::Run(args) => commands::run::run(&args),
        Command::Check(args) => commands::check::run(&args),
        Command::Plan(args) => commands::plan::run(&args),
        Command::Runs(args) => commands::runs::run(&args),
        Command::Logs(args) => commands::logs::run(&args),
        Command::Explain(args) => commands::explain::run(&args),
        Command::Artifacts(args) => commands::artifacts::run(&args),
        Command::Stages(args) => commands::stages::run(&args),
        Command::Recipes(args) => commands::recipes::run(&args),
        Command::Schema(args) => commands::schema::run(&args),
        Command::Init(args) => commands::init::run(&args),
        Command::Doctor(args) => commands::doctor::run(&args),
        Command::Parity(args) => commands::parity::run(&args),
        Command::Completions(args) => commands::completions::run(&args),
        Command::Attempt(args) => return exit_of_attempt(attempt::main(&args.url)),
        Command::QueryWorker => return ExitCode::from(query_process::worker::main()),
        Command::ToolWorker => return ExitCode::from(u8::try_from(trainyard_envs::tools::worker::main()).unwrap_or(1)),
    };
    let exit = outcome.unwrap_or_else(|error| {
        output::human::print_error(&error);
        Exit::from(&error)
    });
    ExitCode::from(exit as u8)
}

/// The engine reads the error from stdout; the code only tells success.
fn exit_of_attempt(outcome: trainyard_core::Result<()>) -> ExitCode {
    ExitCode::from(outcome.map_or_else(|e| Exit::from(&e) as u8, |()| 0))
}
