//! `trainyard conformance environment FILE`: the rules that an environment keeps, and the requirements that it misses.

use crate::args::{ConformanceArgs, ConformanceCommand, Format};
use crate::exit::Exit;
use crate::output::diagnostics;
use crate::output::human::{print_json, print_note, print_text};
use crate::session;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use trainyard_app::Catalogue;
use trainyard_app::conformance::{Refusal, check};
use trainyard_core::{Error, Result};
use trainyard_envs::conformance::Finding;

/// Checks an environment. Exit code 1 if a rule is broken.
pub fn run(args: &ConformanceArgs, catalogue: &Arc<Catalogue>) -> Result<Exit> {
    let ConformanceCommand::Environment { file } = &args.command;
    let providers = || Ok(session::site(&args.site, catalogue)?.secrets);
    let findings = check(catalogue, file, Arc::new(|_, line| print_note(line)), providers);
    let findings = findings.map_err(|e| drawn(e, file))?;
    match args.format {
        Format::Json => print_json(&document(&findings))?,
        Format::Text => findings.iter().for_each(|finding| print_text(&line(finding))),
    }
    let broken = findings.iter().any(|finding| matches!(finding.result, Some(Err(_))));
    Ok(if broken { Exit::Failed } else { Exit::Done })
}

fn drawn(refusal: Refusal, file: &Path) -> Error {
    match refusal {
        Refusal::Error(error) => error,
        Refusal::Text(found, sources) => {
            diagnostics::print(&found, &sources);
            Error::invalid(format!("{} has {}", file.display(), diagnostics::count(&found)))
        }
    }
}

fn line(finding: &Finding) -> String {
    match &finding.result {
        Some(Ok(())) => format!("ok       {}", finding.property),
        Some(Err(what)) => format!("failed   {}: {what}", finding.property),
        None => format!("skipped  {}", finding.property),
    }
}

fn document(findings: &[Finding]) -> Value {
    let one = |finding: &Finding| {
        let (outcome, missing) = match &finding.result {
            Some(Ok(())) => ("ok", None),
            Some(Err(what)) => ("failed", Some(what)),
            None => ("skipped", None),
        };
        json!({"property": finding.property, "outcome": outcome, "missing": missing})
    };
    json!({"findings": findings.iter().map(one).collect::<Vec<_>>()})
}
