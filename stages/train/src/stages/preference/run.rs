//! Runs the training loop: shuffled batches of pairs, one optimizer step each, validation, resume points.
//!
//! The batches of all steps follow from the number of pairs and the seed ([`PreferencePlan`]). Every resume point
//! contains the reference's log-probabilities, so a killed stage resumes to the same bytes.

use super::answer_pair::AnswerPair;
use super::config::{PreferenceConfig, WeightsChoice};
use super::objective::{Logprobs, Objective, PairSums, each_part, inputs};
use super::pair_file::PairSet;
use super::plan::PreferencePlan;
use super::reference::ReferenceLogprobs;
use crate::optimize::{ModelTrainer, micro_batches};
use crate::spans::step_span;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use trainyard_api::StageContext;
use trainyard_api::checkpoint;
use trainyard_api::curves::{LearningCurves, finite};
use trainyard_core::Result;
use trainyard_lm::backend::{OutputGradients, Parameters};

const BEST: &str = "best.safetensors";

/// State of a resume point, in addition to weights, moments and the reference's log-probabilities.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct PreferenceState {
    /// Number of optimizer steps done.
    pub step: u64,
    /// Number of tokens read, without those of the reference.
    pub tokens: u64,
    /// Learning curves so far.
    pub curves: LearningCurves,
    /// Step and loss of the best validation; step 0 is the input model.
    pub best: Option<(u64, f64)>,
}

/// Pairs of a run, with the reference's log-probabilities.
pub struct PreferenceData<'a> {
    /// Training pairs.
    pub train: &'a PairSet,
    /// Held-out pairs.
    pub held: &'a PairSet,
    /// Reference's log-probabilities of both.
    pub reference: ReferenceLogprobs,
}

pub struct PreferenceRun<'a> {
    pub config: &'a PreferenceConfig,
    pub objective: Objective<'a>,
    pub data: PreferenceData<'a>,
    pub context: &'a StageContext,
}

impl PreferenceRun<'_> {
    /// Trains as planned. Returns the weights to publish and the state after the last step.
    pub fn train(
        &self,
        mut trainer: ModelTrainer,
        mut plan: PreferencePlan,
        resumed: Option<(PreferenceState, PathBuf)>,
    ) -> Result<(Parameters, PreferenceState)> {
        let (config, total) = (self.config, plan.steps());
        let every = config.validation_interval();
        let (mut state, mut best) = (PreferenceState::default(), None);
        if let Some((saved, folder)) = resumed.filter(|(state, _)| state.step > 0) {
            trainer.load(&folder, "")?;
            if config.keep == WeightsChoice::Best && saved.best.is_some() {
                best = Some(Parameters::load(&folder.join(BEST))?);
            }
            state = saved;
        }
        let measures = !self.data.held.is_empty();
        if state.step == 0 && measures {
            self.validate(&trainer, &mut state, &mut best)?;
        }
        while state.step < total {
            let _span = step_span(state.step);
            self.context.stop_if_cancelled()?;
            self.step(&mut trainer, plan.batch(state.step)?, &mut state)?;
            let last = state.step == total;
            if measures && (last || (every > 0 && state.step % every == 0)) {
                self.validate(&trainer, &mut state, &mut best)?;
            }
            let shown = state.curves.last("loss").map(|loss| ("loss", loss));
            self.context.progress(state.step, total, "steps", shown);
            if config.checkpoint_every > 0 && state.step % config.checkpoint_every == 0 && !last {
                // The first resume point contains only the reference's log-probabilities and has number 1.
                checkpoint::save(self.context, 1 + state.step, &state, |folder| {
                    trainer.save(folder, "")?;
                    self.data.reference.save(folder)?;
                    best.as_ref().map_or(Ok(()), |best: &Parameters| best.save(&folder.join(BEST)))
                })?;
            }
        }
        let weights = best.map_or_else(|| trainer.weights(), Ok)?;
        Ok((weights, state))
    }

    /// Takes one optimizer step on the mean loss over the batch's pairs.
    fn step(&self, trainer: &mut ModelTrainer, batch: &[u32], state: &mut PreferenceState) -> Result<()> {
        let (pairs, now, rate) = (self.data.train.read(batch)?, state.step, trainer.rate());
        let lengths: Vec<usize> = pairs.iter().map(AnswerPair::tokens).collect();
        let share = 1.0 / batch.len() as f64;
        let mut measured = PairSums::default();
        for part in micro_batches(&lengths, self.config.micro_batch_tokens) {
            let members: Vec<&AnswerPair> = part.iter().map(|&k| &pairs[k]).collect();
            let reference = |k: &usize| self.data.reference.train[batch[*k] as usize];
            let references: Vec<Logprobs> = part.iter().map(reference).collect();
            let (sequences, places) = inputs(&members);
            let outputs = trainer.forward(&sequences, &places, 1.0)?;
            let (found, slopes) = self.objective.measure(&members, &outputs, &references, share);
            finite(found.loss, "the loss", now)?;
            measured.join(&found);
            trainer.backward(&OutputGradients { logprobs: &slopes, ..OutputGradients::default() })?;
        }
        let report = trainer.step()?;
        for (name, value) in measured.means().into_iter().filter(|(name, _)| self.reports(name)) {
            state.curves.point(self.context, name, now, value)?;
        }
        state.curves.point(self.context, "learning_rate", now, rate)?;
        if let Some(report) = report {
            state.curves.point(self.context, "grad_norm", now, report.gradient_norm)?;
        }
        state.tokens += lengths.iter().sum::<usize>() as u64;
        state.step += 1;
        Ok(())
    }

    fn reports(&self, series: &str) -> bool {
        series != "sft_loss" || self.objective.sft_weight > 0.0
    }

    /// Measures the held-out pairs; keeps a copy of the weights if they are the best and `keep` requires it.
    fn validate(
        &self,
        trainer: &ModelTrainer,
        state: &mut PreferenceState,
        best: &mut Option<Parameters>,
    ) -> Result<()> {
        let mut measured = PairSums::default();
        let evaluate = |sequences: &[&[u32]], places: &[_]| trainer.evaluate(sequences, places, 1.0);
        each_part(self.data.held, self.config.micro_batch_tokens, evaluate, |part, members, outputs| {
            let references: Vec<Logprobs> = part.iter().map(|&i| self.data.reference.held[i as usize]).collect();
            measured.join(&self.objective.measure(members, outputs, &references, 1.0).0);
            Ok(())
        })?;
        for (name, value) in measured.means().into_iter().take(3) {
            state.curves.point(self.context, &format!("validation_{name}"), state.step, value)?;
        }
        if state.best.is_none_or(|(_, lowest)| measured.loss() < lowest) {
            state.best = Some((state.step, measured.loss()));
            if self.config.keep == WeightsChoice::Best {
                *best = Some(trainer.weights()?);
            }
        }
        Ok(())
    }
}
