//! Checks the sources of an attempt against the content that its stage digest covers.
//!
//! Files may be edited between plan and attempt. Results of other content must never be published under the digest of
//! the planned content. So sources are hashed before and after the work, since the time at which a stage reads them is
//! unknown.

use super::uploads::UploadPaths;
use std::path::Path;
use trainyard_core::attempt::AttemptSpec;
use trainyard_core::{Error, Result};
use trainyard_spec::files::{digest_path, source_exists};

/// Runs `work` between two checks of the sources. `places` has the local paths of uploaded sources; other sources are
/// at their paths in the spec. Errors: invalid (a changed or removed source), and those of the work.
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
