//! Shows a model: its shape, parameters, adapter, tokenizer and chat template, and what it was made from.
//!
//! Only small files and the headers of safetensors files are read, never a tensor. A file that is missing or damaged
//! leaves its part of the view empty and is listed.

mod adapter;
mod ancestry;
mod architecture;
mod files;
mod parameters;
mod template;
mod tokenizer;

pub use adapter::ModelAdapter;
pub use ancestry::{ModelStep, StepInput};
pub use architecture::ModelArchitecture;
pub use files::UnreadableFile;
pub use parameters::{ModelPart, ParameterCounts, PartSum, TensorSum, TypeSum};
pub use template::ModelTemplate;
pub use tokenizer::{ModelTokenizer, SpecialToken};

use crate::find::ResolvedOutput;
use ancestry::{Ancestry, ancestry};
use files::{ModelFiles, weight_files};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use trainyard_core::{ArtifactKind, Digest, FileEntry, Output, Result};
use trainyard_store::Store;

/// Shape of the model.
const CONFIG: &str = "config.json";
/// Options of an adapter.
const ADAPTER_CONFIG: &str = "adapter_config.json";
/// Tensors of an adapter.
const ADAPTER: &str = "adapter_model.safetensors";
/// Folder of the base model in an artifact with an adapter.
const BASE: &str = "base/";
/// Files of the tokenizer.
const TOKENIZER: &str = "tokenizer.json";
const TOKENIZER_CONFIG: &str = "tokenizer_config.json";
const SPECIAL_TOKENS: &str = "special_tokens_map.json";
/// Chat template.
const TEMPLATE: &str = "chat_template.jinja";

/// Model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ModelView {
    /// Shape of the model, or of the base model of an adapter; null without a readable `config.json`.
    pub architecture: Option<ModelArchitecture>,
    /// Parameters of the model, or of the base model of an adapter; null without readable safetensors files.
    pub parameters: Option<ParameterCounts>,
    /// Adapter, if the model has one.
    pub adapter: Option<ModelAdapter>,
    /// Tokenizer; null without a readable `tokenizer.json`.
    pub tokenizer: Option<ModelTokenizer>,
    /// Chat template; null without one, as in base models.
    pub template: Option<ModelTemplate>,
    /// The model with the inputs of its stage, the models among these with theirs, and so on; at most 50.
    pub made_from: Vec<ModelStep>,
    /// Whether the model was made from more models.
    pub truncated: bool,
    /// Files that are missing or damaged.
    pub unreadable: Vec<UnreadableFile>,
}

/// Shows an artifact that is a model; `None` for other kinds. Reads headers in a thread for blocking work.
///
/// Errors: those of the store, except missing and damaged objects, which the view lists.
pub async fn show(store: &Store, found: &ResolvedOutput) -> Result<Option<ModelView>> {
    let output = found.output();
    if output.kind != ArtifactKind::Model {
        return Ok(None);
    }
    let made_from = ancestry(store, &found.manifest, &found.port).await?;
    let mut files = ModelFiles::new(store, output);
    let folder = if files.has(ADAPTER_CONFIG) { BASE } else { "" };
    let architecture = files.json(&format!("{folder}{CONFIG}")).await?;
    let parameters = files.parameters(weight_files(output, folder, ADAPTER)).await?;
    let adapter = adapter(&mut files, output, &made_from).await?;
    let tokenizer = tokenizer(&mut files).await?;
    let template = template(&mut files).await?;
    Ok(Some(ModelView {
        architecture: architecture.as_ref().map(ModelArchitecture::of_config),
        parameters,
        adapter,
        tokenizer,
        template,
        made_from: made_from.steps,
        truncated: made_from.truncated,
        unreadable: files.unreadable,
    }))
}

async fn adapter(files: &mut ModelFiles<'_>, output: &Output, made_from: &Ancestry) -> Result<Option<ModelAdapter>> {
    let Some(config) = files.json(ADAPTER_CONFIG).await? else { return Ok(None) };
    let tensors: Vec<FileEntry> = output.files.iter().filter(|file| file.path == ADAPTER).cloned().collect();
    Ok(Some(ModelAdapter {
        base_artifact: base_artifact(&weight_files(output, BASE, ADAPTER), made_from),
        parameters: files.parameters(tensors).await?,
        ..ModelAdapter::of_config(&config)
    }))
}

/// Returns the model among the sources whose weights are files with the digests of `base`.
fn base_artifact(base: &[FileEntry], made_from: &Ancestry) -> Option<String> {
    let digests = |files: &[FileEntry]| -> BTreeSet<Digest> { files.iter().map(|file| file.digest.clone()).collect() };
    let wanted = digests(base);
    let is_base = |output: &Output| digests(&weight_files(output, "", ADAPTER)) == wanted;
    let mut sources = made_from.steps.iter().zip(&made_from.outputs).filter(|_| !wanted.is_empty());
    sources.find(|(_, output)| is_base(output)).map(|(step, _)| step.artifact.clone())
}

async fn tokenizer(files: &mut ModelFiles<'_>) -> Result<Option<ModelTokenizer>> {
    let Some(file) = files.json(TOKENIZER).await? else { return Ok(None) };
    let mut roles = Vec::new();
    for path in [TOKENIZER_CONFIG, SPECIAL_TOKENS] {
        roles.extend(files.json(path).await?);
    }
    let read = ModelTokenizer::of_files(&file, &roles);
    files.checked(TOKENIZER, read.map_err(|error| error.at(format!("file `{TOKENIZER}`"))))
}

async fn template(files: &mut ModelFiles<'_>) -> Result<Option<ModelTemplate>> {
    if let Some(source) = files.text(TEMPLATE).await? {
        return Ok(Some(ModelTemplate::of_source(TEMPLATE, &source)));
    }
    let is_listed = files.unreadable.iter().any(|file| file.path == TOKENIZER_CONFIG);
    let config = if is_listed { None } else { files.json(TOKENIZER_CONFIG).await? };
    let source = config.as_ref().and_then(template::source_of_config);
    Ok(source.map(|source| ModelTemplate::of_source(TOKENIZER_CONFIG, source)))
}

#[cfg(test)]
mod tests;
