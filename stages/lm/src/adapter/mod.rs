//! Adapters: a small addition to a frozen model that learns in its place. LoRA (Hu et al., arXiv 2106.09685) adds
//! scale · x·Aᵀ·Bᵀ to the output of a linear layer, with A `[rank, in]` and B `[out, rank]`.
//!
//! An adapter is plain data, so that every backend can train and sample with one: numbers, and tensors by the name of
//! the layer. It is stored in PEFT's files beside its base model ([`peft`]).

mod layers;
mod merge;
mod options;
pub mod peft;
#[cfg(test)]
mod tests;

pub use layers::{LinearLayer, linear_layers};
pub use options::{AdapterKind, AdapterOptions};

use crate::config::ModelConfig;
use crate::tensor::candle;
use candle_core::{Device, Tensor};
use std::collections::{BTreeMap, BTreeSet};
use trainyard_core::{Chance, Error, Result};

/// The suffix of a layer's name that gives its factor A, `[rank, in]`.
pub const DOWN: &str = ".lora_A.weight";
/// The suffix of a layer's name that gives its factor B, `[out, rank]`.
pub const UP: &str = ".lora_B.weight";
/// The scoring head, which learns as a whole beside the factors where a model has one.
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
    /// adapter brings a scoring head.
    pub tensors: BTreeMap<String, Tensor>,
}

impl Adapter {
    /// A fresh one, which changes nothing: A is uniform in ±1/√in, as PEFT draws it, and B is 0. Each layer draws at
    /// its own name.
    ///
    /// Errors: invalid, if a target names no linear layer of the model (the error lists what there is), or the family
    /// keeps its layers joined.
    pub fn new(config: &ModelConfig, options: &AdapterOptions, chance: &Chance) -> Result<Self> {
        refuse_fused(config)?;
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

    /// Names of the layers that the options mean. Errors: see [`Adapter::new`].
    pub fn targets(config: &ModelConfig, options: &AdapterOptions) -> Result<BTreeSet<String>> {
        Ok(layers::targeted(config, options.targets.as_deref())?.into_iter().map(|layer| layer.name).collect())
    }
    /// The factor on what the adapter adds.
    pub fn scale(&self) -> f64 {
        let rank = self.rank as f64;
        self.alpha / if self.rslora { rank.sqrt() } else { rank }
    }
    /// Names of the adapted layers (`model.layers.0.self_attn.q_proj`), sorted.
    pub fn layers(&self) -> BTreeSet<&str> {
        self.tensors.keys().filter_map(|name| name.strip_suffix(DOWN)).collect()
    }
    /// Outputs of the scoring head that the adapter brings; none if it brings no head.
    pub fn labels(&self) -> Option<usize> {
        self.tensors.get(SCORES).map(|t| t.dims()[0])
    }
    /// Numbers that learn.
    pub fn parameter_count(&self) -> usize {
        self.tensors.values().map(Tensor::elem_count).sum()
    }

    /// Whether training with these options can go on with this adapter. Errors: invalid, naming what differs.
    pub fn expect(&self, config: &ModelConfig, options: &AdapterOptions) -> Result<()> {
        let wanted = Self::targets(config, options)?;
        let differs = if self.rank != options.rank {
            format!("has rank {}, not {}", self.rank, options.rank)
        } else if self.scale() != options.scale() {
            format!("has the scale {}, not {}", self.scale(), options.scale())
        } else if !self.layers().into_iter().eq(wanted.iter().map(String::as_str)) {
            format!("changes {} layers, not the {} of `targets`", self.layers().len(), wanted.len())
        } else {
            return Ok(());
        };
        Err(Error::invalid(format!("the model has an adapter already, which {differs}"))
            .help("use the options that it was made with, to train it on, or merge it first with `model/merge`"))
    }

    /// Errors: data or invalid, if a tensor does not fit the model or its partner is missing.
    pub(crate) fn check(&self, config: &ModelConfig) -> Result<()> {
        refuse_fused(config)?;
        let known: BTreeMap<String, LinearLayer> =
            linear_layers(config).into_iter().map(|layer| (layer.name.clone(), layer)).collect();
        for (name, tensor) in self.tensors.iter().filter(|(name, _)| *name != SCORES) {
            let (layer, partner) = match (name.strip_suffix(DOWN), name.strip_suffix(UP)) {
                (Some(layer), _) => (layer, UP),
                (_, Some(layer)) => (layer, DOWN),
                _ => {
                    return Err(Error::invalid(format!("the adapter holds `{name}`, which is not supported"))
                        .help("use an adapter of linear layers, without biases or trained embeddings"));
                }
            };
            let sizes = known.get(layer).ok_or_else(|| layers::unknown(config, layer))?;
            let shape = if partner == UP { [self.rank, sizes.columns] } else { [sizes.rows, self.rank] };
            if tensor.dims() != shape {
                return Err(Error::data(format!(
                    "`{name}` has shape {:?}, the model asks for {shape:?}",
                    tensor.dims()
                ))
                .help("use the base model that the adapter was made for"));
            }
            if !self.tensors.contains_key(&format!("{layer}{partner}")) {
                return Err(Error::data(format!("the adapter lacks `{layer}{partner}`")));
            }
        }
        Ok(())
    }
}

/// Families that keep several layers in one tensor have adapters of the whole, which PEFT names by it.
fn refuse_fused(config: &ModelConfig) -> Result<()> {
    if !config.family.fused {
        return Ok(());
    }
    Err(Error::invalid(format!("adapters of the family {} are not supported", config.family.name))
        .help("train the whole model, or use a family that keeps its projections apart"))
}
