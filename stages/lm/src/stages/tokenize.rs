//! Implements `data/tokenize`, which computes the tokens of trajectories once for all trainings that use them.
//!
//! See `docs/design/0024-import-and-tokenize.md`.

use crate::examples::{Packer, TokenizedTrajectory, expect_same_text, tokenize};
use crate::folder::ModelFolder;
use crate::shape;
use crate::template::{ChatEncoder, TemplateOptions};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use trainyard_api::{InputArtifact, Ports, PreparedOptions, Stage, StageContext, port};
use trainyard_core::error::Context as _;
use trainyard_core::{
    ArtifactKind, Cardinality, DeclaredMetrics, Digest, Error, ErrorKind, MetricInfo, OptionProblem, Result,
    WiredInputs,
};
use trainyard_tables::{Message, TableBuilder, TableRowReader, TableRowWriter, TokenPack, Trajectory};

/// Name of the stage's output port and of the input port of `sft` that takes it.
pub const PORT: &str = "tokenized";
const QUARANTINE: &str = "quarantine";
/// Maximum reasons in an error.
const NAMED: usize = 3;

/// Options of `data/tokenize`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TokenizeConfig {
    /// Use of the model's chat template, as in `sft` of the same model.
    #[serde(skip_serializing_if = "TemplateOptions::is_default")]
    pub template: TemplateOptions,
    /// Exclude turns whose tool call failed from the loss; they stay in the context.
    pub mask_errored_turns: bool,
    /// Tokens of a pack. A trajectory is never divided, so a longer one has a separate pack.
    #[schemars(range(min = 1))]
    pub pack_tokens: usize,
    /// Maximum share of trajectories that cannot be encoded; with more, the stage fails.
    #[schemars(range(min = 0, max = 1))]
    pub max_quarantined: f64,
}

impl Default for TokenizeConfig {
    fn default() -> Self {
        Self { template: TemplateOptions::default(), mask_errored_turns: true, pack_tokens: 8192, max_quarantined: 0.0 }
    }
}

#[derive(Default)]
pub struct Tokenize;

impl Stage for Tokenize {
    type Prepared = TokenizeConfig;
    const NAME: &'static str = "data/tokenize";
    const VERSION: u32 = 2;
    const SUMMARY: &'static str = "tokens and loss masks of trajectories, in packs that training reads";
    const DOC: &'static str = "\
Encodes trajectories with a model's chat template and tokenizer, as `sft` does, on all threads, and keeps the tokens \
as an artifact: trainings that differ in other options read them instead of encoding again, and `sft` with \
`tokenized` gives the same weights as with `trajectories`.\n\n\
A row of the table is a pack of sequences, in the order of the trajectories: `tokens`, `loss_mask` (true for what the \
agent wrote), `positions` (from 0 in each sequence), `lengths`, `bounds` (where sequences begin, and the number of all \
tokens), `rows` (number of the trajectory), `trajectories` and `problems` (ids), `masked_turns`. A trajectory whose \
template rewrites earlier turns has several sequences. Nothing is cut or omitted for its length, which \
`sft` decides.\n\n\
A trajectory that cannot be encoded (a character that the tokenizer lacks, a message that the template \
rejects) goes to the output `quarantine` with the reason, as far as `max_quarantined` allows.\n\n\
Errors: trajectories with tokens of another tokenizer or template; more quarantined ones than allowed; no \
trajectory left.";
    const EXAMPLE: &'static str = r#"{"pack_tokens": 8192}"#;
    const ALL_CPUS: bool = true;
    const MAIN_METRIC: Option<&'static str> = Some("rows");

    fn metrics(&self) -> DeclaredMetrics {
        vec![
            MetricInfo::new("rows", "rows", "Trajectories that were encoded."),
            MetricInfo::new("sequences", "sequences", "Sequences of the encoded trajectories."),
            MetricInfo::new("packs", "packs", "Packs of sequences."),
            MetricInfo::new("tokens", "tokens", "Tokens of all sequences."),
            MetricInfo::new("loss_tokens", "tokens", "Tokens in the loss."),
            MetricInfo::new("masked_turns", "turns", "Turns that are in the context but not in the loss."),
            MetricInfo::new("quarantined", "rows", "Trajectories that could not be encoded.").lower(),
        ]
        .into()
    }
    fn ports(&self) -> Ports {
        use Cardinality::{Many, One, Optional};
        Ports {
            inputs: vec![
                port("model", ArtifactKind::Model, One, "The model whose tokenizer and chat template are used."),
                port("trajectories", ArtifactKind::Trajectories, Many, "Trajectories to encode."),
            ],
            outputs: vec![
                port(PORT, ArtifactKind::Table, One, "Packs of token sequences, for the input `tokenized` of `sft`."),
                port(
                    QUARANTINE,
                    ArtifactKind::Table,
                    Optional,
                    "Trajectories that could not be encoded: trajectory, reason. Left out if there are none.",
                ),
            ],
        }
    }
    fn prepare(&self, options: Value) -> Result<TokenizeConfig> {
        self.parse(options)
    }

