//! Bundles the dependencies with which environments are built.

use crate::Toolbox;
use crate::tools::ToolHost;
use std::sync::Arc;

/// Tool host of an environment, and the parts that its options may name.
pub struct EnvironmentSetup {
    /// Shared by all episodes of a stage. No process starts before the first call.
    pub host: Arc<ToolHost>,
    /// The tools, formats and verifiers of the program.
    pub toolbox: Arc<Toolbox>,
}

impl EnvironmentSetup {
    /// Returns a new host with up to `workers` processes, and the toolbox of this crate.
    pub fn standard(workers: usize) -> Self {
        Self { host: ToolHost::new(workers), toolbox: Arc::new(Toolbox::standard()) }
    }
}
