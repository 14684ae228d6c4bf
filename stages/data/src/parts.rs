//! Holds the families of this crate, in addition to those of the environments in which its stages play.

use crate::export::{ExportFormat, registry as exports};
use crate::filter::rules::registry as rules;
use crate::filter::{FilterRule, OpenTokenCounter};
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
    pub import: Arc<Family<&'static dyn ImportFormat>>,
    /// Reader of a model's tokenizer for the rule `tokens`; `None` in programs without models.
    pub open_tokens: Option<OpenTokenCounter>,
    /// Rules of `data/filter`.
    pub rules: Arc<Family<dyn FilterRule>>,
    /// Scorers of `data/step_labels`.
    pub step_scorers: Arc<Family<dyn StepScorer>>,
    /// Methods of `data/synthesize`.
    pub synthesize: Arc<Family<&'static dyn SynthesisMethod>>,
}

impl DataParts {
    /// Returns the families of this crate, with these environments.
    pub fn standard(envs: Arc<trainyard_envs::EnvironmentParts>) -> Self {
        Self {
            envs,
            export: exports::family(),
            import: Arc::new(formats::family()),
            open_tokens: None,
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
