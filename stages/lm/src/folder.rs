//! Reads and writes Hugging Face model folders: config, weights, tokenizer, chat template and generation config.
//!
//! All five parts must fit each other. Reading a folder fails if its parts do not match, and stages reject data made
//! with another tokenizer or template before they train.
//!
//! A model with an adapter is a PEFT folder (adapter, tokenizer, template and generation config) whose folder `base`
//! holds `config.json` and the weights of the base model, byte for byte unchanged. A store keeps equal files once, so
//! fifty adapters of one base share one copy of the base. See `docs/design/0023-adapters-and-memory.md`.

use crate::adapter::{Adapter, peft};
use crate::checkpoint::{SaveOptions, save_model_as};
use crate::config::ModelConfig;
use crate::decoder::Weights;
use crate::generate::Generator;
use crate::parameters::Parameters;
use crate::template::{ChatEncoder, ChatTemplate, check_pieces};
use crate::tensor::candle;
use crate::tokenizer::Tokenizer;
use crate::untrusted;
use candle_core::Tensor;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use trainyard_core::error::io_error;
use trainyard_core::{Digest, Error, Result};

/// `generation_config.json`: the sampling that a model recommends.
#[derive(Debug, Clone, PartialEq)]
pub struct GenerationConfig {
    /// Tokens that end a turn, in addition to those of the chat template.
    pub eos_token_id: Vec<u32>,
    /// Padding token, kept for other programs; batches of this crate have no padding.
    pub pad_token_id: Option<u32>,
    /// Token that begins a text, kept for other programs; encoding in this crate adds none.
    pub bos_token_id: Option<u32>,
    /// Divides the logits; 1 = the model's own distribution.
    pub temperature: f64,
    /// 1 = no truncation.
    pub top_p: f64,
    /// 0 = no truncation.
    pub top_k: u32,
    /// Recommended limit of sampled tokens, if the file has one.
    pub max_new_tokens: Option<u32>,
}

impl Default for GenerationConfig {
    fn default() -> Self {
        Self {
            eos_token_id: Vec::new(),
            pad_token_id: None,
            bos_token_id: None,
            temperature: 1.0,
            top_p: 1.0,
            top_k: 0,
            max_new_tokens: None,
        }
    }
}

impl GenerationConfig {
    /// Reads the content of `generation_config.json`; unknown keys are ignored.
    pub fn from_json(value: &Value) -> Result<Self> {
        let wrong = |key: &str| Error::data(format!("`{key}` is {}", value[key]));
        let id = |key: &str| match &value[key] {
            Value::Null => Ok(None),
            v => v.as_u64().and_then(|v| u32::try_from(v).ok()).map(Some).ok_or_else(|| wrong(key)),
        };
        let number = |key: &str, default: f64| match &value[key] {
            Value::Null => Ok(default),
            v => v.as_f64().ok_or_else(|| wrong(key)),
        };
        let eos_token_id = match &value["eos_token_id"] {
            Value::Array(list) => list
                .iter()
                .map(|v| v.as_u64().and_then(|v| u32::try_from(v).ok()))
                .collect::<Option<_>>()
                .ok_or_else(|| wrong("eos_token_id"))?,
            _ => id("eos_token_id")?.into_iter().collect(),
        };
        Ok(Self {
            eos_token_id,
            pad_token_id: id("pad_token_id")?,
            bos_token_id: id("bos_token_id")?,
            temperature: number("temperature", 1.0)?,
            top_p: number("top_p", 1.0)?,
            top_k: id("top_k")?.unwrap_or(0),
            max_new_tokens: id("max_new_tokens")?,
        })
    }
    /// Returns the content of `generation_config.json`, without unset token ids and limits.
    pub fn to_json(&self) -> Value {
        let mut value =
            json!({"do_sample": true, "temperature": self.temperature, "top_p": self.top_p, "top_k": self.top_k});
        match self.eos_token_id.as_slice() {
            [] => {}
            [one] => value["eos_token_id"] = json!(one),
            many => value["eos_token_id"] = json!(many),
        }
        for (key, id) in [
            ("pad_token_id", self.pad_token_id),
            ("bos_token_id", self.bos_token_id),
            ("max_new_tokens", self.max_new_tokens),
        ] {
            if let Some(id) = id {
                value[key] = json!(id);
            }
        }
        value
    }
    fn load(folder: &Path) -> Result<Self> {
        let path = folder.join("generation_config.json");
        let Some(text) = untrusted::read_text_if_exists(&path, untrusted::OPTIONS)? else {
            return Ok(Self::default());
        };
        Self::from_json(&untrusted::parse_json(&path, &text)?).map_err(|e| e.at(path.display()))
    }
    fn save(&self, folder: &Path) -> Result<()> {
        let path = folder.join("generation_config.json");
        std::fs::write(&path, format!("{:#}\n", self.to_json())).map_err(|e| io_error(&path, &e))
    }
}

