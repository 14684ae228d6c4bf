//! Models at a stage's ports: loading, checking, and saving with their digests.
//!
//! Data and models carry the digests of their tokenizer and template; every stage compares them before it computes.

use crate::optimize::{Learned, OptimizerOptions, Trainer};
use std::sync::Arc;
use trainyard_api::{InputArtifact, StageContext};
use trainyard_core::error::Context as _;
use trainyard_core::{Chance, Result};
use trainyard_lm::ModelFolder;
use trainyard_lm::adapter::{Adapter, AdapterOptions};
use trainyard_lm::backend::{Backend, Head, Learns, Sampler, SamplerOptions};
use trainyard_lm::checkpoint::SaveOptions;
use trainyard_lm::template::TemplateOptions;

/// A model with the content digest of its artifact, and where it is computed.
pub struct Policy {
    /// Weights, configuration, tokenizer and chat template.
    pub folder: ModelFolder,
    /// Content digest of the artifact.
    pub digest: String,
    /// Backend that computes the model.
    pub backend: Arc<dyn Backend>,
    /// Backend that samples with it, if that is another one.
    pub elsewhere: Option<Arc<dyn Backend>>,
}

impl Policy {
    /// Loads the model wired to `port`. Errors: data, naming the port, if the folder is incomplete or damaged.
    pub fn load(artifact: &InputArtifact, port: &str, backend: Arc<dyn Backend>) -> Result<Self> {
        let folder = ModelFolder::load(&artifact.folder).at(format!("input `{port}`"))?;
        Ok(Self { folder, digest: artifact.digest.to_string(), backend, elsewhere: None })
    }
    /// Samples on another backend, if one is given.
    pub fn sampled_on(self, elsewhere: Option<Arc<dyn Backend>>) -> Self {
        Self { elsewhere, ..self }
    }
    /// Renders by these options from now on. Errors (kind invalid): `tools: native` with a template that cannot.
    pub fn with_template(mut self, options: &TemplateOptions) -> Result<Self> {
        self.folder.chat = self.folder.chat.with_template_options(options)?;
        Ok(self)
    }
    /// The model as a stage trains it, and what learns of it: with `options`, an adapter (the model's own, if it has
    /// one, else a new one drawn from `seed`); without, all of it, any adapter merged.
    ///
    /// Errors: targets that the model does not have; options that are not those of the adapter that it has.
    pub fn trained(mut self, options: Option<&AdapterOptions>, seed: u64) -> Result<(Self, Learns)> {
        match (options, &self.folder.adapter) {
            (None, None) => Ok((self, Learns::All)),
            (None, Some(_)) => {
                self.folder = self.folder.merged()?;
                Ok((self, Learns::All))
            }
            (Some(options), Some(own)) => {
                own.expect(&self.folder.config, options)?;
                let adapter = Adapter { dropout: options.dropout, ..own.clone() };
                self.folder = self.folder.adapted(adapter)?;
                Ok((self, Learns::Adapter))
            }
            (Some(options), None) => {
                let chance = Chance::new(seed).child("adapter", &[]);
                self.folder = self.folder.adapted(Adapter::new(&self.folder.config, options, &chance)?)?;
                Ok((self, Learns::Adapter))
            }
        }
    }
    /// A trainer of the model. Where all weights learn, the trainer's are the only ones from then on: what the folder
    /// held is freed, and [`ModelFolder::with_parameters`] brings the trained ones back.
    pub fn trainer(&mut self, options: &OptimizerOptions, total: u64, head: Head, learned: Learned) -> Result<Trainer> {
        let trainer = Trainer::with_head(&*self.backend, &self.folder, options, total, head, learned)?;
        if learned.learns == Learns::All {
            self.folder.weights.clear();
        }
        Ok(trainer)
    }
    /// Decodes with the model's weights.
    pub fn sampler(&self, threads: usize) -> Result<Box<dyn Sampler>> {
        self.elsewhere.as_ref().unwrap_or(&self.backend).sampler(&self.folder, &SamplerOptions { threads })
    }
}

/// Writes a model into an output port and describes it. A model with an adapter is written as its base and the adapter,
/// or as a whole if `adapter` asks for that.
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
