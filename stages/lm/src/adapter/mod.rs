//! Implements adapters, small trainable additions to a frozen model.
//!
//! LoRA (Hu et al., arXiv 2106.09685) adds scale · x·Aᵀ·Bᵀ to the output of a linear layer, with A `[rank, in]` and B
//! `[out, rank]`. An adapter is plain data, numbers and tensors by the name of the layer, so that every backend can
//! train and sample with one. Its folder holds PEFT's files next to the base model ([`peft`]).
//!
//! Layers have the names of files. If a family joins several layers in one tensor, the adapter has one A and one B for
//! all of them, as in PEFT, and each layer of the decoder takes its rows of B (`adapter_rows`). See
//! `docs/design/0023-adapters-and-memory.md`.

mod adapter_shape;
mod layers;
mod merge;
mod options;
pub mod peft;
#[cfg(test)]
mod tests;

pub use adapter_shape::AdapterShape;
pub(crate) use layers::{AdapterRows, adapter_rows, matches_target};
pub use layers::{LinearLayer, linear_layers};
pub use options::{AdapterKind, AdapterOptions};

use crate::config::ModelConfig;
use crate::tensor::candle;
use candle_core::{Device, Tensor};
use std::collections::{BTreeMap, BTreeSet};
use trainyard_core::{Chance, Error, Result};

/// Suffix of the factor A of a layer, `[rank, in]`.
pub const DOWN: &str = ".lora_A.weight";
/// Suffix of the factor B of a layer, `[out, rank]`.
pub const UP: &str = ".lora_B.weight";
/// Scoring head, which is trained in full in addition to the factors where a model has one.
pub const SCORES: &str = "score.weight";

/// A LoRA adapter of one model.
#[derive(Debug, Clone)]
pub struct Adapter {
    /// Rows of every A, columns of every B.
    pub rank: usize,
    /// The numerator of [`Adapter::scale`].
    pub alpha: f64,
    /// Share of the adapter's inputs that training sets to 0.
    pub dropout: f64,
    /// Whether the scale is `alpha` / √`rank` (arXiv 2312.03732) instead of `alpha` / `rank`.
    pub rslora: bool,
    /// `<layer>.lora_A.weight` and `<layer>.lora_B.weight` of every adapted layer, in float32, and [`SCORES`] if the
    /// adapter has a scoring head.
    pub tensors: BTreeMap<String, Tensor>,
}

impl Adapter {
    /// Creates an adapter that changes nothing: A is uniform in ±1/√in, as PEFT draws it, and B is 0. The draws of a
    /// layer are keyed by its name.
    ///
    /// Errors: invalid, if a target names no linear layer of the model (the error lists the existing ones).
    pub fn new(config: &ModelConfig, options: &AdapterOptions, chance: &Chance) -> Result<Self> {
        let mut tensors = BTreeMap::new();
        for layer in layers::targeted(config, options.targets.as_deref())? {
            let bound = 1.0 / (layer.columns as f64).sqrt();
            let mut draws = chance.at(&format!("initialize {}", layer.name), &[]);
            let values: Vec<f32> =
                (0..options.rank * layer.columns).map(|_| ((2.0 * draws.uniform() - 1.0) * bound) as f32).collect();
            let down = Tensor::from_vec(values, (options.rank, layer.columns), &Device::Cpu).map_err(candle)?;
            let up = vec![0.0f32; layer.rows * options.rank];
            let up = Tensor::from_vec(up, (layer.rows, options.rank), &Device::Cpu).map_err(candle)?;
            tensors.insert(format!("{}{DOWN}", layer.name), down);
            tensors.insert(format!("{}{UP}", layer.name), up);
        }
        let AdapterOptions { rank, alpha, dropout, rslora, .. } = *options;
        Ok(Self { rank, alpha, dropout, rslora, tensors })
    }

    /// Returns the names of the layers that the options select. Errors: see [`Adapter::new`].
    pub fn targets(config: &ModelConfig, options: &AdapterOptions) -> Result<BTreeSet<String>> {
        Ok(layers::targeted(config, options.targets.as_deref())?.into_iter().map(|layer| layer.name).collect())
    }
    /// Returns the factor on the adapter's product.
    pub fn scale(&self) -> f64 {
        let rank = self.rank as f64;
        self.alpha / if self.rslora { rank.sqrt() } else { rank }
    }
    /// Returns the names of the adapted layers (`model.layers.0.self_attn.q_proj`), sorted.
    pub fn layers(&self) -> BTreeSet<&str> {
        self.tensors.keys().filter_map(|name| name.strip_suffix(DOWN)).collect()
    }
    /// Returns the outputs of the adapter's scoring head, or `None` if the adapter has no scoring head.
    pub fn labels(&self) -> Option<usize> {
        self.tensors.get(SCORES).map(|t| t.dims()[0])
    }
    /// Returns the adapter's scoring head with its name, or `None` if the adapter has no scoring head.
    pub(crate) fn scores(&self) -> Option<(String, Tensor)> {
        self.tensors.get(SCORES).map(|head| (SCORES.to_string(), head.clone()))
    }
    /// Returns the number of trained parameters.
    pub fn parameter_count(&self) -> usize {
        self.tensors.values().map(Tensor::elem_count).sum()
    }

    /// Checks that training with these options can resume from this adapter. Errors: invalid, naming the difference.
    pub fn expect(&self, config: &ModelConfig, options: &AdapterOptions) -> Result<()> {
        let layers = self.layers().into_iter().map(str::to_string).collect();
        let own = AdapterShape { rank: self.rank, scale: self.scale(), layers };
        own.expect(&AdapterShape::from_options(config, options)?)
    }

    /// Checks the adapter's tensors. Errors: data or invalid, if a tensor does not fit the model or its partner is
    /// missing.
    pub(crate) fn check(&self, config: &ModelConfig) -> Result<()> {
        let shapes = self.tensors.iter().map(|(name, tensor)| (name.clone(), tensor.dims().to_vec())).collect();
        expect_shapes(config, self.rank, &shapes)
    }
}

/// Checks that tensors of these shapes form an adapter of the model. Errors: data or invalid, if one does not fit the
/// model or its partner is missing.
fn expect_shapes(config: &ModelConfig, rank: usize, shapes: &BTreeMap<String, Vec<usize>>) -> Result<()> {
    let known: BTreeMap<String, LinearLayer> =
        linear_layers(config).into_iter().map(|layer| (layer.name.clone(), layer)).collect();
    for (name, found) in shapes.iter().filter(|(name, _)| *name != SCORES) {
        let (layer, partner) = match (name.strip_suffix(DOWN), name.strip_suffix(UP)) {
            (Some(layer), _) => (layer, UP),
            (_, Some(layer)) => (layer, DOWN),
            _ => {
                return Err(Error::invalid(format!("the adapter holds `{name}`, which is not supported"))
                    .help("use an adapter of linear layers, without biases or trained embeddings"));
            }
        };
        let sizes = known.get(layer).ok_or_else(|| layers::unknown(config, layer))?;
        let shape = if partner == UP { [rank, sizes.columns] } else { [sizes.rows, rank] };
        if *found != shape {
            return Err(Error::data(format!("`{name}` has shape {found:?}, the model requires {shape:?}"))
                .help("use the base model that the adapter was made for"));
        }
        if !shapes.contains_key(&format!("{layer}{partner}")) {
            return Err(Error::data(format!("the adapter lacks `{layer}{partner}`")));
        }
    }
    Ok(())
}
