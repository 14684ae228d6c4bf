//! Compiles workflow files to plans.

use std::path::{Path, PathBuf};
use trainyard_core::{Error, Result, StageKinds};
use trainyard_spec::FileSystem;
use trainyard_spec::compile::{Compilation, CompileRequest, compile};
use trainyard_spec::site::Site;

/// Compiles the workflow file `path` with `params` and the kinds and pools of this program and site. `files` provides
/// the files (`trainyard_spec::LocalFileSystem` for this disk). `path` and files that `params` name are relative to the
/// working directory. The result contains the mistakes of the file as diagnostics.
///
/// Errors: invalid, if the working directory does not exist.
pub fn compiled(
    files: &dyn FileSystem,
    path: &Path,
    params: &[String],
    kinds: &dyn StageKinds,
    site: &Site,
) -> Result<Compilation> {
    compiled_for_tick(files, path, (params, None), kinds, site)
}

/// Compiles like [`compiled`], for a run of a schedule's tick. The param `tick`, if the file declares it, gets the time
/// of the tick.
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
