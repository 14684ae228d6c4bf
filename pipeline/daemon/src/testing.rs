//! Compiles workflows of commands, which need no stage kinds, for tests.

use serde_json::Value;
use std::path::Path;
use trainyard_core::{KindInfo, OptionProblem, Result, StageKinds, ValidatedOptions};
use trainyard_spec::LocalFileSystem;
use trainyard_spec::compile::{Compilation, CompileRequest, compile};
use trainyard_spec::site::{Site, SitePool};

struct NoKinds;

impl StageKinds for NoKinds {
    fn names(&self) -> Vec<&str> {
        Vec::new()
    }
    fn kind(&self, _: &str) -> Option<&KindInfo> {
        None
    }
    fn validate_options(&self, _: &str, _: &Value) -> Result<Box<dyn ValidatedOptions + '_>, Vec<OptionProblem>> {
        Err(Vec::new())
    }
}

/// Compiles a file with these arguments of `-p`.
pub fn compiled(path: &Path, params: &[String]) -> Result<Compilation> {
    let site = Site::of_this_machine(SitePool::local(2, 0, Vec::new()));
    Ok(compile(&CompileRequest {
        files: &LocalFileSystem,
        path,
        working_directory: Path::new("/"),
        params,
        tick: Some("2024-01-01T00:00:00Z"),
        catalogue: &NoKinds,
        site: &site,
    }))
}
