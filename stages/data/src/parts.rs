//! The families of this crate, in addition to those of the environments that its stages play in.

use crate::export::{ExportFormat, registry as exports};
use crate::filter::{FilterRule, registry as rules};
use crate::import::{ImportFormat, registry as formats};
use crate::step_scorers::{StepScorer, registry as scorers};
use crate::synthesize::{SynthesisMethod, registry as methods};
use std::sync::Arc;
use trainyard_api::{AnyFamily, Family};

/// Families of parts of this crate's stages.
pub struct DataParts {
    /// Environments and their parts.
    pub envs: Arc<trainyard_envs::EnvironmentParts>,
    /// Formats of `artifacts export --as`.
    pub export: Family<&'static dyn ExportFormat>,
    /// File formats of `data/import`.
    pub import: Family<&'static dyn ImportFormat>,
    /// Rules of `data/filter`.
    pub rules: Family<dyn FilterRule>,
    /// Scorers of `data/step_labels`.
    pub step_scorers: Family<dyn StepScorer>,
    /// Methods of `data/synthesize`.
    pub synthesize: Family<&'static dyn SynthesisMethod>,
}

impl DataParts {
    /// Returns the families of this crate, with these environments.
    pub fn standard(envs: Arc<trainyard_envs::EnvironmentParts>) -> Self {
        Self {
            envs,
            export: exports::family(),
            import: formats::family(),
            rules: rules::family(),
            step_scorers: scorers::family(),
            synthesize: methods::family(),
        }
    }
    /// Returns the families of this crate, sorted by folder.
    pub fn families(&self) -> [&dyn AnyFamily; 5] {
        [&self.export, &self.import, &self.rules, &self.step_scorers, &self.synthesize]
    }
}
