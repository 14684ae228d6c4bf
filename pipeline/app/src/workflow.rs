//! From a workflow file on this disk to a plan.

use std::path::Path;
use trainyard_core::{Error, Result, StageKinds};
use trainyard_spec::DiskFiles;
use trainyard_spec::compile::{Compiled, Request, compile};
use trainyard_spec::site::Site;

/// Compiles one file; relative paths and `params` are those of the working directory. Mistakes are in the result's diagnostics.
///
/// Errors: invalid, if there is no working directory.
pub fn compiled(path: &Path, params: &[String], kinds: &dyn StageKinds, site: &Site) -> Result<Compiled> {
    let working_directory =
        std::env::current_dir().map_err(|e| Error::invalid(format!("there is no working directory: {e}")))?;
    let files = &DiskFiles;
    Ok(compile(&Request { files, path, working_directory: &working_directory, params, catalogue: kinds, site }))
}
