//! Implements the decoder as a trainable function from tokens to hidden states to log-probabilities.
//!
//! The whole stack of layers is one node of candle's graph with a hand-written backward. One thread takes a chunk of
//! whole sequences through all layers while its rows are in the cache. Weight gradients are summed over the chunks in
//! order, so the bits do not depend on the number of threads. The backward keeps few activations and computes the rest
//! again. Change weights only after all graphs of a step have run their backward.

#[cfg(test)]
mod adapter_tests;
mod backward;
mod branch;
mod forward;
mod gradients;
mod graph;
mod linear;
mod matrices;
#[cfg(test)]
mod memory_tests;
mod projection;
#[cfg(test)]
mod rejection_tests;
mod state;
#[cfg(test)]
mod tests;
mod view;

pub(crate) use crate::adapter::{Adapter, SCORES};
use crate::batch::SequenceBatch;
use crate::config::ModelConfig;
use crate::ops::head;
use crate::tensor::candle;
pub use crate::weights::Weights;
use candle_core::{DType, Device, Tensor, Var};
pub use linear::Dropout;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use trainyard_core::{Chance, Error, Result};
pub(crate) use view::LoraScale;

/// The training model. Trained parameters are candle variables in float32 (or float64, for tests). Frozen parameters
/// are tensors that other users of the model share.
pub struct Decoder {
    config: ModelConfig,
    parameters: BTreeMap<String, Var>,
    frozen: Weights,
    lora: Option<LoraScale>,
    limits: state::PassLimits,
    f32_buffers: Arc<Mutex<Vec<state::Workspace<f32>>>>,
    f64_buffers: Arc<Mutex<Vec<state::Workspace<f64>>>>,
}

impl Decoder {
    /// Creates random float32 weights: normal with `initializer_range`, the two projections that write to the residual
    /// stream divided by √(2 · layers) (Radford et al. 2019), norms that multiply by 1, biases 0. The draws of a
    /// parameter are keyed by its name.
    pub fn initialize(config: &ModelConfig, chance: &Chance) -> Result<Self> {
        config.validate()?;
        let residual = 1.0 / (2.0 * config.num_hidden_layers as f64).sqrt();
        let mut weights = Weights::new();
        for (name, shape) in config.parameters() {
            let count = shape.iter().product::<usize>();
            let values = if name.ends_with("norm.weight") {
                vec![1.0 - config.architecture.norm_offset as f32; count]
            } else if name.ends_with(".bias") {
                vec![0.0; count]
            } else {
                let writes_residual = name.ends_with("o_proj.weight") || name.ends_with("down_proj.weight");
                let std = config.initializer_range * if writes_residual { residual } else { 1.0 };
                let mut draws = chance.at(&format!("initialize {name}"), &[]);
                (0..count).map(|_| (draws.normal() * std) as f32).collect()
            };
            weights.insert(name, Tensor::from_vec(values, shape, &Device::Cpu).map_err(candle)?);
        }
        Self::from_weights(config, weights)
    }

    /// Creates a decoder whose parameters are all trained, with a copy of `weights`. Errors: see [`Decoder::new`].
    pub fn from_weights(config: &ModelConfig, weights: Weights) -> Result<Self> {
        Self::new(config, weights, None, |_| true)
    }
    /// Creates a decoder with an optional adapter. Trains the tensors for which `learns` returns true, and shares the
    /// others without a copy.
    ///
    /// Errors: a missing, misshapen or unexpected tensor, by name (an `lm_head.weight` in addition to tied embeddings,
    /// or in a classifier, is ignored), and an adapter that does not fit the model.
    pub fn new(
        config: &ModelConfig,
        mut weights: Weights,
        adapter: Option<&Adapter>,
        learns: impl Fn(&str) -> bool,
    ) -> Result<Self> {
        config.validate()?;
        let (mut factors, mut low) = (Weights::new(), None);
        if let Some(adapter) = adapter {
            adapter.check(config)?;
            factors = adapter.tensors.clone();
            weights.extend(factors.remove_entry(SCORES));
            low = Some(LoraScale { rank: adapter.rank, scale: adapter.scale() });
        }
        let (mut parameters, mut frozen) = (BTreeMap::new(), Weights::new());
        for (name, tensor) in expect_weights(config, weights)?.into_iter().chain(factors) {
            if learns(&name) {
                parameters.insert(name, Var::from_tensor(&tensor).map_err(candle)?);
            } else {
                frozen.insert(name, tensor);
            }
        }
        let (config, limits) = (config.clone(), state::PassLimits::default());
        Ok(Self {
            config,
            parameters,
            frozen,
            lora: low,
            limits,
            f32_buffers: Arc::default(),
            f64_buffers: Arc::default(),
        })
    }

