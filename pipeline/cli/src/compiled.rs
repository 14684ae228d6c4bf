//! From a file on the command line to a plan, with every mistake printed.

use crate::args::WorkflowArgs;
use crate::output::diagnostics;
pub use trainyard_app::workflow::compiled as file;
use trainyard_core::{Error, Result, StageKinds};
use trainyard_spec::Severity;
use trainyard_spec::plan::Plan;
use trainyard_spec::site::Site;

/// A plan, or all mistakes on stderr and an error of kind invalid. Warnings are printed, notes are left to `check`.
pub fn plan(args: &WorkflowArgs, kinds: &dyn StageKinds, site: &Site) -> Result<Plan> {
    let mut compiled = file(&args.file, &args.params.params, kinds, site)?;
    compiled.diagnostics.retain(|d| d.severity != Severity::Note);
    diagnostics::print(&compiled.diagnostics, &compiled.sources);
    let found = diagnostics::count(&compiled.diagnostics);
    compiled.plan.ok_or_else(|| {
        Error::invalid(format!("{} has {found}", args.file.display()))
            .help("mend them, then run the same command again")
    })
}
