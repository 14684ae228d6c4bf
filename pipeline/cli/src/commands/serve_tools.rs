//! Implements `trainyard serve-tools TOOL…`, which serves tools to clients of the Model Context Protocol on standard
//! input and output.

use crate::args::ServeToolsArgs;
use crate::compiled;
use crate::exit::CliExit;
use crate::output::human::print_note;
use serde_json::Value;
use std::io::{BufRead as _, Write as _};
use std::sync::Arc;
use trainyard_app::Catalogue;
use trainyard_app::tools::choices;
use trainyard_core::{Error, Result};
use trainyard_envs::tools::mcp::ToolServer;
use trainyard_envs::{ToolHost, ToolLimits};

/// Serves the tools until standard input ends or the client closes standard output.
pub fn run(args: &ServeToolsArgs, catalogue: &Arc<Catalogue>) -> Result<CliExit> {
    let chosen = choices(catalogue, &args.tools, &compiled::working_directory()?)?;
    // Standard output is reserved for the protocol, so logs go to stderr.
    let host = ToolHost::with_log(1, Arc::new(|_, line| print_note(line)));
    let limits = ToolLimits {
        time_millis: args.time.as_millis().try_into().unwrap_or(u64::MAX),
        output_bytes: args.output_bytes,
        ..ToolLimits::default()
    };
    if let Some(problem) = limits.check("").into_iter().next() {
        return Err(Error::invalid(format!("{}: {}", problem.pointer.trim_start_matches('/'), problem.message)));
    }
    let mut server = ToolServer::open(&catalogue.toolbox().tools, &chosen, &limits, &host)?;
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(|e| {
            Error::data("standard input is not UTF-8 text").help("send one JSON message per line").caused_by(&e)
        })?;
        if line.trim().is_empty() {
            continue;
        }
        if let Some(response) = server.answer(&line)
            && !write_line(&response)
        {
            // The client has closed its end.
            break;
        }
    }
    Ok(CliExit::Done)
}

fn write_line(response: &Value) -> bool {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{response}").and_then(|()| out.flush()).is_ok()
}