    /// Returns the config that the decoder was built from.
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }
    /// Returns the trained variables, which the optimizer updates, in name order.
    pub fn parameters(&self) -> &BTreeMap<String, Var> {
        &self.parameters
    }
    /// Returns the current weights, including those of an adapter. Trained weights are copied, so a later step does not
    /// change them; the others are shared.
    pub fn weights(&self) -> Result<Weights> {
        let mut weights = self.frozen.clone();
        weights.extend(self.learned()?);
        Ok(weights)
    }
    /// Returns the current weights without a copy, so a later step changes them.
    pub fn current(&self) -> Weights {
        let learned = self.parameters.iter().map(|(name, var)| (name.clone(), var.as_detached_tensor()));
        self.frozen.iter().map(|(name, tensor)| (name.clone(), tensor.clone())).chain(learned).collect()
    }
    /// Returns a copy of the trained parameters.
    pub fn learned(&self) -> Result<Weights> {
        self.parameters
            .iter()
            .map(|(name, var)| Ok((name.clone(), var.as_detached_tensor().copy().map_err(candle)?)))
            .collect()
    }
    /// Overwrites the trained parameters in place (to resume); names and shapes must be the same.
    pub fn set_weights(&self, weights: &Weights) -> Result<()> {
        for (name, var) in &self.parameters {
            var.set(expect_learned(weights, name, var.dims())?).map_err(candle)?;
        }
        Ok(())
    }
    /// Returns the number type of all parameters: f32, or f64 in gradient checks.
    pub fn dtype(&self) -> DType {
        let learned = self.parameters.values().next().map(|v| v.dtype());
        learned.or_else(|| self.frozen.values().next().map(Tensor::dtype)).unwrap_or(DType::F32)
    }

    /// Computes hidden states after the last norm, `[batch.rows(), hidden]`, with gradient to every parameter below the
    /// head. Row `batch.row(i, t)` belongs to token t of sequence i; there are no padded rows.
    pub fn hidden(&self, batch: &SequenceBatch) -> Result<Tensor> {
        self.hidden_with(batch, None)
    }
    /// Computes [`Decoder::hidden`] with dropout in the adapter.
    pub fn hidden_with(&self, batch: &SequenceBatch, dropout: Option<Dropout>) -> Result<Tensor> {
        batch.expect_fit(&self.config)?;
        self.run(batch, true, dropout)
    }
    /// Computes the numbers of [`Decoder::hidden`], bit for bit, without a gradient and with the memory of one layer.
    pub fn hidden_no_grad(&self, batch: &SequenceBatch) -> Result<Tensor> {
        batch.expect_fit(&self.config)?;
        self.run(batch, false, None)
    }

    fn run(&self, batch: &SequenceBatch, train: bool, dropout: Option<Dropout>) -> Result<Tensor> {
        let Self { config, parameters, frozen, lora: low, limits, .. } = self;
        let model = graph::Model { config, parameters, frozen, lora: *low, limits: *limits, dropout };
        match self.dtype() {
            DType::F64 => graph::hidden::<f64>(model, batch, train, self.f64_buffers.clone()),
            _ => graph::hidden::<f32>(model, batch, train, self.f32_buffers.clone()),
        }
    }

    /// Computes the log-probability of `targets[j]` and the entropy (nats) of the distribution softmax(logits /
    /// temperature) at hidden row `rows[j]`: two tensors `[n]`, both with gradient. The token at position t is
    /// predicted by row t - 1. Ids that the tokenizer lacks have probability 0.
    pub fn logprobs(
        &self,
        hidden: &Tensor,
        rows: &[u32],
        targets: &[u32],
        temperature: f64,
    ) -> Result<(Tensor, Tensor)> {
        if self.config.num_labels.is_some() {
            return Err(Error::invalid("a token classifier does not predict tokens")
                .help("use a language model (…ForCausalLM)"));
        }
        let temperature = temperature * self.config.architecture.logits_scaling;
        self.config.expect_tokens(targets)?;
        head::logprobs(hidden, self.head()?, &self.config.unused_tokens, rows, targets, temperature)
    }
    /// Computes the scores of a classifier at hidden rows: `[n, labels]`, with gradient.
    pub fn scores(&self, hidden: &Tensor, rows: &[u32]) -> Result<Tensor> {
        let weight = self
            .tensor(SCORES)
            .ok_or_else(|| Error::invalid("the model has no score head").help("train one with the `prm` stage"))?;
        let total = hidden.dims().first().copied().unwrap_or(0);
        if let Some(row) = rows.iter().find(|r| **r as usize >= total) {
            return Err(Error::bug(format!("row {row} is out of range: there are {total} hidden rows")));
        }
        let index = Tensor::from_slice(rows, rows.len(), &Device::Cpu).map_err(candle)?;
        hidden.index_select(&index, 0).and_then(|h| h.matmul(&weight.t()?)).map_err(candle)
    }

    /// Replaces the language head by a trained scoring head of `labels` rows, initially 0.
    pub fn into_classifier(mut self, labels: usize) -> Result<Self> {
        let zeros = Tensor::zeros((labels, self.config.hidden_size), self.dtype(), &Device::Cpu);
        let head = zeros.and_then(|zeros| Var::from_tensor(&zeros)).map_err(candle)?;
        self.config.num_labels = Some(labels);
        for name in ["lm_head.weight", SCORES] {
            self.parameters.remove(name);
            self.frozen.remove(name);
        }
        self.parameters.insert(SCORES.to_string(), head);
        Ok(self)
    }

    /// Returns the matrix `[vocabulary, hidden]` of the language head, which may be the embeddings. Errors: a model
    /// without a language head.
    fn head(&self) -> Result<&Tensor> {
        let name = if self.config.tie_word_embeddings { "model.embed_tokens.weight" } else { "lm_head.weight" };
        self.tensor(name).ok_or_else(|| Error::bug(format!("the model has no `{name}`")))
    }
    fn tensor(&self, name: &str) -> Option<&Tensor> {
        self.parameters.get(name).map(Var::as_tensor).or_else(|| self.frozen.get(name))
    }
}