    fn run(&self, config: TokenizeConfig, context: &mut StageContext) -> Result<()> {
        let mut model = ModelFolder::load(&context.input("model")?.folder).at("input `model`")?;
        model.chat = model.chat.with_template_options(&config.template)?;
        let mut made = TokenizeProgress::new(&config, context)?;
        for artifact in context.many("trajectories") {
            let mut batches = TableRowReader::<Trajectory>::open(&artifact.parquet())?;
            let mut next = batches.next().transpose()?;
            while let Some(rows) = next {
                context.stop_if_cancelled()?;
                expect_same_text(&model, &rows, "`trajectories`")?;
                // The next rows are read while these are encoded.
                let (encoded, read) =
                    rayon::join(|| tokenize(&model, &rows, config.mask_errored_turns), || batches.next().transpose());
                made.take(&rows, encoded)?;
                context.progress(made.rows, 0, "rows", None);
                next = read?;
            }
        }
        made.finish(&config, context)?;
        for (key, value) in facts(&model, config.mask_errored_turns) {
            context.describe(PORT, key, value);
        }
        Ok(())
    }
}

impl PreparedOptions for TokenizeConfig {
    type Config = Self;
    fn config(&self) -> &Self {
        self
    }
    fn problems_with(&self, inputs: &WiredInputs) -> Vec<OptionProblem> {
        shape::native_template_problems(&self.template, inputs, &["model"])
    }
    fn problems(&self) -> Vec<OptionProblem> {
        let problems = [
            OptionProblem::out_of_range("/pack_tokens", self.pack_tokens, 1..),
            OptionProblem::out_of_range("/max_quarantined", self.max_quarantined, 0.0..=1.0),
        ];
        problems.into_iter().flatten().chain(self.template.problems("/template")).collect()
    }
}

/// Returns the digest of the rendering of a fixed conversation, with tools and without, which distinguishes equal
/// templates with different options.
fn rendering(chat: &ChatEncoder) -> Digest {
    const TOOLS: &str = r#"[{"type": "function", "function": {"name": "f", "description": "d", "parameters": {}}}]"#;
    let conversation = [("system", "s"), ("user", "q"), ("assistant", "a"), ("user", "r")];
    let messages = conversation.map(|(role, content)| Message::new(role, content));
    // A template may reject tools or a system message: then the digest covers the rejection.
    let shown = |messages: &[Message], tools: Option<&str>| match chat.render(messages, true, tools) {
        Ok(text) => text,
        Err(e) => e.message,
    };
    let native = chat.is_native().then(|| "native".to_string());
    let shown: Vec<String> =
        [shown(&messages, Some(TOOLS)), shown(&messages[1..], None)].into_iter().chain(native).collect();
    Digest::of(shown.join("\0").as_bytes())
}

/// Returns by name the facts on which the tokens depend in addition to the trajectories.
fn facts(model: &ModelFolder, mask_errored_turns: bool) -> BTreeMap<&'static str, Value> {
    BTreeMap::from([
        ("tokenizer_digest", json!(model.tokenizer_digest())),
        ("template_digest", json!(model.template_digest())),
        ("rendering_digest", json!(rendering(&model.chat))),
        ("mask_errored_turns", json!(mask_errored_turns)),
    ])
}

/// Checks that tokens equal those that a training with this model and this option would create. Errors: invalid, naming
/// the difference.
pub fn expect_compatible_tokens(artifact: &InputArtifact, model: &ModelFolder, mask_errored_turns: bool) -> Result<()> {
    let name = |key: &str| match key {
        "tokenizer_digest" => "another tokenizer",
        "template_digest" => "another chat template",
        "rendering_digest" => "other template options",
        _ => "another value of `mask_errored_turns`",
    };
    let other: Vec<&str> = facts(model, mask_errored_turns)
        .into_iter()
        .filter(|(key, value)| artifact.metadata.get(*key) != Some(value))
        .map(|(key, _)| name(key))
        .collect();
    if other.is_empty() {
        return Ok(());
    }
    Err(Error::invalid(format!("input `{PORT}`: its tokens were made with {}", other.join(", ")))
        .help("wire `data/tokenize` with the model that is trained, and give both stages the same options"))
}

