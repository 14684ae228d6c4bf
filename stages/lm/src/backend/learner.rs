//! Defines [`Learner`], the trait of backends that train a model.

use super::Parameters;
use crate::adapter::{Adapter, DOWN, SCORES, UP};
use crate::config::ModelConfig;
use crate::decoder::Dropout;
use crate::optimizer::{AdamWConfig, StepReport};
use std::path::{Path, PathBuf};
use trainyard_core::{Chance, Error, Result};

/// The token at `token` of sequence `sequence` of a batch.
///
/// The numbers of a position are predicted from the tokens before it, so `token` is at least 1. A value may also be
/// read after the last token, where `token` is the length of the sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenPosition {
    /// Index of the sequence in the batch.
    pub sequence: usize,
    /// Index of the predicted token in its sequence, from 1.
    pub token: usize,
}

impl TokenPosition {
    /// Returns the positions where masks are true, in index order. First tokens have no prediction and are omitted.
    pub fn from_masks<M: AsRef<[bool]>>(masks: &[M]) -> Vec<Self> {
        let row = |(sequence, row): (usize, &M)| -> Vec<Self> {
            let positions = row.as_ref().iter().enumerate().skip(1).filter(|(_, m)| **m);
            positions.map(|(token, _)| Self { sequence, token }).collect()
        };
        masks.iter().enumerate().flat_map(row).collect()
    }
}

/// Outputs of a model at positions.
///
/// A language model returns `logprobs` and `entropies`, one number per position; a model with a scoring head returns
/// `values`, one number per position and output. The other lists are empty.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Outputs {
    /// Natural log of the probability of the token, after the temperature.
    pub logprobs: Vec<f64>,
    /// Entropy of the distribution of `logprobs`, in nats.
    pub entropies: Vec<f64>,
    /// Output of the scoring head.
    pub values: Vec<f64>,
}

/// Derivatives of a loss with respect to the numbers of [`Outputs`], in the same order. An empty list means zeros.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct OutputGradients<'a> {
    /// d loss / d [`Outputs::logprobs`], one number per position.
    pub logprobs: &'a [f64],
    /// d loss / d [`Outputs::entropies`], one number per position.
    pub entropies: &'a [f64],
    /// d loss / d [`Outputs::values`], one number per position and output.
    pub values: &'a [f64],
}

/// The head that a learner trains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LearnerHead {
    /// The model's own head.
    #[default]
    Own,
    /// A new scoring head with this many outputs per token, initially 0, instead of the language head.
    Scores(usize),
}

/// Parameters that a learner changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TrainableParameters {
    /// Every parameter: the decoder and its head.
    #[default]
    All,
    /// Only the scoring head; the decoder and its adapter, if any, are frozen.
    Scores,
    /// The model's adapter, and its scoring head if it has one; the decoder is frozen.
    Adapter,
    /// No parameter: the learner only evaluates, and has neither gradients nor moments.
    Nothing,
}

impl LearnerOptions {
    /// Returns the dropout of the model's adapter, or `None` if the adapter has no dropout or is not trained. A learner
    /// derives the dropout of each pass from the result.
    pub(super) fn dropout(&self, adapter: Option<&Adapter>) -> Option<Dropout> {
        let share = adapter.map_or(0.0, |adapter| adapter.dropout);
        let chance = Chance::new(self.seed).child("dropout", &[]);
        (self.trainable == TrainableParameters::Adapter && share > 0.0).then_some(Dropout { share, chance })
    }
}

impl TrainableParameters {
    /// Returns whether training changes the parameter `name`.
    pub(super) fn includes(self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::Adapter => is_adapter_parameter(name),
            Self::Scores => name == SCORES,
            Self::Nothing => false,
        }
    }
    /// Checks that the choice matches the model. Errors: bug, if the choice does not match the presence of an adapter.
    pub(super) fn expect(self, adapter: Option<&Adapter>) -> Result<()> {
        match (self, adapter) {
            (Self::All, Some(_)) | (Self::Adapter, None) => Err(Error::bug(
                "`trainable` does not match the model: `Adapter` needs an adapter, `All` a model without one",
            )),
            _ => Ok(()),
        }
    }
}

/// Returns whether the parameter `name` of a model with an adapter belongs to the adapter or its scoring head.
pub(super) fn is_adapter_parameter(name: &str) -> bool {
    name.ends_with(DOWN) || name.ends_with(UP) || name == SCORES
}

/// Options of a learner.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct LearnerOptions {
    /// AdamW without its learning rate, which [`Learner::step`] takes.
    pub optimizer: AdamWConfig,
    /// The head that is trained: the model's own or a new scoring head.
    pub head: LearnerHead,
    /// Parameters that change; the others are frozen.
    pub trainable: TrainableParameters,
    /// Seed of the dropout of a trained adapter; draws depend on it, the step, and the position in the step.
    pub seed: u64,
}

/// A model with its optimizer.
///
/// One optimizer step is any number of `forward` and `backward` pairs, whose gradients add up in the order of the
/// calls, and one `step`. The same calls give the same bits, for any number of threads.
pub trait Learner: Send {
    /// Returns the config of the model that [`Learner::weights`] returns, including its head.
    fn config(&self) -> &ModelConfig;
    /// Returns names and shapes of the trained parameters, in name order.
    fn parameters(&self) -> Vec<(String, Vec<usize>)>;
    /// Computes the outputs at `positions` and keeps the state for [`Learner::backward`]. A later call replaces the
    /// state of an earlier one.
    ///
    /// Errors: no sequence or an empty one, tokens outside the vocabulary, a sequence longer than the model.
    fn forward(&mut self, sequences: &[&[u32]], positions: &[TokenPosition], temperature: f64) -> Result<Outputs>;
    /// Computes the numbers of [`Learner::forward`], bit for bit, without memory for a backward pass and without an
    /// adapter's dropout.
    fn evaluate(&self, sequences: &[&[u32]], positions: &[TokenPosition], temperature: f64) -> Result<Outputs>;
    /// Adds the gradient of Σ slope·output of the last [`Learner::forward`] to the accumulated gradients. Errors: bug,
    /// if no forward precedes the call.
    fn backward(&mut self, slopes: &OutputGradients<'_>) -> Result<()>;
    /// Updates the parameters with learning rate `rate` by the gradients accumulated since the last step, and clears
    /// the gradients. Returns `None` if no gradient was accumulated.
    ///
    /// Errors: data, if a gradient is not finite; the parameters are then unchanged.
    fn step(&mut self, rate: f64) -> Result<Option<StepReport>>;
    /// Returns the number of optimizer steps.
    fn steps(&self) -> u64;
    /// Returns a copy of all parameters, frozen ones included; for a model with an adapter, only the adapter's tensors
    /// and its scoring head.
    fn weights(&self) -> Result<Parameters>;
    /// Writes the trained parameters and the optimizer's state into a folder, under names that begin with `prefix`.
    fn save(&self, folder: &Path, prefix: &str) -> Result<()>;
    /// Restores the state that [`Learner::save`] wrote for the same model; training then continues with the same bits
    /// as without an interruption.
    fn load(&mut self, folder: &Path, prefix: &str) -> Result<()>;
}

/// Returns the files that [`Learner::save`] writes: weights and optimizer state.
pub(super) fn learned_files(folder: &Path, prefix: &str) -> (PathBuf, PathBuf) {
    (folder.join(format!("{prefix}weights.safetensors")), folder.join(format!("{prefix}optimizer.safetensors")))
}
