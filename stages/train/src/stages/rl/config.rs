//! Defines the options of `rl`: the parts of a method, the loop around them, and the checks that need only these
//! options.
//!
//! Parts are plain values in these structs, because only their families know their options (`docs/design/0006`) and
//! fill in their schemas. `algorithm` and `mechanism` are expanded before parsing. [`super::parts`] reports parts with
//! unmet needs.

use super::asynchronous::AsyncOptions;
use super::defaults;
use crate::config::{SamplingOptions, default_environment, default_rewards};
use crate::optimize::OptimizerOptions;
use crate::option_defaults::{self, OptionDefaults};
use crate::parts::TrainParts;
use crate::rollouts::ToolWait;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use trainyard_api::family::fill_schema;
use trainyard_core::OptionProblem;
use trainyard_learn::Aggregate;
use trainyard_lm::adapter::AdapterOptions;
use trainyard_lm::backend::registry;
use trainyard_lm::checkpoint::SaveOptions;
use trainyard_lm::optimizer::Decay;
use trainyard_lm::template::TemplateOptions;

/// Options of `rl`. `algorithm` (a named composition, default `grpo`) gives the parts; every key here overrides it:
/// maps merge key by key, lists replace, another `kind` drops the old one's siblings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RlConfig {
    /// Environment that the problems are made for.
    #[serde(default = "default_environment")]
    #[schemars(extend("x-family" = "environments"))]
    pub environment: Value,
    /// How the model's chat template is used.
    #[serde(default, skip_serializing_if = "TemplateOptions::is_default")]
    pub template: TemplateOptions,
    /// How episodes are sampled.
    pub rollout: RolloutConfig,
    /// Components of the reward; their weighted sum is maximized.
    #[serde(default = "default_rewards")]
    #[schemars(extend("x-family" = "rewards"))]
    pub rewards: Value,
    /// Which rollouts enter the update; filters are applied in order.
    #[schemars(extend("x-family" = "filters"))]
    pub filters: Vec<Value>,
    /// Replacement of groups that filters dropped, by sampling again.
    #[serde(default)]
    pub resample: Resample,
    /// How rewards become a number per token, and its `modulations`.
    #[schemars(extend("x-family" = "advantages"))]
    pub advantage: Value,
    /// Loss of an update.
    pub loss: Loss,
    /// Order of the problems.
    #[schemars(extend("x-family" = "curricula"))]
    pub curriculum: Value,
    /// Earlier rollouts that enter the update again.
    #[schemars(extend("x-family" = "replay"))]
    pub replay: Value,
    /// Rounds of sampling and updating.
    #[serde(default = "defaults::steps")]
    #[schemars(range(min = 1))]
    pub steps: u64,
    /// Groups per step.
    #[serde(default = "defaults::problems_per_step")]
    #[schemars(range(min = 1))]
    pub problems_per_step: usize,
    /// Passes over the rollouts of a step.
    #[serde(default = "defaults::one")]
    #[schemars(range(min = 1))]
    pub epochs: u64,
    /// Optimizer steps per pass.
    #[serde(default = "defaults::minibatches")]
    #[schemars(range(min = 1))]
    pub minibatches: usize,
    /// Placebo: every optimizer step of an update except the first uses advantages that are randomly permuted among its
    /// rollouts.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reuse_by_chance: bool,
    /// Tokens computed together: limits memory, and changes results by rounding only.
    #[serde(default = "defaults::micro_batch_tokens")]
    #[schemars(range(min = 1))]
    pub micro_batch_tokens: usize,
    /// Optimizer of the policy.
    #[serde(default)]
    pub optimizer: OptimizerOptions,
    /// Adapter to train instead of the model, such as `{kind: lora}`; null = train the whole model. A model with an
    /// adapter continues training that adapter; without this option, the adapter is merged first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adapter: Option<AdapterOptions>,
    /// Value model, if a part needs one.
    #[serde(default)]
    pub critic: CriticConfig,
    /// Steps between greedy evaluations on the problems of `validation`; 0 = only before the first and after the last
    /// step; null = 5.
    #[serde(default)]
    pub validate_every: Option<u64>,
    /// Limit of problems of `validation`, in equal numbers per level.
    #[serde(default = "defaults::validate_problems")]
    #[schemars(range(min = 1))]
    pub validate_problems: usize,
    /// Steps between resume points; 0 = none.
    #[serde(default = "defaults::checkpoint_every")]
    pub checkpoint_every: u64,
    /// Number of newest rollouts written to the output `trajectories`.
    #[serde(default = "defaults::keep_rollouts")]
    pub keep_rollouts: usize,
    /// How the weights of a whole model are written; an adapter's are always f32.
    #[serde(default, skip_serializing_if = "SaveOptions::is_default")]
    pub save: SaveOptions,
    /// Backend that computes the model.
    #[serde(default = "registry::default_options", skip_serializing_if = "registry::is_default")]
    #[schemars(extend("x-family" = "backends"))]
    pub backend: Value,
    /// Seed of all random draws.
    #[serde(default)]
    pub seed: u64,
}

