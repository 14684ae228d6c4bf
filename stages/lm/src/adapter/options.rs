//! Defines the options of an adapter, which all training stages share.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_core::OptionProblem;

/// Kind of adapter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AdapterKind {
    /// Low-rank factors added to linear layers (arXiv 2106.09685).
    #[default]
    Lora,
}

/// A small addition to the model that is trained in its place. The model's own weights stay unchanged, and the stage
/// publishes the adapter together with them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AdapterOptions {
    /// `lora`: low-rank factors added to linear layers (2106.09685).
    pub kind: AdapterKind,
    /// Rank of the factors.
    #[schemars(range(min = 1))]
    pub rank: usize,
    /// Numerator of the factor `alpha` / `rank` on the adapter's output.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub alpha: f64,
    /// Share of the adapter's inputs that is set to 0 during training.
    #[schemars(range(min = 0), extend("exclusiveMaximum" = 1))]
    pub dropout: f64,
    /// Adapted layers, by the last parts of their names (`q_proj`, `layers.0.mlp.up_proj`); null = all linear layers
    /// below the head.
    pub targets: Option<Vec<String>>,
    /// Multiply by `alpha` / √`rank` instead, which suits large ranks (2312.03732).
    pub rslora: bool,
    /// Publish a whole model with the adapter added to its weights.
    pub merge: bool,
}

impl Default for AdapterOptions {
    fn default() -> Self {
        Self {
            kind: AdapterKind::Lora,
            rank: 16,
            alpha: 32.0,
            dropout: 0.0,
            targets: None,
            rslora: false,
            merge: false,
        }
    }
}

impl AdapterOptions {
    /// Returns the factor on the adapter's product.
    pub fn scale(&self) -> f64 {
        let rank = self.rank as f64;
        self.alpha / if self.rslora { rank.sqrt() } else { rank }
    }
    /// Returns all problems of the options; `at` is their pointer in the config.
    pub fn problems(&self, at: &str) -> Vec<OptionProblem> {
        let mut problems = Vec::new();
        let mut bad = |key: &str, message: String| problems.push(OptionProblem::new(format!("{at}/{key}"), message));
        if self.rank == 0 {
            bad("rank", "a rank of 0 learns nothing: use at least 1".to_string());
        }
        if !(self.alpha > 0.0 && self.alpha.is_finite()) {
            bad("alpha", format!("`alpha` is {}, but must be above 0", self.alpha));
        }
        if !(0.0..1.0).contains(&self.dropout) {
            bad("dropout", format!("`dropout` is {}, but must be at least 0 and below 1", self.dropout));
        }
        if self.targets.as_ref().is_some_and(Vec::is_empty) {
            bad(
                "targets",
                "`targets` is an empty list: name at least one layer, or leave it out to adapt all".to_string(),
            );
        }
        problems
    }
}
