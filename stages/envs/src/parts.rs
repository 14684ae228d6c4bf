//! The families of this room, as stages and catalogues hold them.

use crate::environments::Environments;
use crate::{Reward, Toolbox, environments, rewards};
use std::sync::Arc;
use trainyard_api::{AnyFamily, Family};

/// Programs add parts of their own before they give the families to the stages.
pub struct Parts {
    /// What poses problems.
    pub environments: Environments,
    /// What episodes are worth.
    pub rewards: Family<dyn Reward>,
    /// Tools, formats and verifiers: those that the environments were built with.
    pub toolbox: Arc<Toolbox>,
}

impl Parts {
    /// Those of this crate.
    pub fn standard() -> Self {
        let toolbox = Arc::new(Toolbox::standard());
        Self { environments: environments::family_with(&toolbox), rewards: rewards::family(), toolbox }
    }
    /// Sorted by folder.
    pub fn families(&self) -> [&dyn AnyFamily; 5] {
        let Toolbox { formats, tools, verifiers } = &*self.toolbox;
        [&self.environments, formats, &self.rewards, tools, verifiers]
    }
}