/// How episodes are sampled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RolloutConfig {
    /// Which sequences are sampled for a problem, and which are kept.
    #[schemars(extend("x-family" = "strategies"))]
    pub strategy: Value,
    /// Rollouts per problem.
    #[serde(default = "defaults::group_size")]
    #[schemars(range(min = 1))]
    pub group_size: u32,
    /// Sampling temperature, above 0; the loss uses the same.
    #[serde(default = "defaults::temperature")]
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub temperature: f64,
    /// Limit of tokens sampled in one turn of the agent.
    #[serde(default = "defaults::turn_tokens")]
    #[schemars(range(min = 1))]
    pub max_turn_tokens: usize,
    /// Limit of tokens of an episode: prompt, turns and observations.
    #[serde(default = "defaults::episode_tokens")]
    #[schemars(range(min = 2))]
    pub max_episode_tokens: usize,
    /// Sequences decoded together: limits memory, does not change results.
    #[serde(default = "defaults::running")]
    #[schemars(range(min = 1))]
    pub max_running: usize,
    /// Memory for the keys and values of sequences decoded together, such as `8GiB`: fewer run at once if more would
    /// not fit at full length. Does not change results; null = 4GiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kv_memory: Option<String>,
    /// When an episode continues after its tools have answered: at once (`trajectory`), or when all have (`batch`).
    #[serde(default)]
    pub tool_wait: ToolWait,
    /// Options to sample while the policy is updated; null = sampling and updating alternate.
    #[serde(default)]
    pub asynchronous: Option<AsyncOptions>,
    /// Backend of the rollouts, if not that of training. Rollouts of another backend get their old log-probabilities
    /// from the trained policy; those of the sampler are used by `loss.correction`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-family" = "backends"))]
    pub backend: Option<Value>,
}

/// The value model of actor-critic methods: a copy of the first policy with one output per token.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CriticConfig {
    /// Optimizer of the value model.
    #[serde(deserialize_with = "option_defaults::read::<CriticOptimizer, _>")]
    #[schemars(schema_with = "option_defaults::schema::<CriticOptimizer>")]
    pub optimizer: OptimizerOptions,
}

impl Default for CriticConfig {
    fn default() -> Self {
        Self { optimizer: CriticOptimizer::defaults() }
    }
}

/// Optimizer of the value model: no weight decay, and linear decay of the rate.
pub struct CriticOptimizer;

impl OptionDefaults for CriticOptimizer {
    type Options = OptimizerOptions;
    fn defaults() -> OptimizerOptions {
        OptimizerOptions {
            learning_rate: Some(1e-3),
            decay: Decay::Linear,
            final_share: 0.2,
            weight_decay: 0.0,
            ..OptimizerOptions::default()
        }
    }
}

/// Replacement of groups that filters dropped, by sampling again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Resample {
    /// Rounds of sampling per step, the first included; 1 = no second round.
    #[schemars(range(min = 1))]
    pub max_draws: u64,
}

impl Default for Resample {
    fn default() -> Self {
        Self { max_draws: 3 }
    }
}

/// Loss of an update.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Loss {
    /// How token losses become one number.
    #[serde(default)]
    pub aggregate: Aggregate,
    /// Constant length for `sequence_mean_token_sum_norm`; null = the longest sequence of the minibatch.
    #[serde(default)]
    pub horizon: Option<usize>,
    /// Importance weights for samples of other weights.
    #[schemars(extend("x-family" = "corrections"))]
    pub correction: Value,
    /// Loss terms, which are added.
    #[schemars(extend("x-family" = "losses"))]
    pub terms: Vec<Value>,
}

/// Returns the schema of `advantage`, in which each branch also takes `modulations`.
fn advantage_schema(parts: &TrainParts) -> Value {
    let mut schema = parts.learn.advantages.schema();
    let modulations = json!({
        "type": "array",
        "items": parts.learn.modulations.schema(),
        "description": "Changes after assignment, in order.",
    });
    for branch in schema["oneOf"].as_array_mut().into_iter().flatten() {
        if branch["properties"].is_object() {
            branch["properties"]["modulations"] = modulations.clone();
        }
    }
    schema
}

/// Keys that only the arms of a recipe have, and their descriptions.
const SWITCHES: [(&str, &str); 2] = [
    (
        trainyard_learn::mechanism::KEY,
        "One mechanism that a recipe switches on in one arm only. It is laid over all other options; disabled it \
         leaves no trace.",
    ),
    (
        trainyard_learn::mechanism::PLACEBO,
        "The mechanism with its signal replaced by chance: enabled, its options are laid over those of `mechanism`.",
    ),
];

fn switch(description: &str) -> Value {
    json!({
        "type": "object",
        "additionalProperties": false,
        "description": description,
        "properties": {
            "enabled": {
                "type": "boolean",
                "default": true,
                "description": "False: the config is that of an arm without the key.",
            },
            "with": {
                "type": "object",
                "description": concat!(
                    "Options of this stage: maps merge key by key, lists replace, ",
                    "another `kind` drops the old one's siblings.",
                ),
            },
        },
    })
}

