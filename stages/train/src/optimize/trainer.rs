//! A decoder with its optimizer: forward over packed sequences, gradients that add up over micro-batches, one step.
//!
//! Why so: all loops compute log-probabilities only at tokens in the loss, and backpropagate Σ stop_gradient(d)·quantity with the
//! derivatives that pure functions gave. Micro-batches add in index order, so results do not depend on threads. Refuses: losses and
//! gradients that are not finite.

use super::OptimizerOptions;
use crate::curves::finite;
use candle_core::{Device, Tensor, Var};
use std::collections::BTreeMap;
use std::path::Path;
use trainyard_core::{Error, Result};
use trainyard_lm::optimizer::{AdamW, Gradients, StepReport};
use trainyard_lm::{Decoder, ModelConfig, TokenBatch, Weights, checkpoint};

/// Turns a tensor error into ours.
pub(crate) fn tensor(error: candle_core::Error) -> Error {
    Error::bug(format!("tensor operation failed: {error}"))
}

/// Token `token` (at least 1) of sequence `sequence` of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    pub sequence: usize,
    pub token: usize,
}

impl Place {
    /// All true places of masks, in index order. A first token has no prediction and is left out.
    pub fn of_mask(mask: &[&[bool]]) -> Vec<Self> {
        let row = |(sequence, row): (usize, &&[bool])| -> Vec<Self> {
            row.iter().enumerate().skip(1).filter(|(_, m)| **m).map(|(token, _)| Self { sequence, token }).collect()
        };
        mask.iter().enumerate().flat_map(row).collect()
    }
}

/// Log-probabilities and entropies at places, still connected to the weights.
pub struct Forward {
    pub logprobs: Tensor,
    pub entropies: Tensor,
}

impl Forward {
    /// (logprobs, entropies) as numbers.
    pub fn values(&self) -> Result<(Vec<f64>, Vec<f64>)> {
        let list = |t: &Tensor| Ok(t.to_vec1::<f32>().map_err(tensor)?.into_iter().map(f64::from).collect());
        Ok((list(&self.logprobs)?, list(&self.entropies)?))
    }
}

/// The model that learns.
pub struct Trainer {
    pub decoder: Decoder,
    /// What learns; the rest is frozen.
    learned: BTreeMap<String, Var>,
    optimizer: AdamW,
    options: OptimizerOptions,
    total: u64,
    gradients: Option<Gradients>,
}

impl Trainer {
    /// `total` = optimizer steps of the whole stage, for the schedule.
    pub fn new(config: &ModelConfig, weights: Weights, options: &OptimizerOptions, total: u64) -> Result<Self> {
        Ok(Self::of(Decoder::from_weights(config, weights)?, options, total, |_| true))
    }
    /// Only parameters whose name `learns` accepts are changed.
    pub fn of(decoder: Decoder, options: &OptimizerOptions, total: u64, learns: impl Fn(&str) -> bool) -> Self {
        let learned: BTreeMap<String, Var> =
            decoder.parameters().iter().filter(|(n, _)| learns(n)).map(|(n, v)| (n.clone(), v.clone())).collect();
        let optimizer = AdamW::new(&learned, options.adamw());
        Self { decoder, learned, optimizer, options: options.clone(), total, gradients: None }
    }

    /// Optimizer steps done.
    pub fn steps(&self) -> u64 {
        self.optimizer.steps()
    }
    pub fn rate(&self) -> f64 {
        self.options.rate(self.steps(), self.total)
    }

    /// Log-probabilities and entropies of the tokens at `places` under `temperature`.
    pub fn forward(&self, sequences: Vec<Vec<u32>>, places: &[Place], temperature: f64) -> Result<Forward> {
        self.logprobs(sequences, places, temperature, true)
    }
    /// The same numbers without memory for a backward.
    pub fn evaluate(
        &self,
        sequences: Vec<Vec<u32>>,
        places: &[Place],
        temperature: f64,
    ) -> Result<(Vec<f64>, Vec<f64>)> {
        self.logprobs(sequences, places, temperature, false)?.values()
    }
    fn logprobs(
        &self,
        sequences: Vec<Vec<u32>>,
        places: &[Place],
        temperature: f64,
        gradient: bool,
    ) -> Result<Forward> {
        let targets: Vec<u32> = places.iter().map(|p| sequences[p.sequence][p.token]).collect();
        let batch = TokenBatch::new(sequences)?;
        let rows: Vec<u32> = places.iter().map(|p| batch.row(p.sequence, p.token - 1)).collect();
        let hidden = if gradient { self.decoder.hidden(&batch)? } else { self.decoder.hidden_no_grad(&batch)? };
        let (logprobs, entropies) = self.decoder.logprobs(&hidden, &rows, &targets, temperature)?;
        Ok(Forward { logprobs, entropies })
    }

    /// Adds the gradient of Σ c·logprob + Σ e·entropy; `entropies` may be empty.
    pub fn backward(&mut self, forward: &Forward, logprobs: &[f64], entropies: &[f64]) -> Result<()> {
        let weighted = |values: &Tensor, weights: &[f64]| -> Result<Tensor> {
            let weights: Vec<f32> = weights.iter().map(|w| *w as f32).collect();
            let weights = Tensor::from_slice(&weights, weights.len(), &Device::Cpu).map_err(tensor)?;
            values.mul(&weights).and_then(|t| t.sum_all()).map_err(tensor)
        };
        let mut surrogate = weighted(&forward.logprobs, logprobs)?;
        if !entropies.is_empty() {
            surrogate = surrogate.add(&weighted(&forward.entropies, entropies)?).map_err(tensor)?;
        }
        self.accumulate(&surrogate)
    }
    /// Adds the gradient of a scalar.
    pub fn accumulate(&mut self, loss: &Tensor) -> Result<()> {
        let store = loss.backward().map_err(tensor)?;
        let fresh = Gradients::collect(&self.learned, &store)?;
        match &mut self.gradients {
            Some(sum) => sum.add(&fresh)?,
            none => *none = Some(fresh),
        }
        Ok(())
    }

    /// One optimizer step with what was accumulated. None = nothing was. Errors: data, when a gradient is not finite.
    pub fn step(&mut self) -> Result<Option<StepReport>> {
        let Some(gradients) = self.gradients.take() else { return Ok(None) };
        let rate = self.rate();
        let report = self.optimizer.step(&gradients, rate)?;
        finite(report.gradient_norm, "the gradient norm", self.steps())?;
        Ok(Some(report))
    }

    /// Weights, moments and step count as two files.
    pub fn save(&self, folder: &Path) -> Result<()> {
        self.save_as(folder, "")
    }
    pub fn load(&mut self, folder: &Path) -> Result<()> {
        self.load_as(folder, "")
    }
    /// The same with a prefix to the names, for a second model in one checkpoint.
    pub fn save_as(&self, folder: &Path, prefix: &str) -> Result<()> {
        checkpoint::save_tensors(&folder.join(format!("{prefix}weights.safetensors")), &self.decoder.weights()?)?;
        checkpoint::save_tensors(&folder.join(format!("{prefix}optimizer.safetensors")), &self.optimizer.save()?)
    }
    pub fn load_as(&mut self, folder: &Path, prefix: &str) -> Result<()> {
        self.decoder.set_weights(&checkpoint::load_tensors(&folder.join(format!("{prefix}weights.safetensors")))?)?;
        self.optimizer.load(&checkpoint::load_tensors(&folder.join(format!("{prefix}optimizer.safetensors")))?)
    }
}
