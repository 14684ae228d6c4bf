//! Implements `model/init`, which creates a model with random weights or imports one from a Hugging Face folder or a
//! GGUF file.

pub mod base_model;
pub mod options;
mod sizes;

pub use options::{NewModelFamily, TemplateChoice, TokenizerKind, TokenizerOptions};

use crate::adapter::{AdapterShape, peft};
use crate::checkpoint::SaveOptions;
use crate::config::ModelConfig;
use crate::config::limits::ModelSizes;
use crate::decoder::Decoder;
use crate::folder::{GenerationConfig, ModelFolder};
use crate::gguf;
use crate::shape::{self, LOST_RESULTS, TOOL_TEMPLATE};
use crate::template::{BuiltinTemplate, ChatEncoder};
use crate::tokenizer::{Tokenizer, character_tokenizer, special, train_bpe};
use base_model::{base_model, is_on_hub};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use trainyard_api::{Ports, Stage, StageContext, port};
use trainyard_core::{
    ArtifactKind, Cardinality, Chance, DeclaredMetrics, Error, Facts, MetricInfo, OptionProblem, Result, WiredInputs,
};

/// Options of `model/init`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ModelInitConfig {
    /// A Hugging Face folder or a GGUF file to start from, of a family in `docs/models.md`, or a model on the hub:
    /// `OWNER/NAME` or `hf://OWNER/NAME@REVISION`. All other options except `template` are then unused.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "model"))]
    pub from: Option<String>,
    /// A folder with a LoRA adapter of the model `from`, as PEFT saves it. It is kept in addition to the model, not
    /// merged.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "source"))]
    pub adapter: Option<String>,
    /// Architecture of a new model: `llama` or `qwen3`.
    pub family: NewModelFamily,
    /// Width of the residual stream; an even multiple of `heads`.
    #[schemars(range(min = 1))]
    pub hidden_size: usize,
    /// Layers of attention and MLP.
    #[schemars(range(min = 1))]
    pub layers: usize,
    /// Query heads per layer.
    #[schemars(range(min = 1))]
    pub heads: usize,
    /// Key-value heads; as many as `heads` if omitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub kv_heads: Option<usize>,
    /// Width inside the MLP.
    #[schemars(range(min = 1))]
    pub intermediate_size: usize,
    /// The longest sequence in tokens.
    #[schemars(range(min = 2))]
    pub max_position_embeddings: usize,
    /// Tokenizer of a new model.
    pub tokenizer: TokenizerOptions,
    /// Chat template: `compact`, `chatml`, or `{file: chat_template.jinja}` for a model given by `from`. If omitted, a
    /// new model gets `compact` and a given one keeps its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<TemplateChoice>,
    /// Standard deviation of the initial weights. Hugging Face's 0.02 suits wide models; 0.06 lets widths around 100
    /// learn sooner.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub initializer_range: f64,
    /// Format of the weights.
    #[serde(skip_serializing_if = "SaveOptions::is_default")]
    pub save: SaveOptions,
    /// Seed of the initial weights.
    pub seed: u64,
}

impl Default for ModelInitConfig {
    fn default() -> Self {
        Self {
            from: None,
            adapter: None,
            family: NewModelFamily::Llama,
            hidden_size: 96,
            layers: 3,
            heads: 4,
            kv_heads: None,
            intermediate_size: 256,
            max_position_embeddings: 1_024,
            tokenizer: TokenizerOptions::default(),
            template: None,
            initializer_range: 0.06,
            save: SaveOptions::default(),
            seed: 0,
        }
    }
}

#[derive(Default)]
pub struct Init;

