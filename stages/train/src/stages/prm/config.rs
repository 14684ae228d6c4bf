//! Defines the options of `prm`.

use crate::config::{SamplingOptions, default_environment};
use crate::environment_config::PlayOptions;
use crate::optimize::{OptimizerOptions, TrainingMethod};
use crate::rollouts::StepKind;
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

/// Weights trained on the labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TrainedWeights {
    /// The scoring head and the whole decoder under it.
    #[default]
    All,
    /// The scoring head alone.
    Head,
}

/// Options of `prm`. The first group applies only to labels by Monte-Carlo rollouts (input `problems`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PrmConfig {
    /// Environment that the problems are made for.
    #[schemars(extend("x-family" = "environments"))]
    pub environment: Value,
    /// How the model's chat template is used.
    #[serde(skip_serializing_if = "TemplateOptions::is_default")]
    pub template: TemplateOptions,
    /// How rollouts and their continuations are sampled.
    pub sampling: SamplingOptions,
    /// Limit of problems, in equal numbers per level; null = all.
    pub problems_limit: Option<usize>,
    /// Rollouts per problem; all their steps are labeled.
    #[schemars(range(min = 1))]
    pub rollouts: u32,
    /// Continuations per step; a step's label is the share of them that succeeds.
    #[schemars(range(min = 1))]
    pub continuations: u32,
    /// Unit of a step: a line that the agent writes (`lines`), or a whole turn (`turns`).
    pub steps: StepKind,
    /// Weights to train: the head alone, or the decoder too.
    pub train: TrainedWeights,
    /// Reward component that is 1 or more for a right episode.
    pub outcome: String,
    /// Weight of the ranking loss ln(1 + exp(z_wrong − z_right)) between right and wrong rollouts of one problem, at
    /// their last step, added to the loss on labels; 0 = none.
    #[schemars(range(min = 0))]
    pub ranking_weight: f64,
    /// Passes over the labeled rollouts.
    #[schemars(range(min = 1))]
    pub epochs: u64,
    /// Tokens per optimizer step, prompts included.
    #[schemars(range(min = 1))]
    pub batch_tokens: usize,
    /// Tokens computed together: limits memory, and changes results by rounding only.
    #[schemars(range(min = 1))]
    pub micro_batch_tokens: usize,
    /// Optimizer of the scoring head, and of the decoder with `train: all`.
    pub optimizer: OptimizerOptions,
    /// Adapter to train instead of the decoder, such as `{kind: lora}`; null = train the decoder itself. A model with
    /// an adapter continues training that adapter; without this option, the adapter is merged first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adapter: Option<AdapterOptions>,
    /// Share of the problems held out from training; all quality metrics are measured on them.
    #[schemars(extend("exclusiveMinimum" = 0), range(max = 0.5))]
    pub held_out_share: f64,
    /// Optimizer steps between resume points, after the one that holds the labels; 0 = none, null = 50. Does not change
    /// results.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint_every: Option<u64>,
    /// Bins of the calibration table.
    #[schemars(range(min = 1))]
    pub bins: usize,
    /// How the weights of a whole model are written; an adapter's are always f32.
    #[serde(skip_serializing_if = "SaveOptions::is_default")]
    pub save: SaveOptions,
    /// Backend that computes the model.
    #[serde(skip_serializing_if = "registry::is_default")]
    #[schemars(extend("x-family" = "backends"))]
    pub backend: Value,
    /// Seed of all random draws.
    pub seed: u64,
}

impl Default for PrmConfig {
    fn default() -> Self {
        Self {
            environment: default_environment(),
            template: TemplateOptions::default(),
            sampling: SamplingOptions::default(),
            problems_limit: None,
            rollouts: 4,
            continuations: 4,
            steps: StepKind::Lines,
            train: TrainedWeights::All,
            outcome: "answer".to_string(),
            ranking_weight: 1.0,
            epochs: 4,
            batch_tokens: 8192,
            micro_batch_tokens: 8192,
            optimizer: OptimizerOptions::default(),
            adapter: None,
            save: SaveOptions::default(),
            held_out_share: 0.2,
            checkpoint_every: None,
            bins: 10,
            backend: registry::default_options(),
            seed: 0,
        }
    }
}