/// A model and its tokenizer, chat template and generation config.
#[derive(Debug, Clone)]
pub struct ModelFolder {
    /// Shape of the decoder, from `config.json`.
    pub config: ModelConfig,
    /// Tensors by Hugging Face name, as `config` lists them. With an adapter, the tensors of the base model.
    pub weights: Weights,
    /// Adapter of the weights, if any.
    pub adapter: Option<Adapter>,
    /// Folder from which `config` and `weights` were read; `None` once they differ from its files.
    pub source: Option<PathBuf>,
    /// Tokenizer and template.
    pub chat: ChatEncoder,
    /// Recommended sampling, from `generation_config.json`.
    pub generation: GenerationConfig,
}

impl ModelFolder {
    /// Joins the parts of a model. Errors: parts that do not fit each other.
    pub fn new(
        mut config: ModelConfig,
        weights: Weights,
        chat: ChatEncoder,
        generation: GenerationConfig,
    ) -> Result<Self> {
        let tokens = chat.tokenizer().vocabulary_size();
        if tokens > config.vocab_size {
            return Err(Error::invalid(format!(
                "the tokenizer has {tokens} tokens, the model's vocabulary only {}",
                config.vocab_size
            ))
            .help("use the tokenizer.json of the model's own folder"));
        }
        config.unused_tokens = chat.tokenizer().unused(config.vocab_size);
        let chat = chat.with_stop_tokens(&generation.eos_token_id);
        Ok(Self { config, weights, adapter: None, source: None, chat, generation })
    }
    /// Reads all parts of a folder. Errors name the file.
    pub fn load(folder: &Path) -> Result<Self> {
        Self::read(folder, ChatTemplate::load(folder)?)
    }
    /// Reads a folder with `template` instead of the folder's own, which base models lack.
    pub fn load_with_template(folder: &Path, template: ChatTemplate) -> Result<Self> {
        Self::read(folder, template)
    }
    /// Reads tokenizer and template of a folder, without its weights.
    pub fn load_chat(folder: &Path) -> Result<ChatEncoder> {
        Self::read_chat(folder, ChatTemplate::load(folder)?)
    }
    fn read_chat(folder: &Path, template: ChatTemplate) -> Result<ChatEncoder> {
        let chat = ChatEncoder::new(Tokenizer::load(folder)?, template).map_err(|e| e.at(folder.display()))?;
        check_pieces(&chat).map_err(|e| e.at(folder.display()))?;
        Ok(chat)
    }
    fn read(folder: &Path, template: ChatTemplate) -> Result<Self> {
        let generation = GenerationConfig::load(folder)?;
        let chat = Self::read_chat(folder, template)?;
        let adapted = peft::is_adapter(folder);
        let base = if adapted { folder.join(peft::BASE) } else { folder.to_path_buf() };
        if adapted && !base.is_dir() {
            return Err(Error::invalid(format!("{}: an adapter without its base model", folder.display()))
                .help("import both with `model/init`: set `from` to the base model and `adapter` to this folder"));
        }
        let (config, weights) = crate::checkpoint::load_model(&base)?;
        let mut model = Self::new(config, weights, chat, generation).map_err(|e| e.at(folder.display()))?;
        model.source = Some(base);
        if adapted { model.adapted(peft::load(folder, &model.config)?) } else { Ok(model) }
    }
    /// Returns the model with `adapter` in place of an existing adapter. Errors: an adapter of another model.
    pub fn adapted(&self, adapter: Adapter) -> Result<Self> {
        adapter.check(&self.config)?;
        let config = ModelConfig { num_labels: adapter.labels().or(self.config.num_labels), ..self.config.clone() };
        Ok(Self { config, adapter: Some(adapter), ..self.clone() })
    }
    /// Returns the model with the adapter merged into the weights.
    pub fn merged(&self) -> Result<Self> {
        let Some(adapter) = &self.adapter else { return Ok(self.clone()) };
        Ok(Self { weights: adapter.merged(&self.config, &self.weights)?, adapter: None, source: None, ..self.clone() })
    }
    /// Writes all files of the folder. With an adapter, the base model's files are links to the files of
    /// [`ModelFolder::source`].
    pub fn save(&self, folder: &Path) -> Result<()> {
        self.save_as(folder, &SaveOptions::default())
    }
    /// Writes the files of [`ModelFolder::save`] with weights in the format of the options; the files of a linked base
    /// are unchanged.
    pub fn save_as(&self, folder: &Path, options: &SaveOptions) -> Result<()> {
        match &self.adapter {
            None => save_model_as(folder, &self.config, &self.weights, options)?,
            Some(adapter) => {
                peft::save(folder, &self.config, adapter)?;
                self.save_base(&folder.join(peft::BASE), options)?;
            }
        }
        self.chat.tokenizer().save(folder)?;
        self.chat.template().save(folder)?;
        self.generation.save(folder)
    }
    fn save_base(&self, folder: &Path, options: &SaveOptions) -> Result<()> {
        std::fs::create_dir_all(folder).map_err(|e| io_error(folder, &e))?;
        match &self.source {
            Some(source) => crate::checkpoint::link_model(source, folder),
            None => {
                // The scoring head is the adapter's.
                let config = ModelConfig { num_labels: None, ..self.config.clone() };
                let names: BTreeSet<String> = config.parameters().into_iter().map(|(name, _)| name).collect();
                let weights = self.weights.iter().filter(|(name, _)| names.contains(*name));
                let weights = weights.map(|(name, tensor)| (name.clone(), tensor.clone())).collect();
                save_model_as(folder, &config, &weights, options)
            }
        }
    }
    /// Returns the model with other weights and without an adapter.
    #[must_use]
    pub fn with_weights(&self, weights: Weights) -> Self {
        Self { weights, adapter: None, source: None, ..self.clone() }
    }
    /// Returns the model with weights that another program trained, read from safetensors in a folder, and the number
    /// of tensors that differ. Errors: weights of another shape, or of an adapter.
    pub fn with_external_weights(&self, folder: &Path) -> Result<(Self, usize)> {
        if peft::is_adapter(folder) {
            return Err(Error::invalid(format!("{}: an adapter, not a whole model", folder.display()))
                .help("merge it before it is saved (with PEFT: `model.merge_and_unload()`)"));
        }
        let start = self.merged()?;
        let weights = crate::checkpoint::load_weights(folder, &start.config)?;
        let mut changed = 0;
        for (name, tensor) in &weights {
            changed += usize::from(!same_numbers(tensor, &start.weights[name])?);
        }
        Ok((start.with_weights(weights), changed))
    }
    /// Returns the model with a learner's parameters: all weights, or those of its adapter.
    pub fn with_parameters(&self, parameters: &Parameters) -> Result<Self> {
        let tensors = parameters.to_weights()?;
        match &self.adapter {
            Some(adapter) => self.adapted(Adapter { tensors, ..adapter.clone() }),
            None => Ok(self.with_weights(tensors)),
        }
    }
    /// Creates an inference engine with these weights. Results do not depend on `threads`. Errors: see
    /// [`Generator::new`].
    pub fn generator(&self, threads: usize) -> Result<Generator> {
        Generator::adapted(&self.config, &self.weights, self.adapter.as_ref(), threads)
    }
    /// Returns the tokens that end a turn.
    pub fn stop_tokens(&self) -> &[u32] {
        self.chat.stop_tokens()
    }
    /// Returns the digest of the tokenizer's canonical JSON, which token data carries.
    pub fn tokenizer_digest(&self) -> &Digest {
        self.chat.tokenizer().digest()
    }
    /// Returns the digest of the chat template's source, which token data carries.
    pub fn template_digest(&self) -> &Digest {
        self.chat.template().digest()
    }
    /// Checks that the tokens of `what` were made with this tokenizer and template. Errors: data, if a digest differs.
    pub fn expect_digests(&self, tokenizer: &str, template: &str, what: &str) -> Result<()> {
        for (part, own, theirs) in
            [("tokenizer", self.tokenizer_digest(), tokenizer), ("chat template", self.template_digest(), template)]
        {
            if own.as_str() != theirs {
                return Err(Error::invalid(format!(
                    "{what}: its tokens were made with another {part} ({}…) than this model's ({}…)",
                    cut(theirs),
                    own.short()
                ))
                .help("tokenize the data again with this model, or use the model that it was made with"));
            }
        }
        Ok(())
    }
    /// Returns facts for downstream stages: `tokenizer_digest`, `template_digest`, `parameters`, `vocabulary`, and
    /// `adapter` if the model has one.
    pub fn metadata(&self) -> BTreeMap<String, Value> {
        let adapter = self.adapter.as_ref().map(|adapter| {
            let facts = json!({"kind": "lora", "rank": adapter.rank, "parameters": adapter.parameter_count()});
            ("adapter".to_string(), facts)
        });
        let facts = [
            ("parameters".to_string(), json!(self.config.parameter_count())),
            ("template_digest".to_string(), json!(self.template_digest())),
            ("tokenizer_digest".to_string(), json!(self.tokenizer_digest())),
            ("vocabulary".to_string(), json!(self.config.vocab_size)),
        ];
        facts.into_iter().chain(adapter).collect()
    }
}

fn same_numbers(a: &Tensor, b: &Tensor) -> Result<bool> {
    let equal = a.eq(b).and_then(|equal| equal.flatten_all()?.min(0)?.to_scalar::<u8>()).map_err(candle)?;
    Ok(equal == 1)
}

fn cut(digest: &str) -> &str {
    digest.get(..12).unwrap_or(digest)
}
