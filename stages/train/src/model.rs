//! Models at a stage's ports: loading, checking, and saving with their digests.
//!
//! Data and models carry the digests of their tokenizer and template; every stage compares them before it computes.

use crate::own_format::own_format;
use std::sync::Arc;
use trainyard_api::{InputArtifact, StageContext};
use trainyard_core::Result;
use trainyard_core::error::Context as _;
use trainyard_lm::ModelFolder;
use trainyard_lm::backend::{Backend, Sampler, SamplerOptions};
use trainyard_lm::template::TemplateOptions;

/// A model with the content digest of its artifact, and where it is computed.
pub struct Policy {
    /// Weights, configuration, tokenizer and chat template.
    pub folder: ModelFolder,
    /// Content digest of the artifact.
    pub digest: String,
    /// Backend that computes the model.
    pub backend: Arc<dyn Backend>,
}

impl Policy {
    /// Loads the model wired to `port`. Errors: data, naming the port, if the folder is incomplete or damaged.
    pub fn load(artifact: &InputArtifact, port: &str, backend: Arc<dyn Backend>) -> Result<Self> {
        let folder = ModelFolder::load(&artifact.folder).at(format!("input `{port}`"))?;
        Ok(Self { folder, digest: artifact.digest.to_string(), backend })
    }
    /// Renders by these options from now on. Errors (kind invalid): `tools: native` with a template that cannot.
    pub fn with_template(mut self, options: &TemplateOptions) -> Result<Self> {
        let chat = self.folder.chat.with_options(options);
        let native = own_format(&chat, options.tools)?.is_some();
        self.folder.chat = chat.with_native_calls(native);
        Ok(self)
    }
    /// Decodes with the model's weights.
    pub fn sampler(&self, threads: usize) -> Result<Box<dyn Sampler>> {
        self.backend.sampler(&self.folder, &SamplerOptions { threads })
    }
}

/// Writes a model into an output port and describes it.
pub fn save(context: &mut StageContext, port: &str, model: &ModelFolder) -> Result<()> {
    model.save(context.output(port)?)?;
    for (key, value) in model.metadata() {
        context.describe(port, &key, value);
    }
    Ok(())
}
