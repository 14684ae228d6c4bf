//! The decoder as a trainable function: tokens to hidden states to log-probabilities.
//!
//! The whole stack of layers is one node of candle's graph with a hand-written backward. A chunk of whole sequences
//! runs through all layers on one thread while its rows are in the cache; weight gradients are summed over the chunks
//! in order, so the bits do not depend on the number of threads. The backward keeps few activations and computes the
//! rest again. Change weights only after all graphs of a step have run their backward.

mod backward;
mod branch;
mod forward;
mod graph;
mod state;
#[cfg(test)]
mod tests;
mod view;

use crate::batch::TokenBatch;
use crate::config::ModelConfig;
use crate::ops::head;
use crate::tensor::candle;
use candle_core::{DType, Device, Tensor, Var};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use trainyard_core::{Chance, Error, Result};

/// Parameters by their Hugging Face names (`model.layers.0.self_attn.q_proj.weight`); iteration order is name order.
pub type Weights = BTreeMap<String, Tensor>;

/// The training model. Parameters are candle variables, float32 (float64 works, for tests).
pub struct Decoder {
    config: ModelConfig,
    parameters: BTreeMap<String, Var>,
    f32_buffers: Arc<Mutex<Vec<state::Workspace<f32>>>>,
    f64_buffers: Arc<Mutex<Vec<state::Workspace<f64>>>>,
}

impl Decoder {
    /// Random float32 weights: normal with `initializer_range`, the two projections that write to the residual stream
    /// divided by √(2 · layers) (Radford et al. 2019), norms that multiply by 1, biases 0. Each parameter draws at its
    /// own name.
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

    /// Copies the weights. A missing, misshapen or unexpected tensor is an error that names it (an `lm_head.weight`
    /// beside tied embeddings, or in a classifier, is ignored).
    pub fn from_weights(config: &ModelConfig, weights: Weights) -> Result<Self> {
        let mut parameters = BTreeMap::new();
        for (name, tensor) in expect_weights(config, weights)? {
            let copy = tensor.force_contiguous().and_then(|t| t.copy()).map_err(candle)?;
            parameters.insert(name, Var::from_tensor(&copy).map_err(candle)?);
        }
        Ok(Self { config: config.clone(), parameters, f32_buffers: Arc::default(), f64_buffers: Arc::default() })
    }

