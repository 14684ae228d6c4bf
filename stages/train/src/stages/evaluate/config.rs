//! Defines the options of `evaluate`, and checks them against each other and against the inputs.

use super::served_model::ServedModel;
use crate::config::{SamplingOptions, default_environment};
use crate::environment_config::PlayOptions;
use crate::results::MODELS_FACT;
use crate::rollouts::StepKind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use trainyard_core::{AxisInstance, Facts, OptionProblem, WiredInputs};
use trainyard_lm::backend::registry;
use trainyard_lm::shape;
use trainyard_lm::template::TemplateOptions;
use trainyard_tables::SamplingParams;

/// Options of `evaluate`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct EvaluateConfig {
    /// Name of each model, in their order: lower-case letters, digits and `_`. If empty, models of a matrix have the
    /// names of their stage instances (`sft[lr=0.003,seed=1]`), and others are called `model_1`, ….
    pub names: Vec<String>,
    /// Stage instances that the models come from; `check` sets them for several models of a matrix without `names`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-instances-of" = "models", "x-unless" = "names"))]
    pub instances: Vec<AxisInstance>,
    /// Environment that the problems are made for.
    #[schemars(extend("x-family" = "environments"))]
    pub environment: Value,
    /// How the model's chat template is used.
    #[serde(skip_serializing_if = "TemplateOptions::is_default")]
    pub template: TemplateOptions,
    /// Samples per problem in addition to the greedy one; 0 = greedy only.
    pub samples: u32,
    /// Names of the models that are sampled; empty = all. The others are only evaluated greedily.
    pub sampled: Vec<String>,
    /// Sampling options of the drawn samples, and the limits of every episode.
    pub sampling: SamplingOptions,
    /// The k of pass@k, each from 1 to `samples`; 2, 4, 8, … up to `samples` if empty. avg, maj and best-of use all
    /// samples.
    pub pass_at: Vec<u32>,
    /// Limit of problems, in equal numbers per level; null = all.
    pub problems_limit: Option<usize>,
    /// Unit of a step for the process reward model, if its artifact does not define one.
    pub steps: StepKind,
    /// Rollouts per model written to the output `trajectories`, the greedy ones first; null = all.
    pub keep_rollouts: Option<usize>,
    /// Backend that computes the model.
    #[serde(skip_serializing_if = "registry::is_default")]
    #[schemars(extend("x-family" = "backends"))]
    pub backend: Value,
    /// Served models, by name, which are evaluated after the models of the input (`docs/endpoints.md`).
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub endpoints: BTreeMap<String, ServedModel>,
    /// Minimum number of episodes between resume points; 0 = none, null = 1000. Does not change results.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint_every: Option<u64>,
    /// Seed of all random draws.
    pub seed: u64,
}

impl Default for EvaluateConfig {
    fn default() -> Self {
        Self {
            names: Vec::new(),
            instances: Vec::new(),
            environment: default_environment(),
            template: TemplateOptions::default(),
            samples: 8,
            sampled: Vec::new(),
            sampling: SamplingOptions::default(),
            pass_at: Vec::new(),
            problems_limit: None,
            steps: StepKind::Lines,
            keep_rollouts: None,
            backend: registry::default_options(),
            endpoints: BTreeMap::new(),
            checkpoint_every: None,
            seed: 0,
        }
    }
}

impl PlayOptions for EvaluateConfig {
    fn environment(&self) -> &Value {
        &self.environment
    }

    fn problems(&self) -> Vec<OptionProblem> {
        let mut problems = self.sampling.problems("/sampling");
        problems.extend(self.template.problems("/template"));
        let well_formed =
            |n: &str| !n.is_empty() && n.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
        for (i, name) in self.names.iter().enumerate() {
            if !well_formed(name) {
                problems.push(
                    OptionProblem::new(format!("/names/{i}"), format!("`{name}` cannot be part of a metric name"))
                        .help("use lower-case letters, digits and `_`"),
                );
            }
        }
        for (name, served) in &self.endpoints {
            let place = format!("/endpoints/{}", name.replace('~', "~0").replace('/', "~1"));
            problems.extend(served.problems(&place));
            if !well_formed(name) {
                let problem = OptionProblem::new(place, format!("`{name}` cannot be part of a metric name"));
                problems.push(problem.help("use lower-case letters, digits and `_`"));
            } else if self.names.contains(name) {
                let problem =
                    OptionProblem::new(place, format!("a model of the input `models` is also called `{name}`"));
                problems.push(problem.help("give every model a unique name"));
            }
        }
        if self.names.iter().collect::<BTreeSet<_>>().len() < self.names.len() {
            problems.push(
                OptionProblem::new("/names", "two models have the same name").help("give every model a unique name"),
            );
        }
        if !self.names.is_empty() {
            problems.extend(self.unknown_sampled(&self.model_names(self.names.len())));
        }
        for (i, k) in self.pass_at.iter().enumerate().filter(|(_, k)| !(1..=self.samples).contains(*k)) {
            problems.push(
                OptionProblem::new(
                    format!("/pass_at/{i}"),
                    format!("pass@{k} cannot be estimated from {} samples", self.samples),
                )
                .help("use values from 1 to `samples`, or leave `pass_at` out"),
            );
        }
        if self.samples > 0 && self.sampling.temperature == 0.0 {
            problems.push(
                OptionProblem::new("/sampling/temperature", "greedy samples of one problem are all equal")
                    .help("use a temperature above 0, or `samples: 0`"),
            );
        }
        if self.problems_limit == Some(0) {
            problems.push(
                OptionProblem::new("/problems_limit", "a limit of 0 selects no problems")
                    .help("use at least 1, or null for all"),
            );
        }
        problems
    }

