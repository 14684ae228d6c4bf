//! Defines the options of `preference`.

use crate::backend_config::TrainOptions;
use crate::model_options;
use crate::optimize::{OptimizerOptions, TrainingMethod};
use crate::row_options;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use trainyard_core::{Facts, OptionProblem, WiredInputs};
use trainyard_lm::adapter::AdapterOptions;
use trainyard_lm::backend::registry;
use trainyard_lm::checkpoint::SaveOptions;
use trainyard_lm::memory::TrainingMemory;
use trainyard_lm::shape;
use trainyard_lm::template::TemplateOptions;

/// Which weights are published.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WeightsChoice {
    /// Weights after the last step.
    #[default]
    Last,
    /// Weights with the lowest validation loss; the input's, if no step lowered it.
    Best,
}

/// Options of `preference`. Training ends at the first of `epochs` and `steps` that is given; 1 epoch if none is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PreferenceConfig {
    /// Loss to minimize, as a mean over pairs.
    #[schemars(extend("x-family" = "preference_losses"))]
    pub loss: Value,
    /// Weight of the mean negative log-probability of the chosen answer's tokens, added to the loss of each pair.
    #[schemars(range(min = 0))]
    pub sft_weight: f64,
    /// How the model's chat template is used.
    #[serde(skip_serializing_if = "TemplateOptions::is_default")]
    pub template: TemplateOptions,
    /// Passes over the pairs.
    pub epochs: Option<u64>,
    /// Optimizer steps.
    pub steps: Option<u64>,
    /// Pairs per optimizer step.
    #[schemars(range(min = 1))]
    pub batch_pairs: usize,
    /// Tokens computed together, of both answers with their prompts: limits memory, and changes results by rounding
    /// only. Pairs stay whole.
    #[schemars(range(min = 1))]
    pub micro_batch_tokens: usize,
    /// Token limit of a conversation; pairs with a longer one are left out and counted; 0 = as many tokens as the model
    /// has positions.
    pub max_tokens: usize,
    /// Optimizer of the model.
    pub optimizer: OptimizerOptions,
    /// Adapter to train instead of the model, such as `{kind: lora}`; null = train the whole model. A model with an
    /// adapter continues training that adapter; without this option, the adapter is merged first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adapter: Option<AdapterOptions>,
    /// Steps between measurements on held-out pairs; 0 = only before the first step and after the last; null = 25.
    pub validate_every: Option<u64>,
    /// Share of the problems held out if no `validation` input is given; 0 = none.
    #[schemars(range(min = 0, max = 0.5))]
    pub validation_share: f64,
    /// Which weights are published: the `last`, or the `best` by validation loss.
    pub keep: WeightsChoice,
    /// Steps between resume points; 0 = only the one of the reference's log-probabilities.
    pub checkpoint_every: u64,
    /// How the weights of a whole model are written; an adapter's are always f32.
    #[serde(skip_serializing_if = "SaveOptions::is_default")]
    pub save: SaveOptions,
    /// Backend that computes the model.
    #[serde(skip_serializing_if = "registry::is_default")]
    #[schemars(extend("x-family" = "backends"))]
    pub backend: Value,
    /// Seed of the order of pairs and of the held-out share.
    pub seed: u64,
}

/// Returns the default loss.
pub fn default_loss() -> Value {
    json!({ "kind": "dpo" })
}

impl Default for PreferenceConfig {
    fn default() -> Self {
        Self {
            loss: default_loss(),
            sft_weight: 0.0,
            template: TemplateOptions::default(),
            epochs: None,
            steps: None,
            batch_pairs: 32,
            micro_batch_tokens: 8192,
            max_tokens: 0,
            optimizer: OptimizerOptions::default(),
            adapter: None,
            save: SaveOptions::default(),
            validate_every: None,
            validation_share: 0.05,
            keep: WeightsChoice::Last,
            checkpoint_every: 50,
            backend: registry::default_options(),
            seed: 0,
        }
    }
}

impl PreferenceConfig {
    /// Returns the number of steps between measurements; 0 = no measurements between the first and the last step.
    pub fn validation_interval(&self) -> u64 {
        self.validate_every.unwrap_or(25)
    }
}

impl TrainOptions for PreferenceConfig {
    fn problems(&self) -> Vec<OptionProblem> {
        let adapter = self.adapter.as_ref();
        let mut problems = model_options::problems(&self.optimizer, &self.template, adapter, &self.save);
        problems.extend(OptionProblem::out_of_range("/sft_weight", self.sft_weight, 0.0..));
        problems.extend(OptionProblem::out_of_range("/batch_pairs", self.batch_pairs, 1..));
        problems.extend(OptionProblem::out_of_range("/micro_batch_tokens", self.micro_batch_tokens, 1..));
        problems.extend(OptionProblem::out_of_range("/validation_share", self.validation_share, 0.0..=0.5));
        problems.extend(row_options::empty(&[("/epochs", self.epochs), ("/steps", self.steps)]));
        problems
    }

    fn facts(&self, inputs: &WiredInputs) -> BTreeMap<String, Facts> {
        shape::trained(inputs, self.adapter.as_ref())
    }

    fn warnings_with(&self, inputs: &WiredInputs) -> Vec<OptionProblem> {
        let changed = self.adapter.as_ref().into();
        let optimizer = self.optimizer.warning("/optimizer", TrainingMethod::Preference, inputs, changed);
        optimizer.into_iter().chain(shape::beyond_context(inputs, "model", "/max_tokens", self.max_tokens)).collect()
    }

    /// Reports options that measure on held-out pairs if there are no such pairs, and a model that does not fit in
    /// memory.
    fn problems_with(&self, inputs: &WiredInputs) -> Vec<OptionProblem> {
        let measured = [
            ("/validate_every", self.validate_every.is_some_and(|every| every > 0)),
            ("/keep", self.keep == WeightsChoice::Best),
        ];
        // A wired reference is in memory together with the policy before moments and gradients are allocated.
        let second = self.adapter.is_some() && inputs.get("reference").is_some_and(|count| *count > 0);
        let training =
            TrainingMemory { adapter: self.adapter.as_ref(), tokens: self.micro_batch_tokens, samples: second };
        let mut problems = row_options::unmeasured(&measured, self.validation_share, inputs);
        problems.extend(model_options::unsuitable(inputs, &["model", "reference"], &self.template, &training));
        problems
    }
}