/// Returns the bytes of a training pass over `rows` tokens computed together: activations, scratch, hidden states, and
/// the head's blocks of logits, without weights and gradients.
pub fn pass_bytes(config: &ModelConfig, rows: usize) -> u64 {
    let hidden = 2 * rows * config.hidden_size * size_of::<f32>();
    state::pass_bytes(config, rows) + hidden as u64 + head::block_bytes(config.vocab_size, config.hidden_size, rows)
}

/// Returns the tensor `name` of a resume point. Errors: data, if it is missing or has another shape.
pub(crate) fn expect_learned<'w>(weights: &'w Weights, name: &str, shape: &[usize]) -> Result<&'w Tensor> {
    let tensor = weights.get(name).ok_or_else(|| Error::data(format!("the weights lack `{name}`")))?;
    if tensor.dims() != shape {
        return Err(Error::data(format!("`{name}` has shape {:?}, the model has {shape:?}", tensor.dims())));
    }
    Ok(tensor)
}

/// Returns the tensors that the config names, contiguous and of one number type. Drops an `lm_head.weight` in addition
/// to tied embeddings or in a classifier. Errors name a missing, misshapen or unexpected tensor.
pub(crate) fn expect_weights(config: &ModelConfig, mut weights: Weights) -> Result<Weights> {
    config.validate()?;
    let mut found = Weights::new();
    let mut dtype = None;
    for (name, shape) in config.parameters() {
        let tensor = weights.remove(&name).ok_or_else(|| {
            Error::data(format!("the weights lack `{name}` of shape {shape:?}"))
                .help("use the config.json and the model.safetensors of one model")
        })?;
        if tensor.dims() != shape {
            return Err(Error::data(format!("`{name}` has shape {:?}, the config requires {shape:?}", tensor.dims()))
                .help("use the config.json and the model.safetensors of one model"));
        }
        let kind = *dtype.get_or_insert(tensor.dtype());
        if kind != tensor.dtype() || !matches!(kind, DType::F32 | DType::F64) {
            return Err(Error::bug(format!("`{name}` is {:?}: all weights must be f32 (or all f64)", tensor.dtype())));
        }
        // A variable of another decoder is copied, because training changes it in place.
        let tensor = if tensor.is_variable() { tensor.copy() } else { tensor.contiguous() };
        found.insert(name, tensor.map_err(candle)?.detach());
    }
    weights.remove("lm_head.weight");
    match weights.keys().next() {
        Some(name) => Err(Error::data(format!(
            "unexpected tensor `{name}`: a {} of this config does not have it",
            config.family.name
        ))
        .help("check `attention_bias` and the number of layers in config.json")),
        None => Ok(found),
    }
}
