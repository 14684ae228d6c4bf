//! Defines the options of `sft`.

use super::stop::{self, StopAt};
use crate::backend_config::TrainOptions;
use crate::model_options;
use crate::optimize::{OptimizerOptions, TrainingMethod};
use crate::row_options;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use trainyard_core::{Facts, OptionProblem, WiredInputs};
use trainyard_lm::adapter::AdapterOptions;
use trainyard_lm::backend::registry;
use trainyard_lm::checkpoint::SaveOptions;
use trainyard_lm::memory::TrainingMemory;
use trainyard_lm::shape;
use trainyard_lm::template::TemplateOptions;

/// Options of `sft`. Training ends at the first of `epochs`, `steps` and `tokens` that is given; 3 epochs if none is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SftConfig {
    /// How the model's chat template is used. Rows contain their tools; `tools` selects the format of calls: that of
    /// the template, or the rows' texts unchanged.
    #[serde(skip_serializing_if = "TemplateOptions::is_default")]
    pub template: TemplateOptions,
    /// Passes over the trajectories.
    pub epochs: Option<u64>,
    /// Optimizer steps.
    pub steps: Option<u64>,
    /// Tokens read, prompts included.
    pub tokens: Option<u64>,
    /// Tokens per optimizer step, prompts included; sequences of similar length share a step.
    #[schemars(range(min = 1))]
    pub batch_tokens: usize,
    /// Tokens computed together: limits memory, and changes results by rounding only. Gradients of a step add up over
    /// its parts.
    #[schemars(range(min = 1))]
    pub micro_batch_tokens: usize,
    /// Longer trajectories are left out and counted; 0 = as many as the model has positions.
    pub max_tokens: usize,
    /// Leave turns whose tool call failed out of the loss; they stay in the context.
    pub mask_errored_turns: bool,
    /// The optimizer of the model.
    pub optimizer: OptimizerOptions,
    /// Adapter to train instead of the model, such as `{kind: lora}`; null = train the whole model. A model with an
    /// adapter continues training that adapter; without this option, the adapter is merged first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adapter: Option<AdapterOptions>,
    /// Steps between measurements of the validation loss; 0 = only before the first step and after the last; null = 25.
    pub validate_every: Option<u64>,
    /// Share of the problems held out where no `validation` input is given; 0 = none.
    #[schemars(range(min = 0, max = 0.5))]
    pub validation_share: f64,
    /// Stop after this many measurements without a better one; null = never.
    pub patience: Option<u64>,
    /// End as soon as sampled episodes on the input `problems` pass this often, and keep the weights of that step;
    /// null = never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_at: Option<StopAt>,
    /// Steps between resume points; 0 = none.
    pub checkpoint_every: u64,
    /// How the weights of a whole model are written; an adapter's are always f32.
    #[serde(skip_serializing_if = "SaveOptions::is_default")]
    pub save: SaveOptions,
    /// Where the model is computed.
    #[serde(skip_serializing_if = "registry::is_default")]
    #[schemars(extend("x-family" = "backends"))]
    pub backend: Value,
    /// Seed of the order of examples and of the held-out share.
    pub seed: u64,
}

impl Default for SftConfig {
    fn default() -> Self {
        Self {
            template: TemplateOptions::default(),
            epochs: None,
            steps: None,
            tokens: None,
            batch_tokens: 8192,
            micro_batch_tokens: 8192,
            max_tokens: 0,
            mask_errored_turns: true,
            optimizer: OptimizerOptions::default(),
            adapter: None,
            save: SaveOptions::default(),
            validate_every: None,
            validation_share: 0.05,
            patience: None,
            stop_at: None,
            checkpoint_every: 50,
            backend: registry::default_options(),
            seed: 0,
        }
    }
}

impl SftConfig {
    /// Returns the number of steps between measurements; 0 = no measurements between the first and the last step.
    pub fn validation_interval(&self) -> u64 {
        self.validate_every.unwrap_or(25)
    }
}

impl TrainOptions for SftConfig {
    fn problems(&self) -> Vec<OptionProblem> {
        let adapter = self.adapter.as_ref();
        let mut problems = model_options::problems(&self.optimizer, &self.template, adapter, &self.save);
        problems.extend(OptionProblem::out_of_range("/batch_tokens", self.batch_tokens, 1..));
        problems.extend(OptionProblem::out_of_range("/micro_batch_tokens", self.micro_batch_tokens, 1..));
        problems.extend(OptionProblem::out_of_range("/validation_share", self.validation_share, 0.0..=0.5));
        let limits =
            [("/epochs", self.epochs), ("/steps", self.steps), ("/tokens", self.tokens), ("/patience", self.patience)];
        problems.extend(row_options::empty(&limits));
        problems.extend(self.stop_at.iter().flat_map(StopAt::problems));
        if self.stop_at.is_some() && self.patience.is_some() {
            let problem = OptionProblem::new("/patience", "`patience` and `stop_at` both end training");
            problems.push(problem.help("keep one of them"));
        }
        problems
    }

    fn facts(&self, inputs: &WiredInputs) -> BTreeMap<String, Facts> {
        shape::trained(inputs, self.adapter.as_ref())
    }

    fn warnings_with(&self, inputs: &WiredInputs) -> Vec<OptionProblem> {
        let changed = self.adapter.as_ref().into();
        let optimizer = self.optimizer.warning("/optimizer", TrainingMethod::Sft, inputs, changed);
        let sampled = self.stop_at.as_ref().and_then(|stop| stop.sampling.beyond_context(inputs, "model"));
        let sampled = sampled.map(|warning| warning.with_prefix("/stop_at"));
        let long = shape::beyond_context(inputs, "model", "/max_tokens", self.max_tokens);
        optimizer.into_iter().chain(long).chain(sampled).collect()
    }

    /// Reports options that measure on held-out rows if no row is held out, two wired sources of rows, problems with
    /// `stop_at`, and a model that does not fit in memory or has no language head.
    fn problems_with(&self, inputs: &WiredInputs) -> Vec<OptionProblem> {
        let both = ["trajectories", "tokenized"].iter().all(|port| inputs.get(port).is_some_and(|n| *n > 0));
        let twice = both.then(|| {
            OptionProblem::new("/tokenized", "`trajectories` and `tokenized` are both wired").help("wire one of them")
        });
        let measured = [
            ("/validate_every", self.validate_every.is_some_and(|every| every > 0)),
            ("/patience", self.patience.is_some()),
        ];
        let tokens = self.micro_batch_tokens.min(self.batch_tokens);
        let training = TrainingMemory { adapter: self.adapter.as_ref(), tokens, samples: false };
        let mut problems = row_options::unmeasured(&measured, self.validation_share, inputs);
        problems.extend(twice);
        problems.extend(stop::problems_with(self.stop_at.as_ref(), inputs));
        problems.extend(model_options::unsuitable(inputs, &["model"], &self.template, &training));
        problems
    }
}
