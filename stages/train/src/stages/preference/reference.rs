//! Computes the log-probabilities of all answers under the reference once, before the first step, and keeps them in
//! resume points.
//!
//! The default reference is the stage's input model, and its trainer computes the log-probabilities before the first
//! step, so memory contains no second copy. Another reference is wired as the input `reference` and freed after its
//! log-probabilities are computed.

use super::config::PreferenceConfig;
use super::objective::{Logprobs, each_part, sums};
use super::pair_file::PairSet;
use crate::model::PolicyModel;
use crate::optimize::{ModelTrainer, OptimizerOptions, TrainableParams};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::Arc;
use trainyard_api::StageContext;
use trainyard_core::error::io_error;
use trainyard_core::{Error, Result};
use trainyard_lm::backend::{Backend, TrainableParameters};

const FILE: &str = "reference.json";

/// Sums of log-probabilities by pair.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ReferenceLogprobs {
    /// Sums of the training pairs.
    pub train: Vec<Logprobs>,
    /// Sums of the held-out pairs.
    pub held: Vec<Logprobs>,
}

impl ReferenceLogprobs {
    /// Returns zeros, for losses that do not use a reference.
    pub fn zeros(train: &PairSet, held: &PairSet) -> Self {
        Self { train: vec![[0.0; 2]; train.len()], held: vec![[0.0; 2]; held.len()] }
    }
    /// Computes the sums under a trainer's current weights, and reports progress.
    pub fn of(
        trainer: &ModelTrainer,
        (train, held): (&PairSet, &PairSet),
        budget: usize,
        context: &StageContext,
    ) -> Result<Self> {
        let total = (train.len() + held.len()) as u64;
        let mut done = 0;
        let mut numbers = |pairs: &PairSet| -> Result<Vec<Logprobs>> {
            let mut found = vec![[0.0; 2]; pairs.len()];
            let evaluate = |sequences: &[&[u32]], places: &[_]| trainer.evaluate(sequences, places, 1.0);
            each_part(pairs, budget, evaluate, |part, members, outputs| {
                context.stop_if_cancelled()?;
                for (place, logprobs) in part.iter().zip(sums(members, &outputs.logprobs)) {
                    found[*place as usize] = finite(logprobs)?;
                }
                done += part.len() as u64;
                context.progress(done, total, "pairs under the reference", None);
                Ok(())
            })?;
            Ok(found)
        };
        Ok(Self { train: numbers(train)?, held: numbers(held)? })
    }
    /// Computes the sums under the model wired to `reference`, or returns `None` if no model is wired.
    ///
    /// Errors: invalid, if its tokenizer differs from that of `policy`.
    pub fn wired(
        config: &PreferenceConfig,
        policy: &PolicyModel,
        pairs: (&PairSet, &PairSet),
        backend: &Arc<dyn Backend>,
        context: &StageContext,
    ) -> Result<Option<Self>> {
        let Some(artifact) = context.optional("reference") else { return Ok(None) };
        let mut model = PolicyModel::load(artifact, "reference", backend.clone())?;
        if model.folder.tokenizer_digest() != policy.folder.tokenizer_digest() {
            return Err(Error::invalid("the models of `model` and `reference` have different tokenizers")
                .help("wire a reference with the tokenizer of `model`"));
        }
        let longest = pairs.0.longest().max(pairs.1.longest()).map(|tokens| tokens as usize);
        let positions = model.folder.config.positions();
        if let Some(tokens) = longest.filter(|tokens| *tokens > positions) {
            let message = format!("a conversation has {tokens} tokens, but `reference` has {positions} positions");
            return Err(Error::invalid(message).help("set `max_tokens`"));
        }
        let fixed = TrainableParams { learns: TrainableParameters::Nothing, seed: 0 };
        let options = OptimizerOptions { learning_rate: Some(1.0), ..OptimizerOptions::default() };
        let trainer = model.trainer(&options, 1, trainyard_lm::backend::LearnerHead::Own, fixed)?;
        Self::of(&trainer, pairs, config.micro_batch_tokens, context).map(Some)
    }

    /// Writes the sums into a resume point.
    pub fn save(&self, folder: &Path) -> Result<()> {
        let path = folder.join(FILE);
        let text = serde_json::to_vec(self).map_err(Error::bug)?;
        std::fs::write(&path, text).map_err(|e| io_error(&path, &e))
    }
    /// Reads sums written by [`ReferenceLogprobs::save`]. Errors: data, if the number of pairs differs.
    pub fn load(folder: &Path, train: &PairSet, held: &PairSet) -> Result<Self> {
        let path = folder.join(FILE);
        let text = std::fs::read(&path).map_err(|e| io_error(&path, &e))?;
        let read: Self = serde_json::from_slice(&text).map_err(|e| {
            Error::data(format!("the reference log-probabilities of a resume point cannot be read: {e}"))
        })?;
        if (read.train.len(), read.held.len()) != (train.len(), held.len()) {
            return Err(Error::data("a resume point has reference log-probabilities of other pairs")
                .help("run `trainyard runs afresh RUN STAGE`, then start the stage again"));
        }
        Ok(read)
    }
}

fn finite(logprobs: Logprobs) -> Result<Logprobs> {
    if logprobs.iter().all(|sum| sum.is_finite()) {
        return Ok(logprobs);
    }
    Err(Error::data("a log-probability under the reference is not finite")
        .help("check the weights of the model for NaN"))
}
