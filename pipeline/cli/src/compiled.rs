//! From a file on the command line to a plan, with every mistake printed.

use crate::args::WorkflowArgs;
use crate::output::diagnostics;
use crate::shipped::ShippedFiles;
use std::path::{Path, PathBuf};
use trainyard_core::{Catalogue, Error, Result};
use trainyard_spec::Severity;
use trainyard_spec::compile::{Compiled, Request, compile};
use trainyard_spec::plan::Plan;
use trainyard_spec::site::Site;

/// Compiles one file; relative paths and `-p` values are those of the working directory.
pub fn file(path: &Path, params: &[String], catalogue: &dyn Catalogue, site: &Site) -> Result<Compiled> {
    let working_directory = working_directory()?;
    Ok(compile(&Request { files: &ShippedFiles, path, working_directory: &working_directory, params, catalogue, site }))
}

/// Absolute.
pub fn working_directory() -> Result<PathBuf> {
    std::env::current_dir().map_err(|e| Error::invalid(format!("there is no working directory: {e}")))
}

/// A plan, or all mistakes on stderr and an error of kind invalid. Warnings are printed, notes are left to `check`.
pub fn plan(args: &WorkflowArgs, catalogue: &dyn Catalogue, site: &Site) -> Result<Plan> {
    let mut compiled = file(&args.file, &args.params.params, catalogue, site)?;
    compiled.diagnostics.retain(|d| d.severity != Severity::Note);
    diagnostics::print(&compiled.diagnostics, &compiled.sources);
    let found = diagnostics::count(&compiled.diagnostics);
    compiled.plan.ok_or_else(|| {
        Error::invalid(format!("{} has {found}", args.file.display())).help("fix them, then run the same command again")
    })
}