impl Stage for Init {
    type Prepared = ModelInitConfig;
    const NAME: &'static str = "model/init";
    const SUMMARY: &'static str =
        "a model to start from: random weights and a new tokenizer, a Hugging Face folder or a GGUF file";
    const DOC: &'static str = "\
Makes a model folder: `config.json`, `model.safetensors`, tokenizer, chat template, `generation_config.json`.

Without `from`, a decoder with tied embeddings gets random weights (normal, `initializer_range`; projections into
the residual stream divided by the square root of twice the number of layers) and a tokenizer made from the `corpus`
and `problems` inputs: `characters` (one token per character; printable ASCII is always included) or `bpe`
(byte-level byte pairs, digits one by one). The template determines the special tokens: `compact` has one per role,
`chatml` is the format of Qwen and Hermes models.

With `from`, a Hugging Face folder of the families llama (SmolLM2 included), mistral, ministral, qwen2, qwen3,
smollm3, phi3, granite, olmo2, olmo3 or gemma3_text is read, checked and written in the format of `save`; `template`
replaces its chat template, for base models that lack one: a built-in one, or that of the family's instruct model as a
file. Other families are rejected with the reason. With `adapter`,
a folder of PEFT with a LoRA adapter of that model (`adapter_config.json`, `adapter_model.safetensors`), the two make
one model and both stay unchanged; `model/merge` adds one to the other.

`from` may also name a GGUF file of llama.cpp, of the architectures llama, qwen2, qwen3 and gemma3. Quantized weights
become float32; tokenizer and chat template come from the file.

Errors: sizes that no decoder can have, `bpe` without a corpus or a vocabulary size, a tokenizer that does not fit
the weights, a template that drops an assistant's content, an adapter of another model.";
    const EXAMPLE: &'static str = "{hidden_size: 96, layers: 3, heads: 4, intermediate_size: 256, \
        tokenizer: {kind: characters}, template: compact}";

    fn metrics(&self) -> DeclaredMetrics {
        vec![
            MetricInfo::new("parameters", "numbers", "Trainable numbers of the model."),
            MetricInfo::new("vocabulary", "tokens", "Tokens that the tokenizer knows."),
        ]
        .into()
    }
    fn ports(&self) -> Ports {
        Ports {
            inputs: vec![
                port(
                    "corpus",
                    ArtifactKind::Trajectories,
                    Cardinality::Many,
                    "Texts that a new tokenizer is made from.",
                ),
                port("problems", ArtifactKind::Problems, Cardinality::Many, "More texts for the tokenizer."),
            ],
            outputs: vec![port("model", ArtifactKind::Model, Cardinality::One, "The model folder.")],
        }
    }

    fn prepare(&self, options: Value) -> Result<ModelInitConfig> {
        self.parse(options)
    }

    fn run(&self, config: ModelInitConfig, context: &mut StageContext) -> Result<()> {
        let model = match config.from.as_deref().filter(|_| !config.is_new()) {
            Some(from) => {
                let variable = |name: &str| context.env.get(name).cloned().or_else(|| std::env::var(name).ok());
                import(&base_model(from, variable, || context.stop_if_cancelled())?, &config)?
            }
            None => create(&config, context)?,
        };
        context.stop_if_cancelled()?;
        model.save_as(context.output("model")?, &config.save)?;
        for (key, value) in model.metadata() {
            context.describe("model", &key, value);
        }
        context.metric("parameters", model.config.parameter_count() as f64);
        context.metric("vocabulary", model.chat.tokenizer().vocabulary_size() as f64);
        Ok(())
    }
}

impl trainyard_api::PreparedOptions for ModelInitConfig {
    type Config = Self;
    fn config(&self) -> &Self {
        self
    }
    fn problems(&self) -> Vec<OptionProblem> {
        let config = self;
        let mut problems = config.save.problems("/save");
        let wrong_template = config.template.as_ref().and_then(|choice| choice.problem(config.is_new()));
        problems.extend(wrong_template.map(|problem| problem.with_prefix("/template")));
        let mut problem = |pointer: &str, message: String, help: &str| {
            problems.push(OptionProblem { pointer: pointer.to_string(), message, help: Some(help.to_string()) });
        };
        if !config.is_new() {
            let shape = config.given_shape();
            let adapter = shape.as_ref().and_then(|shape| config.given_adapter(shape.as_ref().ok()?));
            let place = if config.adapter.is_some() { "/adapter" } else { "/from" };
            let wrong = [
                ("/from", config.given_chat().and_then(Result::err)),
                ("/from", shape.and_then(Result::err)),
                (place, adapter.and_then(Result::err)),
            ];
            for (place, e) in wrong.into_iter().filter_map(|(place, e)| Some((place, e?))) {
                problem(place, e.message, &e.help.unwrap_or_default());
            }
            return problems;
        }
        if config.adapter.is_some() {
            problem("/adapter", "`adapter` needs a base model".to_string(), "set `from` to its base model");
        }
        if !config.hidden_size.is_multiple_of(2 * config.heads.max(1)) {
            problem(
                "/hidden_size",
                format!("{} is not an even multiple of {} heads", config.hidden_size, config.heads),
                "choose a `hidden_size` that gives heads of even size",
            );
        }
        if config.kv_heads.is_some_and(|kv| kv == 0 || !config.heads.is_multiple_of(kv)) {
            problem(
                "/kv_heads",
                "must divide `heads`".to_string(),
                "leave it out for as many key-value heads as heads",
            );
        }
        let least = 256 + config.new_template().special_tokens().len();
        match (config.tokenizer.kind, config.tokenizer.vocabulary_size) {
            (TokenizerKind::Bpe, None) => {
                problem("/tokenizer", "`bpe` needs `vocabulary_size`".to_string(), "1024 is enough for a small corpus")
            }
            (TokenizerKind::Bpe, Some(size)) if size <= least => {
                problem(
                    "/tokenizer/vocabulary_size",
                    format!("{size} leaves no room for a merge"),
                    &format!("bytes and special tokens take {least}"),
                );
            }
            (TokenizerKind::Characters, Some(_)) => {
                problem(
                    "/tokenizer/vocabulary_size",
                    "only applies to `kind: bpe`".to_string(),
                    "leave it out: the alphabet determines the size",
                );
            }
            _ => {}
        }
        problems.extend(config.size_problems());
        problems
    }

