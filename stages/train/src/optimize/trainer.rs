//! Combines a learner with its learning-rate schedule, for every training loop.

use super::OptimizerOptions;
use std::path::Path;
use trainyard_api::curves::finite;
use trainyard_core::{Error, Result};
use trainyard_lm::ModelFolder;
use trainyard_lm::backend::{
    Backend, Learner, LearnerHead, LearnerOptions, OutputGradients, Outputs, Parameters, TokenPosition,
    TrainableParameters,
};
use trainyard_lm::optimizer::StepReport;

/// Model in training.
pub struct ModelTrainer {
    learner: Box<dyn Learner>,
    options: OptimizerOptions,
    peak: f64,
    total: u64,
}

/// Part of the model that a trainer changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrainableParams {
    pub learns: TrainableParameters,
    /// Seed of an adapter's dropout.
    pub seed: u64,
}

impl ModelTrainer {
    /// Creates a trainer of the model with its own head. `total` = optimizer steps of the whole stage, for the
    /// schedule.
    pub fn new(
        backend: &dyn Backend,
        model: &ModelFolder,
        options: &OptimizerOptions,
        total: u64,
        learns: TrainableParams,
    ) -> Result<Self> {
        Self::with_head(backend, model, options, total, LearnerHead::Own, learns)
    }
    /// Creates a trainer of the model with a new head, or of the head alone. Errors: bug, for options without a rate.
    pub fn with_head(
        backend: &dyn Backend,
        model: &ModelFolder,
        options: &OptimizerOptions,
        total: u64,
        head: LearnerHead,
        TrainableParams { learns, seed }: TrainableParams,
    ) -> Result<Self> {
        let learner =
            backend.learner(model, &LearnerOptions { optimizer: options.adamw(), head, trainable: learns, seed })?;
        let peak = options.learning_rate.ok_or_else(|| Error::bug("the learning rate was not settled"))?;
        Ok(Self { learner, options: options.clone(), peak, total })
    }

    /// Returns the number of optimizer steps done.
    pub fn steps(&self) -> u64 {
        self.learner.steps()
    }
    /// Returns the learning rate of the next step.
    pub fn rate(&self) -> f64 {
        self.options.rate(self.peak, self.steps(), self.total)
    }
    /// Copies the current weights.
    pub fn weights(&self) -> Result<Parameters> {
        self.learner.weights()
    }
    /// Returns a copy of `folder` with the current weights and their config.
    pub fn model(&self, folder: &ModelFolder) -> Result<ModelFolder> {
        let mut model = folder.with_parameters(&self.weights()?)?;
        model.config = self.learner.config().clone();
        Ok(model)
    }

    /// Computes outputs at `places`, and keeps the activations for the next [`ModelTrainer::backward`].
    pub fn forward(&mut self, sequences: &[&[u32]], places: &[TokenPosition], temperature: f64) -> Result<Outputs> {
        self.learner.forward(sequences, places, temperature)
    }
    /// Computes outputs like [`ModelTrainer::forward`], without keeping activations for a backward pass.
    pub fn evaluate(&self, sequences: &[&[u32]], places: &[TokenPosition], temperature: f64) -> Result<Outputs> {
        self.learner.evaluate(sequences, places, temperature)
    }
    /// Adds the gradient of Σ slope·output over the outputs of the last forward pass.
    pub fn backward(&mut self, slopes: &OutputGradients<'_>) -> Result<()> {
        self.learner.backward(slopes)
    }
    /// Takes one optimizer step with the accumulated gradients. Returns `None` without a step if no gradient was added.
    /// Errors: data, if a gradient is not finite.
    pub fn step(&mut self) -> Result<Option<StepReport>> {
        let Some(report) = self.learner.step(self.rate())? else { return Ok(None) };
        finite(report.gradient_norm, "the gradient norm", self.steps())?;
        Ok(Some(report))
    }

    /// Writes weights, moments and step count; `prefix` distinguishes several models of one checkpoint.
    pub fn save(&self, folder: &Path, prefix: &str) -> Result<()> {
        self.learner.save(folder, prefix)
    }
    /// Reads the state written by [`ModelTrainer::save`].
    pub fn load(&mut self, folder: &Path, prefix: &str) -> Result<()> {
        self.learner.load(folder, prefix)
    }
}