impl PlayOptions for PrmConfig {
    fn environment(&self) -> &Value {
        &self.environment
    }
    fn trains(&self) -> bool {
        true
    }

    fn template(&self) -> &TemplateOptions {
        &self.template
    }

    fn facts(&self, inputs: &WiredInputs) -> BTreeMap<String, Facts> {
        shape::scoring(shape::trained(inputs, self.adapter.as_ref()), 1)
    }

    fn problems_with(&self, inputs: &WiredInputs) -> Vec<OptionProblem> {
        let wired = |port: &str| inputs.get(port).is_some_and(|n| *n > 0);
        let tokens = self.micro_batch_tokens.min(self.batch_tokens);
        let training = TrainingMemory { adapter: self.adapter.as_ref(), tokens, samples: false };
        let mut problems = shape::adapter_problems(inputs, self.adapter.as_ref());
        // If only the head is trained, the decoder keeps no activations.
        let too_large = || shape::too_large(inputs, &training);
        problems.extend((self.train == TrainedWeights::All).then(too_large).flatten());
        let conflict = match (wired("problems"), wired("trajectories")) {
            (true, true) => Some("both are given"),
            (false, false) => Some("none is given"),
            _ => None,
        };
        problems.extend(conflict.map(|conflict| {
            OptionProblem::new("/problems", format!("`prm` takes either `problems` or `trajectories`, but {conflict}"))
                .help("give exactly one of the two inputs")
        }));
        if wired("problems") {
            problems.extend(shape::without_language_head(inputs, &["model"]));
        }
        problems
    }

    fn warnings_with(&self, inputs: &WiredInputs) -> Vec<OptionProblem> {
        let changed = self.adapter.as_ref().into();
        let optimizer = self.optimizer.warning("/optimizer", TrainingMethod::Prm, inputs, changed);
        // Episodes are sampled from problems alone.
        let samples = inputs.get("problems").is_some_and(|count| *count > 0);
        let long = samples.then(|| self.sampling.beyond_context(inputs, "model")).flatten();
        optimizer.into_iter().chain(long).collect()
    }

    fn problems(&self) -> Vec<OptionProblem> {
        let mut problems = self.sampling.problems("/sampling");
        problems.extend(self.template.problems("/template"));
        problems.extend(self.optimizer.problems("/optimizer"));
        problems.extend(self.adapter.iter().flat_map(|adapter| adapter.problems("/adapter")));
        problems.extend(self.save.problems("/save"));
        if self.adapter.is_some() && self.train == TrainedWeights::Head {
            problems.push(
                OptionProblem::new(
                    "/adapter",
                    "`train: head` trains the scoring head alone, so an adapter learns nothing",
                )
                .help("leave out `adapter` or `train`"),
            );
        }
        if self.sampling.temperature == 0.0 {
            problems.push(
                OptionProblem::new("/sampling/temperature", "greedy continuations of one step are all equal")
                    .help("use a temperature above 0"),
            );
        }
        let counts = [
            ("/rollouts", self.rollouts as usize),
            ("/continuations", self.continuations as usize),
            ("/epochs", self.epochs as usize),
            ("/batch_tokens", self.batch_tokens),
            ("/micro_batch_tokens", self.micro_batch_tokens),
            ("/bins", self.bins),
        ];
        problems.extend(
            counts
                .iter()
                .filter(|(_, n)| *n == 0)
                .map(|(at, _)| OptionProblem::new(*at, "0 is out of range").help("use at least 1")),
        );
        if !(self.held_out_share > 0.0 && self.held_out_share <= 0.5) {
            problems.push(OptionProblem::new(
                "/held_out_share",
                format!("the share is {}, but must be above 0 and at most 0.5", self.held_out_share),
            ));
        }
        if !(self.ranking_weight >= 0.0 && self.ranking_weight.is_finite()) {
            problems.push(OptionProblem::new(
                "/ranking_weight",
                format!("the weight is {}, but must be 0 or more", self.ranking_weight),
            ));
        }
        if self.problems_limit == Some(0) {
            problems.push(
                OptionProblem::new("/problems_limit", "a limit of 0 selects no problems")
                    .help("use at least 1, or null for all"),
            );
        }
        problems
    }
}
