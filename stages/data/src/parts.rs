//! The families of this crate, in addition to those of the environments that its stages play in.

use crate::export::{ExportFormat, registry as exports};
use crate::filter::{Rule, registry as rules};
use crate::import::{Format, registry as formats};
use crate::step_scorers::{StepScorer, registry as scorers};
use crate::synthesize::{Method, registry as methods};
use std::sync::Arc;
use trainyard_api::{AnyFamily, Family};

/// Families of parts of this crate's stages.
pub struct Parts {
    /// Environments and their parts.
    pub envs: Arc<trainyard_envs::Parts>,
    /// Formats of `artifacts export --as`.
    pub export: Family<&'static dyn ExportFormat>,
    /// File formats of `data/import`.
    pub import: Arc<Family<&'static dyn Format>>,
    /// Rules of `data/filter`.
    pub rules: Arc<Family<dyn Rule>>,
    /// Scorers of `data/step_labels`.
    pub step_scorers: Arc<Family<dyn StepScorer>>,
    /// Methods of `data/synthesize`.
    pub synthesize: Arc<Family<&'static dyn Method>>,
}

impl Parts {
    /// Returns the families of this crate, with these environments.
    pub fn standard(envs: Arc<trainyard_envs::Parts>) -> Self {
        Self {
            envs,
            export: exports::family(),
            import: Arc::new(formats::family()),
            rules: Arc::new(rules::family()),
            step_scorers: Arc::new(scorers::family()),
            synthesize: Arc::new(methods::family()),
        }
    }
    /// Returns the families of this crate, sorted by folder.
    pub fn families(&self) -> [&dyn AnyFamily; 5] {
        [&self.export, &*self.import, &*self.rules, &*self.step_scorers, &*self.synthesize]
    }
}