    /// Returns the known facts of the model: its shape, its adapter, and its template's handling of tools.
    fn facts(&self, _: &WiredInputs) -> BTreeMap<String, Facts> {
        let shape = self.known_shape();
        let adapter = match (self.is_new(), &shape) {
            (true, _) => Some(None),
            (false, Some(shape)) => self.given_adapter(shape).map(Result::ok).or(Some(None)),
            (false, None) => None,
        };
        let mut facts = shape::facts(shape.as_ref(), adapter);
        if let Some(Ok(chat)) = self.given_chat() {
            let source = chat.describes_tools().then(|| chat.template().source().to_string());
            facts.insert(TOOL_TEMPLATE.into(), source.into());
            facts.extend(chat.expect_tools().err().map(|e| (LOST_RESULTS.to_string(), e.message.into())));
        }
        [("model".to_string(), facts)].into_iter().filter(|(_, facts)| !facts.is_empty()).collect()
    }
}

impl ModelInitConfig {
    /// Returns tokenizer and template of the folder `from`, or `None` for a new model, if the folder does not exist
    /// yet, or if the options replace its template.
    fn given_chat(&self) -> Option<Result<ChatEncoder>> {
        let folder = Path::new(self.from.as_deref().filter(|_| !self.is_new() && self.template.is_none())?);
        folder.join("tokenizer.json").exists().then(|| ModelFolder::load_chat(folder))
    }
    /// Returns the shape of the model, or `None` if its sizes are above their limits, or if `from` does not exist yet
    /// or cannot be read. The vocabulary of a new model may turn out smaller.
    fn known_shape(&self) -> Option<ModelConfig> {
        if self.is_new() {
            return self.size_problems().is_empty().then(|| self.shape(self.tokenizer.vocabulary_size.unwrap_or(1)));
        }
        self.given_shape()?.ok()
    }
    /// Returns the shape of the folder or file `from`, checked against the headers of the weight files, or `None` if it
    /// does not exist yet.
    fn given_shape(&self) -> Option<Result<ModelConfig>> {
        let from = Path::new(self.from.as_deref().filter(|from| !is_on_hub(from))?);
        if gguf::is_gguf(from) {
            return Some(gguf::read_config(from));
        }
        let folder = if peft::is_adapter(from) { from.join(peft::BASE) } else { from.to_path_buf() };
        folder.join("config.json").exists().then(|| crate::checkpoint::read_shape(&folder))
    }
    /// Returns the shape of the adapter for a model of this shape, from the option `adapter` or the model's folder,
    /// or `None` if there is no adapter or its files do not exist yet.
    fn given_adapter(&self, shape: &ModelConfig) -> Option<Result<AdapterShape>> {
        let folder = Path::new(self.adapter.as_deref().or(self.from.as_deref())?);
        let there = peft::is_adapter(folder) && folder.join(peft::TENSORS).exists();
        there.then(|| peft::read_shape(folder, shape))
    }
    /// Returns the template of a new model.
    fn new_template(&self) -> BuiltinTemplate {
        self.template.as_ref().and_then(TemplateChoice::builtin).unwrap_or_default()
    }
    /// Returns whether the model is new. An empty `from` counts as omitted, so that a workflow parameter can switch
    /// between a new and a given model.
    fn is_new(&self) -> bool {
        self.from.as_deref().is_none_or(str::is_empty)
    }
    /// Returns the problems with the sizes of a new model.
    fn size_problems(&self) -> Vec<OptionProblem> {
        let sizes = ModelSizes {
            vocabulary: self.tokenizer.vocabulary_size.unwrap_or(1),
            labels: 0,
            hidden: self.hidden_size,
            inner: self.intermediate_size,
            layers: self.layers,
            heads: [self.heads, self.kv_heads.unwrap_or(self.heads)],
            head_dim: self.hidden_size / self.heads.max(1),
        };
        sizes::problems(&sizes, self.max_position_embeddings)
    }
    fn shape(&self, vocabulary: usize) -> ModelConfig {
        let kv_heads = self.kv_heads.unwrap_or(self.heads);
        let mut shape =
            ModelConfig::llama(vocabulary, self.hidden_size, self.intermediate_size, self.layers, self.heads, kv_heads);
        shape.max_position_embeddings = self.max_position_embeddings;
        shape.initializer_range = self.initializer_range;
        match self.family {
            NewModelFamily::Llama => shape,
            NewModelFamily::Qwen3 => shape.as_qwen3(),
        }
    }
}

