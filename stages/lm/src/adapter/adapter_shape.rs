//! Describes the shape of an adapter without its numbers.
//!
//! The shape is sufficient to decide before a run whether training with given options can resume from the adapter.

use super::layers::targeted;
use super::options::AdapterOptions;
use crate::config::ModelConfig;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use trainyard_core::{Error, Result};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AdapterShape {
    /// Rows of every A, columns of every B.
    pub rank: usize,
    /// The factor on what the adapter adds.
    pub scale: f64,
    /// Names of the adapted layers.
    pub layers: BTreeSet<String>,
}

impl AdapterShape {
    /// Returns the shape of the adapter that `options` create for a model of this config. Errors: see
    /// [`super::Adapter::new`].
    pub fn from_options(config: &ModelConfig, options: &AdapterOptions) -> Result<Self> {
        let layers = targeted(config, options.targets.as_deref())?.into_iter().map(|layer| layer.name).collect();
        Ok(Self { rank: options.rank, scale: options.scale(), layers })
    }
    /// Checks that training that requires the shape `expected` can resume from this adapter. Errors: invalid, naming
    /// the difference.
    pub fn expect(&self, expected: &Self) -> Result<()> {
        let differs = if self.rank != expected.rank {
            format!("has rank {}, not {}", self.rank, expected.rank)
        } else if self.scale != expected.scale {
            format!("has the scale {}, not {}", self.scale, expected.scale)
        } else if self.layers != expected.layers {
            format!("changes {} layers, not the {} of `targets`", self.layers.len(), expected.layers.len())
        } else {
            return Ok(());
        };
        Err(Error::invalid(format!("the model has an adapter already, which {differs}"))
            .help("use the adapter's own options to continue its training, or merge it first with `model/merge`"))
    }
}
