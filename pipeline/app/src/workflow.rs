//! From a workflow file to a plan.

use std::path::{Path, PathBuf};
use trainyard_core::{Error, Result, StageKinds};
use trainyard_spec::FileSystem;
use trainyard_spec::compile::{Compilation, CompileRequest, compile};
use trainyard_spec::site::Site;

/// Compiles one file of `files` (`trainyard_spec::LocalFileSystem` for this disk); its path and those of `params` are
/// relative to the working directory. Mistakes are in the result's diagnostics.
///
/// Errors: invalid, if there is no working directory.
pub fn compiled(
    files: &dyn FileSystem,
    path: &Path,
    params: &[String],
    kinds: &dyn StageKinds,
    site: &Site,
) -> Result<Compilation> {
    compiled_for_tick(files, path, (params, None), kinds, site)
}

/// Compiles like [`compiled`], for a run of a tick: its time is the value of a param `tick`, if the file declares one.
pub fn compiled_for_tick(
    files: &dyn FileSystem,
    path: &Path,
    (params, tick): (&[String], Option<&str>),
    kinds: &dyn StageKinds,
    site: &Site,
) -> Result<Compilation> {
    let working_directory = working_directory()?;
    Ok(compile(&CompileRequest {
        files,
        path,
        working_directory: &working_directory,
        params,
        tick,
        catalogue: kinds,
        site,
    }))
}

/// Returns the absolute working directory. Errors: invalid, if it does not exist.
pub fn working_directory() -> Result<PathBuf> {
    std::env::current_dir().map_err(|e| Error::invalid(format!("there is no working directory: {e}")))
}
