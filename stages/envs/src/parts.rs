//! Bundles the part families of this crate for stages and catalogs.

use crate::environments::Environments;
use crate::{Reward, Toolbox, environments, rewards};
use std::sync::Arc;
use trainyard_api::{AnyFamily, Family};

/// Registries of environments, rewards and the toolbox. Programs add their custom parts before the stages receive the
/// registries.
pub struct EnvironmentParts {
    pub environments: Environments,
    pub rewards: Family<dyn Reward>,
    /// Tools, formats and verifiers with which the environments were built.
    pub toolbox: Arc<Toolbox>,
}

impl EnvironmentParts {
    /// Returns the parts of this crate.
    pub fn standard() -> Self {
        let toolbox = Arc::new(Toolbox::standard());
        Self { environments: environments::family_with(&toolbox), rewards: rewards::family(), toolbox }
    }
    /// Returns all families, sorted by folder.
    pub fn families(&self) -> [&dyn AnyFamily; 5] {
        let Toolbox { formats, tools, verifiers } = &*self.toolbox;
        [&self.environments, formats, &self.rewards, tools, verifiers]
    }
}
