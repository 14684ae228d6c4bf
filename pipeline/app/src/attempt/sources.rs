//! Checks the sources of an attempt against the content that its stage digest covers.
//!
//! Hours may pass between plan and attempt, and files may be edited meanwhile. Results of other bytes must never be
//! published under the digest of the planned ones, so sources are hashed before the work and again after it: it is
//! unknown when in between a stage reads them.

use super::uploads::UploadPaths;
use std::path::Path;
use trainyard_core::attempt::AttemptSpec;
use trainyard_core::{Error, Result};
use trainyard_spec::files::{digest_path, source_exists};

/// Runs the work between two checks of the sources. Uploaded sources are in their `places`, all others at the paths in
/// the spec.
pub fn guard_sources(spec: &AttemptSpec, places: &UploadPaths, work: impl FnOnce() -> Result<()>) -> Result<()> {
    verify(spec, places, "run the command again to make a new plan")?;
    work()?;
    verify(spec, places, "run the command again; if the stage itself writes there, make it write to its outputs")
}

fn verify(spec: &AttemptSpec, places: &UploadPaths, help: &str) -> Result<()> {
    for (location, planned) in &spec.sources {
        let path = places.get(location).map_or(Path::new(location), |place| place.as_path());
        if !source_exists(path) {
            return Err(Error::invalid(format!("{location} was removed since the plan was made")).help(help));
        }
        if digest_path(path)? != *planned {
            return Err(Error::invalid(format!("{location} changed since the plan was made")).help(help));
        }
    }
    Ok(())
}