/// Progress of the stage.
struct TokenizeProgress {
    packer: Packer,
    packs: TableRowWriter<TokenPack>,
    rows: u64,
    counts: BTreeMap<&'static str, f64>,
    refused: Vec<(String, Error)>,
}

impl TokenizeProgress {
    fn new(config: &TokenizeConfig, context: &StageContext) -> Result<Self> {
        Ok(Self {
            packer: Packer::new(config.pack_tokens),
            packs: TableRowWriter::create(&context.output_parquet(PORT)?)?,
            rows: 0,
            counts: BTreeMap::from(["sequences", "packs", "tokens", "loss_tokens", "masked_turns"].map(|n| (n, 0.0))),
            refused: Vec::new(),
        })
    }
    fn take(&mut self, rows: &[Trajectory], encoded: Vec<Result<TokenizedTrajectory>>) -> Result<()> {
        for (row, encoded) in rows.iter().zip(encoded) {
            match encoded {
                Ok(tokenized) => self.add(&tokenized)?,
                Err(e) if matches!(e.kind, ErrorKind::Data | ErrorKind::Invalid) => {
                    self.refused.push((row.id.clone(), e));
                }
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }
    fn add(&mut self, row: &TokenizedTrajectory) -> Result<()> {
        self.rows += 1;
        let tokens: usize = row.contexts.iter().map(|context| context.tokens.len()).sum();
        let learned: usize = row.contexts.iter().map(|context| context.loss_tokens()).sum();
        let added = [
            ("sequences", row.contexts.len()),
            ("tokens", tokens),
            ("loss_tokens", learned),
            ("masked_turns", row.masked_turns),
        ];
        for (name, count) in added {
            *self.counts.entry(name).or_default() += count as f64;
        }
        match self.packer.push(row) {
            Some(pack) => self.write(pack),
            None => Ok(()),
        }
    }
    fn write(&mut self, pack: TokenPack) -> Result<()> {
        *self.counts.entry("packs").or_default() += 1.0;
        self.packs.write(std::slice::from_ref(&pack))
    }
    fn finish(mut self, config: &TokenizeConfig, context: &mut StageContext) -> Result<()> {
        self.check_quarantine(config)?;
        let packer = std::mem::replace(&mut self.packer, Packer::new(0));
        if let Some(pack) = packer.finish() {
            self.write(pack)?;
        }
        self.packs.finish()?;
        if !self.refused.is_empty() {
            TableBuilder::new()
                .string("trajectory", self.refused.iter().map(|(id, _)| id))
                .string("reason", self.refused.iter().map(|(_, e)| &e.message))
                .write(&context.output_parquet(QUARANTINE)?)?;
        }
        context.metric("rows", self.rows as f64);
        context.metric("quarantined", self.refused.len() as f64);
        for (name, count) in self.counts {
            context.metric(name, count);
        }
        Ok(())
    }
    /// Checks the share of rejected rows. Errors: too many rows were rejected, or no row was encoded.
    fn check_quarantine(&self, config: &TokenizeConfig) -> Result<()> {
        let all = self.rows + self.refused.len() as u64;
        if self.rows > 0 && self.refused.len() as f64 <= all as f64 * config.max_quarantined {
            return Ok(());
        }
        let Some((_, first)) = self.refused.first() else {
            return Err(
                Error::data("the input `trajectories` is empty").help("check the stage wired to `trajectories`")
            );
        };
        let reasons: Vec<&str> = self.refused.iter().take(NAMED).map(|(_, e)| e.message.as_str()).collect();
        let message = format!(
            "{} of {all} trajectories cannot be encoded, and `max_quarantined` is {}: {}",
            self.refused.len(),
            config.max_quarantined,
            reasons.join("; ")
        );
        let help = "remove these rows, or raise `max_quarantined` to continue without them";
        let own = first.help.as_deref().map_or_else(String::new, |own| format!("; {own}"));
        Err(Error::data(message).help(format!("{help}{own}")))
    }
}
