//! Implements `trainyard conformance environment FILE`, which tests an environment against the rules for all
//! environments.

use crate::args::{ConformanceArgs, ConformanceCommand, OutputFormat};
use crate::exit::CliExit;
use crate::output::diagnostics;
use crate::output::human::{print_json, print_note, print_text};
use crate::session;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use trainyard_app::Catalogue;
use trainyard_app::conformance::{ConformanceError, check};
use trainyard_core::{Error, Result};
use trainyard_envs::conformance::PropertyFinding;

/// Tests an environment and prints each rule with its result. Returns exit code 1 if a rule is broken.
pub fn run(args: &ConformanceArgs, catalogue: &Arc<Catalogue>) -> Result<CliExit> {
    let ConformanceCommand::Environment { file } = &args.command;
    let providers = || Ok(session::site(&args.site, catalogue)?.secrets);
    let findings = check(catalogue, file, Arc::new(|_, line| print_note(line)), providers);
    let findings = findings.map_err(|e| into_error(e, file))?;
    match args.format {
        OutputFormat::Json => print_json(&document(&findings))?,
        OutputFormat::Text => findings.iter().for_each(|finding| print_text(&line(finding))),
    }
    let broken = findings.iter().any(|finding| matches!(finding.result, Some(Err(_))));
    Ok(if broken { CliExit::Failed } else { CliExit::Done })
}

/// Prints the diagnostics of an input file that is not valid YAML, and returns the error.
fn into_error(error: ConformanceError, file: &Path) -> Error {
    match error {
        ConformanceError::Error(error) => error,
        ConformanceError::Text(found, sources) => {
            diagnostics::print(&found, &sources);
            Error::invalid(format!("{} has {}", file.display(), diagnostics::count(&found)))
        }
    }
}

fn line(finding: &PropertyFinding) -> String {
    match &finding.result {
        Some(Ok(())) => format!("ok       {}", finding.property),
        Some(Err(what)) => format!("failed   {}: {what}", finding.property),
        None => format!("skipped  {}", finding.property),
    }
}

fn document(findings: &[PropertyFinding]) -> Value {
    let one = |finding: &PropertyFinding| {
        let (outcome, missing) = match &finding.result {
            Some(Ok(())) => ("ok", None),
            Some(Err(what)) => ("failed", Some(what)),
            None => ("skipped", None),
        };
        json!({"property": finding.property, "outcome": outcome, "missing": missing})
    };
    json!({"findings": findings.iter().map(one).collect::<Vec<_>>()})
}