    /// The shape that the decoder was built from.
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }
    /// The variables that the optimizer updates, in name order.
    pub fn parameters(&self) -> &BTreeMap<String, Var> {
        &self.parameters
    }
    /// A copy of the current weights, detached from the variables (a later step does not change it).
    pub fn weights(&self) -> Result<Weights> {
        self.parameters
            .iter()
            .map(|(name, var)| Ok((name.clone(), var.as_detached_tensor().copy().map_err(candle)?)))
            .collect()
    }
    /// Overwrites the weights in place (restoring the best checkpoint); same names and shapes.
    pub fn set_weights(&self, weights: &Weights) -> Result<()> {
        for (name, var) in &self.parameters {
            let tensor = weights.get(name).ok_or_else(|| Error::data(format!("the weights lack `{name}`")))?;
            if tensor.dims() != var.dims() {
                return Err(Error::data(format!(
                    "`{name}` has shape {:?}, the model has {:?}",
                    tensor.dims(),
                    var.dims()
                )));
            }
            var.set(tensor).map_err(candle)?;
        }
        Ok(())
    }
    /// The number type of all parameters: f32, or f64 in gradient checks.
    pub fn dtype(&self) -> DType {
        self.parameters.values().next().map_or(DType::F32, |v| v.dtype())
    }

    /// Hidden states after the last norm, `[batch.rows(), hidden]`, with gradient to every parameter below the head.
    /// Row `batch.row(i, t)` belongs to token t of sequence i; there are no padded rows.
    pub fn hidden(&self, batch: &TokenBatch) -> Result<Tensor> {
        batch.expect_fit(&self.config)?;
        self.run(batch, true)
    }
    /// The same numbers, bit for bit, without a gradient and with the memory of one layer.
    pub fn hidden_no_grad(&self, batch: &TokenBatch) -> Result<Tensor> {
        batch.expect_fit(&self.config)?;
        self.run(batch, false)
    }

    fn run(&self, batch: &TokenBatch, train: bool) -> Result<Tensor> {
        let (config, parameters) = (&self.config, &self.parameters);
        match self.dtype() {
            DType::F64 => graph::hidden::<f64>(config, parameters, batch, train, self.f64_buffers.clone()),
            _ => graph::hidden::<f32>(config, parameters, batch, train, self.f32_buffers.clone()),
        }
    }

    /// Log-probability of `targets[j]` and entropy (nats) of the distribution softmax(logits / temperature) at hidden
    /// row `rows[j]`: two tensors `[n]`, both with gradient. The token at position t is predicted by row t - 1. Ids
    /// that the tokenizer lacks have probability 0.
    pub fn logprobs(
        &self,
        hidden: &Tensor,
        rows: &[u32],
        targets: &[u32],
        temperature: f64,
    ) -> Result<(Tensor, Tensor)> {
        if self.config.num_labels.is_some() {
            return Err(
                Error::invalid("a token classifier predicts no tokens").help("give a language model (…ForCausalLM)")
            );
        }
        let temperature = temperature * self.config.architecture.logits_scaling;
        self.config.expect_tokens(targets)?;
        let (head, unused) = (self.head()?.as_tensor(), &self.config.unused_tokens);
        head::logprobs(hidden, head, unused, rows, targets, temperature)
    }
    /// Scores of a classifier at hidden rows: `[n, labels]`, with gradient.
    pub fn scores(&self, hidden: &Tensor, rows: &[u32]) -> Result<Tensor> {
        let weight = self
            .parameters
            .get("score.weight")
            .ok_or_else(|| Error::invalid("the model has no score head").help("train one with the `prm` stage"))?;
        let total = hidden.dims().first().copied().unwrap_or(0);
        if let Some(row) = rows.iter().find(|r| **r as usize >= total) {
            return Err(Error::bug(format!("there is no row {row} among {total} hidden rows")));
        }
        let index = Tensor::from_slice(rows, rows.len(), &Device::Cpu).map_err(candle)?;
        hidden.index_select(&index, 0).and_then(|h| h.matmul(&weight.t()?)).map_err(candle)
    }

    /// The same body with a fresh score head of `labels` rows instead of the language head (zeros: all scores start at
    /// 0).
    pub fn into_classifier(self, labels: usize) -> Result<Self> {
        let mut config = self.config.clone();
        config.num_labels = Some(labels);
        let mut weights = self.weights()?;
        let zeros = Tensor::zeros((labels, config.hidden_size), self.dtype(), &Device::Cpu).map_err(candle)?;
        weights.insert("score.weight".into(), zeros);
        Self::from_weights(&config, weights)
    }

    /// The matrix `[vocabulary, hidden]` of the language head: tied to the embeddings or its own.
    fn head(&self) -> Result<&Var> {
        let name = if self.config.tie_word_embeddings { "model.embed_tokens.weight" } else { "lm_head.weight" };
        self.parameters.get(name).ok_or_else(|| Error::bug(format!("the model lost `{name}`")))
    }
}

/// The weights that the config asks for. A missing, misshapen or unexpected tensor is an error that names it (an
/// `lm_head.weight` beside tied embeddings, or in a classifier, is left out).
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
            return Err(Error::data(format!("`{name}` has shape {:?}, the config asks for {shape:?}", tensor.dims()))
                .help("use the config.json and the model.safetensors of one model"));
        }
        let kind = *dtype.get_or_insert(tensor.dtype());
        if kind != tensor.dtype() || !matches!(kind, DType::F32 | DType::F64) {
            return Err(Error::bug(format!("`{name}` is {:?}: all weights must be f32 (or all f64)", tensor.dtype())));
        }
        found.insert(name, tensor);
    }
    weights.remove("lm_head.weight");
    match weights.keys().next() {
        None => Ok(found),
        Some(name) => Err(Error::data(format!(
            "the weights hold `{name}`, which a {} of this config does not have",
            config.family.name
        ))
        .help("check `attention_bias` and the number of layers in config.json")),
    }
}
