//! Compiles workflow files of the command line to plans, and prints their mistakes.

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

/// Compiles a workflow file on the disk or a shipped one. Its path and paths in `-p` are relative to the working
/// directory. The result contains the mistakes, which are not printed. Errors: invalid (the file does not exist).
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

/// Source of a workflow's files, and the tick for which the workflow runs.
#[derive(Clone, Copy)]
pub struct WorkflowSource<'a> {
    pub files: &'a dyn FileSystem,
    /// Time of a schedule's tick; `None` for other runs.
    pub tick: Option<&'a str>,
}

impl WorkflowSource<'_> {
    /// The local disk and the shipped files, without a tick.
    pub const PLAIN: WorkflowSource<'static> = WorkflowSource { files: &ShippedFiles, tick: None };
}

/// Compiles a file to a plan, and prints errors and warnings on stderr, but not notes. Errors: invalid, if the file has
/// mistakes.
pub fn plan(args: &WorkflowArgs, kinds: &dyn StageKinds, site: &Site) -> Result<Plan> {
    plan_or_json(args, WorkflowSource::PLAIN, kinds, site, false)
}

/// Compiles like [`plan`]. If `json` is set and the file does not compile, also prints the mistakes as a JSON document
/// on stdout.
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
