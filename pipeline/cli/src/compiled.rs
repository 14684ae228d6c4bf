//! Compiles a file on the command line to a plan and prints every mistake.

use crate::args::WorkflowArgs;
use crate::output::diagnostics;
use crate::output::human::print_json;
use crate::shipped::ShippedFiles;
use std::path::Path;
use trainyard_app::workflow;
pub use trainyard_app::workflow::working_directory;
use trainyard_core::{Error, Result, StageKinds};
use trainyard_spec::compile::Compilation;
use trainyard_spec::files::absolute;
use trainyard_spec::plan::Plan;
use trainyard_spec::site::Site;
use trainyard_spec::{FileSystem, Severity};

/// Compiles one file, which may be a shipped one; its path and `-p` paths are relative to the working directory.
pub fn file(path: &Path, params: &[String], kinds: &dyn StageKinds, site: &Site) -> Result<Compilation> {
    require(&ShippedFiles, path)?;
    workflow::compiled(&ShippedFiles, path, params, kinds, site)
}

fn require(files: &dyn FileSystem, path: &Path) -> Result<()> {
    if !files.exists(&absolute(&working_directory()?, &path.to_string_lossy())) || path.is_dir() {
        let problem = if path.is_dir() { "is a folder, not a workflow file" } else { "does not exist" };
        return Err(Error::invalid(format!("{} {problem}", path.display()))
            .help("name a workflow file; `trainyard init FOLDER` writes a first one"));
    }
    Ok(())
}

/// Source of a workflow's text, and the tick for which it runs.
#[derive(Clone, Copy)]
pub struct WorkflowSource<'a> {
    pub files: &'a dyn FileSystem,
    /// The time of a schedule's tick.
    pub tick: Option<&'a str>,
}

impl WorkflowSource<'_> {
    /// A file on the disk or a shipped one, without a tick.
    pub const PLAIN: WorkflowSource<'static> = WorkflowSource { files: &ShippedFiles, tick: None };
}

/// Returns a plan, or prints all mistakes on stderr and returns an error of kind invalid. Warnings are printed, notes
/// are left to `check`.
pub fn plan(args: &WorkflowArgs, kinds: &dyn StageKinds, site: &Site) -> Result<Plan> {
    plan_or_json(args, WorkflowSource::PLAIN, kinds, site, false)
}

/// Returns a plan likewise; with `json`, the mistakes of a file that does not compile are also printed as a document on
/// stdout.
pub fn plan_or_json(
    args: &WorkflowArgs,
    source: WorkflowSource<'_>,
    kinds: &dyn StageKinds,
    site: &Site,
    json: bool,
) -> Result<Plan> {
    let WorkflowSource { files, tick } = source;
    require(files, &args.file)?;
    let mut compiled = workflow::compiled_for_tick(files, &args.file, (&args.params.params, tick), kinds, site)?;
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