fn import(folder: &Path, config: &ModelInitConfig) -> Result<ModelFolder> {
    let template = config.template.as_ref().map(TemplateChoice::template).transpose()?;
    let mut model = match template {
        template if gguf::is_gguf(folder) => gguf::load(folder, template)?,
        Some(template) => ModelFolder::load_with_template(folder, template)?,
        None => ModelFolder::load(folder)?,
    };
    if let Some(adapter) = &config.adapter {
        let adapter = peft::load(Path::new(adapter), &model.config)?;
        model = model.merged()?.adapted(adapter)?;
    }
    // Imported weights are written in the format of `save`, regardless of their original format.
    model.source = None;
    // Exactly the tensors that the config names, with their shapes.
    Decoder::new(&model.config, model.weights.clone(), model.adapter.as_ref(), |_| false)
        .map_err(|e| e.at(folder.display()))?;
    Ok(model)
}

fn create(config: &ModelInitConfig, context: &StageContext) -> Result<ModelFolder> {
    let template = config.new_template();
    let texts = texts(context)?;
    let texts = texts.iter().map(String::as_str);
    let tokenizer: Tokenizer = match config.tokenizer.kind {
        TokenizerKind::Characters => character_tokenizer(texts, template.special_tokens())?,
        TokenizerKind::Bpe => {
            let size =
                config.tokenizer.vocabulary_size.ok_or_else(|| Error::invalid("`bpe` needs `vocabulary_size`"))?;
            train_bpe(texts, size, template.special_tokens())?
        }
    };
    let shape = config.shape(tokenizer.vocabulary_size());
    let decoder = Decoder::initialize(&shape, &Chance::new(config.seed).child("model/init", &[]))?;
    let generation = GenerationConfig {
        eos_token_id: tokenizer.token_id(template.end_token()).into_iter().collect(),
        pad_token_id: tokenizer.token_id(special::PAD),
        ..GenerationConfig::default()
    };
    ModelFolder::new(shape, decoder.weights()?, ChatEncoder::new(tokenizer, template.template()?)?, generation)
}

/// Returns the contents of all messages and the expected answers of problems.
fn texts(context: &StageContext) -> Result<Vec<String>> {
    let mut texts = Vec::new();
    for artifact in context.many("corpus") {
        for row in trainyard_tables::read_trajectories(&artifact.parquet())? {
            texts.extend(row.messages.into_iter().map(|m| m.content));
        }
        context.stop_if_cancelled()?;
    }
    for artifact in context.many("problems") {
        for row in trainyard_tables::read_problems(&artifact.parquet())? {
            texts.extend(row.messages.into_iter().map(|m| m.content));
            texts.push(row.answer);
        }
        context.stop_if_cancelled()?;
    }
    Ok(texts)
}
