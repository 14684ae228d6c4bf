//! Implements `trainyard check FILE…`, which reports every mistake of every file at once.

use crate::args::{CheckArgs, OutputFormat};
use crate::exit::CliExit;
use crate::output::diagnostics;
use crate::output::human::{print_json, print_text};
use crate::{compiled, session};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use trainyard_app::Catalogue;
use trainyard_app::endpoints::{SilentEndpoint, model_endpoints, silent_endpoints};
use trainyard_core::{Error, Result};
use trainyard_spec::site::Site;
use trainyard_spec::{Diagnostic, Plan, Sources};
use trainyard_store::Store;

/// Time in which an endpoint must answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Top-level keys that only a site file has.
const SITE_KEYS: [&str; 7] =
    ["store:", "store_outage:", "pools:", "secrets:", "durability:", "notifications:", "tracking:"];

/// Checks all files and prints their mistakes. Returns exit code 2 if a file has an error; warnings and notes do not
/// affect the exit code.
pub fn run(args: &CheckArgs, catalogue: &Arc<Catalogue>) -> Result<CliExit> {
    if let Some(url) = &args.site.store {
        Store::check_url(url)?;
    }
    let site = match (session::site(&args.site, catalogue), args.format) {
        (Err(error), OutputFormat::Json) => return report_site_error(&error),
        (site, _) => site?,
    };
    let (mut all, mut errors) = (Vec::new(), 0);
    for path in &args.files {
        let FileCheck { what, diagnostics: found, sources } = check_file(path, args, catalogue, &site)?;
        errors += found.iter().filter(|d| d.is_error()).count();
        match args.format {
            OutputFormat::Json => all.extend(found.iter().map(|d| diagnostics::json(d, &sources))),
            OutputFormat::Text => {
                diagnostics::print(&found, &sources);
                print_text(&format!("{}: {what}{}", path.display(), diagnostics::count(&found)));
            }
        }
    }
    if args.format == OutputFormat::Json {
        print_json(&json!({"errors": errors, "diagnostics": all}))?;
    }
    Ok(if errors == 0 { CliExit::Done } else { CliExit::Invalid })
}

/// Result for one file.
struct FileCheck {
    /// `3 stages, `, or a description of another kind of file.
    what: String,
    diagnostics: Vec<Diagnostic>,
    sources: Sources,
}

fn check_file(path: &Path, args: &CheckArgs, catalogue: &Catalogue, site: &Site) -> Result<FileCheck> {
    if is_site_file(path) {
        let (_, diagnostics, sources) = session::read_site(path, catalogue);
        return Ok(FileCheck { what: "a site file, ".into(), diagnostics, sources });
    }
    let mut found = compiled::file(path, &args.params.params, catalogue, site)?;
    if let (true, Some(plan)) = (args.connect, &found.plan) {
        found.diagnostics.extend(silent(plan, &found.sources));
    }
    let what = found.plan.as_ref().map(|p| format!("{} stages, ", p.nodes.len())).unwrap_or_default();
    Ok(FileCheck { what, diagnostics: found.diagnostics, sources: found.sources })
}

/// Returns an error for each endpoint of the plan that does not answer, where a file first names it.
fn silent(plan: &Plan, sources: &Sources) -> Vec<Diagnostic> {
    let place = |url: &str| {
        let texts = (0..).map_while(|file| Some((file, sources.get(file)?.text.as_str())));
        let mut found =
            texts.filter_map(|(file, text)| Some(sources.span(file, text.find(url)?, text.find(url)? + url.len())));
        found.next().unwrap_or_else(|| sources.span(0, 0, 0))
    };
    let error = |endpoint: SilentEndpoint| {
        let stages = endpoint.stages.iter().map(|stage| format!("`{stage}`")).collect::<Vec<_>>().join(", ");
        let message = format!("the endpoint of {stages} does not answer: {}", endpoint.error.message);
        let help = "start the server, or correct the address";
        Diagnostic::error("no-answer", place(&endpoint.url), message).help(help)
    };
    silent_endpoints(model_endpoints(plan), PATIENCE).into_iter().map(error).collect()
}

/// Returns whether a file is a site file: it has the name of one, or it has keys of a site file and no stages. An
/// unreadable file counts as a workflow.
fn is_site_file(path: &Path) -> bool {
    if path.file_name().is_some_and(|name| name == session::SITE_FILE) {
        return path.is_file();
    }
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let has = |key: &str| text.lines().any(|line| line.starts_with(key));
    SITE_KEYS.iter().any(|key| has(key)) && !has("stages:")
}

/// Reports an invalid site file as a JSON diagnostic without a position. Its mistakes were already printed on stderr.
fn report_site_error(error: &Error) -> Result<CliExit> {
    let wrong = json!({
        "file": Value::Null, "line": Value::Null, "column": Value::Null, "code": "site", "severity": "error",
        "message": error.message, "help": error.help,
    });
    print_json(&json!({"errors": 1, "diagnostics": [wrong]}))?;
    Ok(CliExit::Invalid)
}
