//! Loads, checks and saves the models at a stage's ports.
//!
//! Data and models carry the digests of their tokenizer and template, and every stage compares the digests before it
//! computes.

use crate::optimize::{ModelTrainer, OptimizerOptions, TrainableParams};
use std::sync::Arc;
use trainyard_api::{InputArtifact, StageContext};
use trainyard_core::error::Context as _;
use trainyard_core::{Chance, Result};
use trainyard_lm::ModelFolder;
use trainyard_lm::adapter::{Adapter, AdapterOptions};
use trainyard_lm::backend::{Backend, LearnerHead, Sampler, SamplerOptions, TrainableParameters};
use trainyard_lm::checkpoint::SaveOptions;
use trainyard_lm::template::TemplateOptions;

/// Model with the content digest of its artifact and its backends.
pub struct PolicyModel {
    /// Weights, configuration, tokenizer and chat template.
    pub folder: ModelFolder,
    /// Content digest of the artifact.
    pub digest: String,
    /// Backend that computes the model.
    pub backend: Arc<dyn Backend>,
    /// Backend that samples with the model, if different from `backend`.
    pub sampling_backend: Option<Arc<dyn Backend>>,
}

impl PolicyModel {
    /// Loads the model wired to `port`. Errors: data, naming the port, if the folder is incomplete or damaged.
    pub fn load(artifact: &InputArtifact, port: &str, backend: Arc<dyn Backend>) -> Result<Self> {
        let folder = ModelFolder::load(&artifact.folder).at(format!("input `{port}`"))?;
        Ok(Self { folder, digest: artifact.digest.to_string(), backend, sampling_backend: None })
    }
    /// Sets the backend for sampling; with `None`, the model's own backend samples.
    pub fn with_sampling_backend(self, elsewhere: Option<Arc<dyn Backend>>) -> Self {
        Self { sampling_backend: elsewhere, ..self }
    }
    /// Sets the template options. Errors (kind invalid): `tools: native` with a template that does not support it.
    pub fn with_template(mut self, options: &TemplateOptions) -> Result<Self> {
        self.folder.chat = self.folder.chat.with_template_options(options)?;
        Ok(self)
    }
    /// Prepares the model for training and returns which parameters learn. With `options`, an adapter learns (the
    /// existing one, if any, else a new one drawn from `seed`); without, all weights learn and any adapter is merged.
    ///
    /// Errors: targets that the model does not have; options that contradict the existing adapter.
    pub fn trained(mut self, options: Option<&AdapterOptions>, seed: u64) -> Result<(Self, TrainableParameters)> {
        match (options, &self.folder.adapter) {
            (None, None) => Ok((self, TrainableParameters::All)),
            (None, Some(_)) => {
                self.folder = self.folder.merged()?;
                Ok((self, TrainableParameters::All))
            }
            (Some(options), Some(existing)) => {
                existing.expect(&self.folder.config, options)?;
                let adapter = Adapter { dropout: options.dropout, ..existing.clone() };
                self.folder = self.folder.adapted(adapter)?;
                Ok((self, TrainableParameters::Adapter))
            }
            (Some(options), None) => {
                let chance = Chance::new(seed).child("adapter", &[]);
                self.folder = self.folder.adapted(Adapter::new(&self.folder.config, options, &chance)?)?;
                Ok((self, TrainableParameters::Adapter))
            }
        }
    }
    /// Creates a trainer of the model. If all weights learn, the folder's copy is freed and the trainer holds the only
    /// one; [`ModelFolder::with_parameters`] restores the trained weights.
    pub fn trainer(
        &mut self,
        options: &OptimizerOptions,
        total: u64,
        head: LearnerHead,
        learned: TrainableParams,
    ) -> Result<ModelTrainer> {
        let trainer = ModelTrainer::with_head(&*self.backend, &self.folder, options, total, head, learned)?;
        if learned.learns == TrainableParameters::All {
            self.folder.weights.clear();
        }
        Ok(trainer)
    }
    /// Creates a sampler with the model's weights.
    pub fn sampler(&self, threads: usize) -> Result<Box<dyn Sampler>> {
        self.sampling_backend.as_ref().unwrap_or(&self.backend).sampler(&self.folder, &SamplerOptions { threads })
    }
}

/// Writes a model into an output port and describes it. A model with an adapter is written as base and adapter, or
/// merged if `adapter` requests that.
pub fn save(
    context: &mut StageContext,
    port: &str,
    model: &ModelFolder,
    adapter: Option<&AdapterOptions>,
    save: &SaveOptions,
) -> Result<()> {
    let merged = adapter.filter(|options| options.merge).map(|_| model.merged()).transpose()?;
    let model = merged.as_ref().unwrap_or(model);
    model.save_as(context.output(port)?, save)?;
    for (key, value) in model.metadata() {
        context.describe(port, &key, value);
    }
    Ok(())
}
