//! The families of this room, as stages and catalogues hold them.

use crate::environments::Environments;
use crate::{Reward, Tool, ToolFormat, ToolSpec, Verifier, environments, formats, rewards, tools, verifiers};
use trainyard_api::{AnyFamily, Family};

/// Programs add environments and rewards of their own before they give the families to the stages. Tools, formats and
/// verifiers are looked up by the environments of this room, so they are listed here and not added to.
pub struct Parts {
    /// What poses problems.
    pub environments: Environments,
    /// How tool calls are written.
    pub formats: Family<dyn ToolFormat, [ToolSpec]>,
    /// What episodes are worth.
    pub rewards: Family<dyn Reward>,
    /// What agents call.
    pub tools: Family<dyn Tool>,
    /// How answers are judged.
    pub verifiers: Family<&'static dyn Verifier>,
}

impl Parts {
    /// Those of this crate.
    pub fn standard() -> Self {
        Self {
            environments: environments::family(),
            formats: formats::family(),
            rewards: rewards::family(),
            tools: tools::family(),
            verifiers: verifiers::family(),
        }
    }
    /// Sorted by folder.
    pub fn families(&self) -> [&dyn AnyFamily; 5] {
        [&self.environments, &self.formats, &self.rewards, &self.tools, &self.verifiers]
    }
}
