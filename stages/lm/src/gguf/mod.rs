//! Reads models in llama.cpp's file format GGUF (<https://github.com/ggml-org/ggml/blob/master/docs/gguf.md>): config,
//! weights, tokenizer and chat template from one file.
//!
//! The reader converts the metadata to a `config.json` and a `tokenizer.json` and then processes both like those of a
//! folder. Quantized tensors become float32, so a model from a quantized file is trained and saved without
//! quantization. See `docs/design/0021-model-families.md`.

mod config;
mod metadata;
mod tensors;
#[cfg(test)]
mod tests;
mod tokenizer;

use crate::config::ModelConfig;
use crate::decoder::Weights;
use crate::folder::{GenerationConfig, ModelFolder};
use crate::template::{ChatEncoder, ChatTemplate, check_pieces};
use crate::tokenizer::Tokenizer;
use crate::untrusted;
use candle_core::quantized::gguf_file::Content;
use metadata::Metadata;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;
use trainyard_core::panics::catch_quietly;
use trainyard_core::{Error, Result};

/// Returns whether the path is a file with the magic bytes of GGUF.
pub fn is_gguf(path: &Path) -> bool {
    let mut magic = [0; 4];
    untrusted::open(path).is_ok_and(|mut f| f.read_exact(&mut magic).is_ok()) && &magic == b"GGUF"
}

/// Content of a GGUF file.
#[derive(Debug)]
pub struct GgufContent {
    /// Shape of the decoder.
    pub config: ModelConfig,
    /// Tensors by Hugging Face name, in float32.
    pub weights: Weights,
    /// Tokenizer built from the vocabulary.
    pub tokenizer: Tokenizer,
    /// Source of the chat template, which base models lack.
    pub template: Option<String>,
    /// Tokens that end a turn, and other special ones.
    pub generation: GenerationConfig,
}

/// Reads a file as a model folder; `template`, if given, replaces the file's own. Errors name the file and the missing
/// or unsupported part.
pub fn load(path: &Path, template: Option<ChatTemplate>) -> Result<ModelFolder> {
    let parts = read(path)?;
    parts.into_model(template).map_err(|e| e.at(path.display()))
}

/// Reads the shape of the decoder of a file, without its weights, and checks the shapes of its tensors. Errors name the
/// file and the missing or unsupported part.
pub fn read_config(path: &Path) -> Result<ModelConfig> {
    let file = untrusted::open(path)?;
    let mut reader = BufReader::new(file);
    let read = content(&mut reader).and_then(|content| {
        let config = ModelConfig::from_json(&config::config(&Metadata(&content.metadata), &content, &mut reader)?)?;
        tensors::expect_shapes(&config, &content)?;
        Ok(config)
    });
    read.map_err(|e| e.at(path.display()))
}

fn content(reader: &mut BufReader<File>) -> Result<Content> {
    let invalid = |reason: &str| Error::data(format!("not a valid GGUF file: {reason}")).help("fetch the file again");
    // The reader divides by the alignment that the file names, which may be 0.
    let read = catch_quietly(|| Content::read(reader));
    read.map_err(|_| invalid("its header cannot be computed"))?.map_err(|e| invalid(&e.to_string()))
}

/// Reads all parts of a file. Errors name the file and the missing or unsupported part.
pub fn read(path: &Path) -> Result<GgufContent> {
    let file = untrusted::open(path)?;
    GgufContent::read(&mut BufReader::new(file)).map_err(|e| e.at(path.display()))
}

impl GgufContent {
    fn read(reader: &mut BufReader<File>) -> Result<Self> {
        let content = content(reader)?;
        let metadata = Metadata(&content.metadata);
        let config = ModelConfig::from_json(&config::config(&metadata, &content, reader)?)?;
        let template = metadata.get("tokenizer.chat_template").map(|_| metadata.text("tokenizer.chat_template"));
        Ok(Self {
            tokenizer: tokenizer::tokenizer(&metadata)?,
            template: template.transpose()?.map(str::to_string),
            weights: tensors::weights(&config, &content, reader)?,
            generation: GenerationConfig {
                eos_token_id: ["eos", "eot", "eom"].iter().filter_map(|name| metadata.token(name)).collect(),
                pad_token_id: metadata.token("padding"),
                bos_token_id: metadata.token("bos"),
                ..GenerationConfig::default()
            },
            config,
        })
    }
    fn into_model(self, template: Option<ChatTemplate>) -> Result<ModelFolder> {
        let template = match (template, self.template) {
            (Some(template), _) => template,
            (None, Some(source)) => ChatTemplate::new(source)?,
            (None, None) => {
                return Err(Error::invalid("the file has no chat template").help("set `template`, as for base models"));
            }
        };
        let chat = ChatEncoder::new(self.tokenizer, template)?;
        check_pieces(&chat)?;
        ModelFolder::new(self.config, self.weights, chat, self.generation)
    }
}