/// Returns the schema of the stage. Options that `algorithm` provides are optional, and `algorithm` is one of the
/// compositions.
pub fn schema(parts: &TrainParts) -> Value {
    let mut schema = schemars::schema_for!(RlConfig).to_value();
    fill_schema(&mut schema, parts.learn.advantages.folder, &advantage_schema(parts));
    parts.fill_all(&mut schema);
    if let Some(map) = schema.as_object_mut() {
        map.remove("required");
    }
    for definition in schema["$defs"].as_object_mut().into_iter().flat_map(|d| d.values_mut()) {
        if let Some(map) = definition.as_object_mut() {
            map.remove("required");
        }
    }
    for part in ["curriculum", "replay", "advantage"] {
        relax_kind(&mut schema["properties"][part]);
    }
    for (definition, part) in [(RolloutConfig::schema_name(), "strategy"), (Loss::schema_name(), "correction")] {
        relax_kind(&mut schema["$defs"][&*definition]["properties"][part]);
    }
    let names = parts.learn.algorithms.names();
    schema["properties"]["algorithm"] = json!({
        "type": "string",
        "enum": names,
        "default": trainyard_learn::compositions::DEFAULT,
        "description": "A named composition of parts; the other keys override it.",
    });
    for (key, description) in SWITCHES {
        schema["properties"][key] = switch(description);
    }
    schema
}

/// Makes `kind` optional, because an override without `kind` changes options of the composition's part. `anyOf`
/// therefore replaces `oneOf`.
fn relax_kind(part: &mut Value) {
    let Some(map) = part.as_object_mut() else { return };
    let Some(mut branches) = map.remove("oneOf") else { return };
    for branch in branches.as_array_mut().into_iter().flatten() {
        if let Some(map) = branch.as_object_mut() {
            map.remove("required");
        }
    }
    map.insert("anyOf".into(), branches);
}

impl RlConfig {
    /// Returns the sampling options of rollouts, without truncation of the distribution.
    pub fn sampling(&self) -> SamplingOptions {
        SamplingOptions {
            temperature: self.rollout.temperature,
            top_p: 1.0,
            top_k: 0,
            max_turn_tokens: self.rollout.max_turn_tokens,
            max_episode_tokens: self.rollout.max_episode_tokens,
            max_running: self.rollout.max_running,
            kv_memory: self.rollout.kv_memory.clone(),
        }
    }
    /// Returns the number of steps between validations; 0 = no validations between the first and the last step.
    pub fn validation_interval(&self) -> u64 {
        self.validate_every.unwrap_or(5)
    }
    /// Returns the number of optimizer steps of the whole stage.
    pub fn updates(&self) -> u64 {
        self.steps * self.epochs * self.minibatches as u64
    }
    /// Checks the options except the parts, which their families check.
    pub fn problems(&self) -> Vec<OptionProblem> {
        let mut problems = self.sampling().problems("/rollout");
        problems.extend(self.template.problems("/template"));
        problems.extend(self.optimizer.problems("/optimizer"));
        problems.extend(self.adapter.iter().flat_map(|adapter| adapter.problems("/adapter")));
        problems.extend(self.save.problems("/save"));
        problems.extend(self.critic.optimizer.problems("/critic/optimizer"));
        if self.rollout.temperature <= 0.0 {
            problems.push(
                OptionProblem::new("/rollout/temperature", "greedy rollouts of one problem are all the same")
                    .help("use a temperature above 0"),
            );
        }
        let counts = [
            ("/steps", self.steps),
            ("/problems_per_step", self.problems_per_step as u64),
            ("/epochs", self.epochs),
            ("/minibatches", self.minibatches as u64),
            ("/micro_batch_tokens", self.micro_batch_tokens as u64),
            ("/rollout/group_size", u64::from(self.rollout.group_size)),
            ("/resample/max_draws", self.resample.max_draws),
            ("/validate_problems", self.validate_problems as u64),
        ];
        problems.extend(counts.into_iter().filter_map(|(at, count)| OptionProblem::out_of_range(at, count, 1..)));
        let staleness = self.rollout.asynchronous.as_ref().map(|a| a.max_staleness);
        problems.extend(
            staleness.and_then(|s| OptionProblem::out_of_range("/rollout/asynchronous/max_staleness", s, ..=1000)),
        );
        problems
            .extend(self.loss.horizon.and_then(|horizon| OptionProblem::out_of_range("/loss/horizon", horizon, 1..)));
        if self.rollout.asynchronous.is_some() && self.rollout.tool_wait == ToolWait::Batch {
            problems.push(
                OptionProblem::new("/rollout/tool_wait", "asynchronous rollouts cannot wait for a batch")
                    .help("use `trajectory`"),
            );
        }
        if self.loss.terms.is_empty() {
            problems.push(
                OptionProblem::new("/loss/terms", "a loss without terms trains nothing")
                    .help("use at least {kind: clip}"),
            );
        }
        problems
    }
}
