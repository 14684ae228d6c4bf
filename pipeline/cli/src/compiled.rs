//! From a file on the command line to a plan, with every mistake printed.

use crate::args::WorkflowArgs;
use crate::output::diagnostics;
use crate::output::human::print_json;
use crate::shipped::ShippedFiles;
use std::path::{Path, PathBuf};
use trainyard_core::{Catalogue, Error, Result};
use trainyard_spec::Severity;
use trainyard_spec::Files as _;
use trainyard_spec::files::absolute;
use trainyard_spec::compile::{Compiled, Request, compile};
use trainyard_spec::plan::Plan;
use trainyard_spec::site::Site;

/// Compiles one file; its path and `-p` paths are relative to the working directory.
pub fn file(path: &Path, params: &[String], catalogue: &dyn Catalogue, site: &Site) -> Result<Compiled> {
    let working_directory = working_directory()?;
    if !ShippedFiles.exists(&absolute(&working_directory, &path.to_string_lossy())) || path.is_dir() {
        let what = if path.is_dir() { "a folder, not a workflow file" } else { "not there" };
        return Err(Error::invalid(format!("{} is {what}", path.display()))
            .help("name a workflow file; `trainyard init FOLDER` writes a first one"));
    }
    Ok(compile(&Request { files: &ShippedFiles, path, working_directory: &working_directory, params, catalogue, site }))
}

/// Absolute.
pub fn working_directory() -> Result<PathBuf> {
    std::env::current_dir().map_err(|e| Error::invalid(format!("there is no working directory: {e}")))
}

/// A plan, or all mistakes on stderr and an error of kind invalid. Warnings are printed, notes are left to `check`.
pub fn plan(args: &WorkflowArgs, catalogue: &dyn Catalogue, site: &Site) -> Result<Plan> {
    plan_or_json(args, catalogue, site, false)
}

/// The same; with `json`, the mistakes of a file that does not compile are a document on stdout as well.
pub fn plan_or_json(args: &WorkflowArgs, catalogue: &dyn Catalogue, site: &Site, json: bool) -> Result<Plan> {
    let mut compiled = file(&args.file, &args.params.params, catalogue, site)?;
    compiled.diagnostics.retain(|d| d.severity != Severity::Note);
    diagnostics::print(&compiled.diagnostics, &compiled.sources);
    let found = diagnostics::count(&compiled.diagnostics);
    if json && compiled.plan.is_none() {
        print_json(&diagnostics::document(&compiled.diagnostics, &compiled.sources))?;
    }
    compiled.plan.ok_or_else(|| {
        Error::invalid(format!("{} has {found}", args.file.display()))
            .help("correct the file, then run the same command again")
    })
}