    fn template(&self) -> &TemplateOptions {
        &self.template
    }

    fn sampling(&self) -> Option<(&'static str, SamplingParams)> {
        (self.samples > 0).then(|| ("/sampling", self.sampling.distribution()))
    }

    /// Returns the names of the evaluated models, which `compare` may name.
    fn facts(&self, inputs: &WiredInputs) -> BTreeMap<String, Facts> {
        let names = self.model_names(inputs.get("models").copied().unwrap_or(0));
        BTreeMap::from([("results".to_string(), Facts::from([(MODELS_FACT.to_string(), Value::from(names))]))])
    }

    fn warnings_with(&self, inputs: &WiredInputs) -> Vec<OptionProblem> {
        self.sampling.beyond_context(inputs, "models").into_iter().collect()
    }

    /// Checks the options against the number of models, and the models for the heads that they need.
    fn problems_with(&self, inputs: &WiredInputs) -> Vec<OptionProblem> {
        let heads = shape::without_language_head(inputs, &["models"]);
        let scored = inputs.get("prm").is_some_and(|count| *count > 0) && !self.endpoints.is_empty();
        let unscored = scored.then(|| {
            let message = "a process reward model scores tokens, but episodes of served models have no tokens";
            OptionProblem::new("/endpoints", message).help("evaluate these models in a separate stage without `prm`")
        });
        let heads = heads.into_iter().chain(shape::without_scoring_head(inputs, "prm"));
        heads.chain(self.name_problems(inputs)).chain(unscored).collect()
    }
}

impl EvaluateConfig {
    fn name_problems(&self, inputs: &WiredInputs) -> Vec<OptionProblem> {
        let models = inputs.get("models").copied().unwrap_or(0);
        if models == 0 && self.endpoints.is_empty() {
            return vec![
                OptionProblem::new("/models", "input `models` is not wired")
                    .help("wire it to the models to evaluate, or name served models in `endpoints`"),
            ];
        }
        if self.names.is_empty() {
            return self
                .instance_problems(models)
                .into_iter()
                .chain(self.unknown_sampled(&self.model_names(models)))
                .collect();
        }
        if self.names.len() == models {
            return Vec::new();
        }
        let problem = OptionProblem::new("/names", format!("{models} models, but {} names", self.names.len()));
        vec![problem.help("give one name per model, in their order")]
    }
    /// Reports instances that do not match the models, or that share the name of a served model.
    fn instance_problems(&self, models: usize) -> Vec<OptionProblem> {
        let mut problems = Vec::new();
        if !self.instances.is_empty() && self.instances.len() != models {
            let message = format!("{models} models, but {} instances", self.instances.len());
            problems
                .push(OptionProblem::new("/instances", message).help("leave `instances` out, or give one per model"));
        }
        for instance in self.instances.iter().filter(|instance| self.endpoints.contains_key(&instance.name)) {
            let message = format!("a model of the input `models` is also called `{}`", instance.name);
            problems.push(OptionProblem::new("/endpoints", message).help("give every model a unique name"));
        }
        problems
    }
    /// Reports entries of `sampled` that name no model.
    fn unknown_sampled(&self, names: &[String]) -> Vec<OptionProblem> {
        let unknown = self.sampled.iter().enumerate().filter(|(_, name)| !names.contains(name));
        unknown
            .map(|(i, name)| {
                OptionProblem::new(format!("/sampled/{i}"), format!("no model is called `{name}`"))
                    .help(format!("the names are: {}", names.join(", ")))
            })
            .collect()
    }
    /// Returns the values of k for pass@k, ascending. pass@1 is avg.
    pub fn ks(&self) -> Vec<u32> {
        if self.pass_at.is_empty() {
            return std::iter::successors(Some(2_u32), |k| k.checked_mul(2))
                .take_while(|k| *k <= self.samples)
                .collect();
        }
        self.pass_at.iter().copied().collect::<BTreeSet<_>>().into_iter().collect()
    }
    /// Returns the names of `count` models of the input, then those of the served models.
    pub fn model_names(&self, count: usize) -> Vec<String> {
        let numbered = || (1..=count).map(|i| format!("model_{i}")).collect();
        let mut names: Vec<String> = match (self.names.is_empty(), self.instances.len() == count) {
            (false, _) => self.names.clone(),
            (true, true) => self.instances.iter().map(|instance| instance.name.clone()).collect(),
            (true, false) => numbered(),
        };
        names.extend(self.endpoints.keys().cloned());
        names
    }
    /// Returns whether samples are drawn from the model called `name`, in addition to the greedy episode.
    pub fn is_sampled(&self, name: &str) -> bool {
        self.samples > 0 && (self.sampled.is_empty() || self.sampled.iter().any(|n| n == name))
    }
}
