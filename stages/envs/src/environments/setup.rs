//! Bundles the dependencies with which environments are built.

use crate::Toolbox;
use crate::tools::ToolHost;
use std::sync::Arc;

/// Tool host of an environment, and the parts that its options may name.
pub struct EnvironmentSetup {
    /// Host that all episodes of a stage share. Its workers start with the first call.
    pub host: Arc<ToolHost>,
    /// The tools, formats and verifiers of the program.
    pub toolbox: Arc<Toolbox>,
}

impl EnvironmentSetup {
    /// Returns a setup with a new host of up to `workers` processes and the toolbox of this crate.
    pub fn standard(workers: usize) -> Self {
        Self { host: ToolHost::new(workers), toolbox: Arc::new(Toolbox::standard()) }
    }
}
