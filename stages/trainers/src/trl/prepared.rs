//! Reads the options of `engine/trl` with the parts that they name, and checks both.

use super::config::{TrlConfig, TrlMethod};
use crate::columns::RowPort;
use crate::rollouts::{RolloutOptions, RolloutService, RolloutSettings};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use trainyard_api::{PreparedOptions, StageContext};
use trainyard_core::error::Context as _;
use trainyard_core::{Chance, Error, Facts, OptionProblem, Result, WiredInputs};
use trainyard_data::export::ExportForm;
use trainyard_envs::environments::{self, EnvironmentSlot};
use trainyard_envs::rewards::{RewardContext, RewardList};
use trainyard_envs::{EnvironmentParts, ToolHost};
use trainyard_lm::{ModelFolder, shape};
use trainyard_train::config::{default_environment, default_rewards};
use trainyard_train::rewards::Rewards;
use trainyard_train::{native, problems};

/// Options with the parts that episodes need.
pub struct PreparedTrl {
    pub config: TrlConfig,
    pub parts: Option<TrlEpisodeParts>,
}

/// Environment and rewards of episodes.
pub struct TrlEpisodeParts {
    environment: EnvironmentSlot,
    rewards: RewardList,
}

impl PreparedTrl {
    /// Reads the parts, and then all options with their defaults. Only `grpo` has parts.
    pub fn read(
        parts: &EnvironmentParts,
        mut options: Value,
        parse: impl FnOnce(Value) -> Result<TrlConfig>,
    ) -> Result<Self> {
        if options["method"] != TrlMethod::Grpo.name() {
            return Ok(Self { config: parse(options)?, parts: None });
        }
        let environment = environments::read(&parts.environments, &mut options, default_environment);
        if let Some(map) = options.as_object_mut() {
            map.entry("rewards").or_insert_with(default_rewards);
            map.entry("rollout").or_insert_with(|| json!(RolloutOptions::default()));
        }
        let rewards = RewardList::read(&parts.rewards, &mut options["rewards"]);
        Ok(Self { config: parse(options)?, parts: Some(TrlEpisodeParts { environment, rewards }) })
    }
}

impl PreparedOptions for PreparedTrl {
    type Config = TrlConfig;
    fn config(&self) -> &TrlConfig {
        &self.config
    }
    fn problems(&self) -> Vec<OptionProblem> {
        let mut problems = self.config.all_problems();
        if let Some(TrlEpisodeParts { environment, rewards }) = &self.parts {
            problems.extend(native::problems(&self.config.environment, &self.config.template));
            problems.extend(environment.problems());
            problems.extend(rewards.problems().into_iter().map(|problem| problem.with_prefix("/rewards")));
        }
        problems
    }
    fn problems_with(&self, inputs: &WiredInputs) -> Vec<OptionProblem> {
        let mut problems = self.config.problems_with(inputs);
        if self.parts.is_some() {
            problems.extend(problems::environment_mismatches(&self.config.environment, inputs, &["problems"]));
            problems.extend(problems::lost_results(&self.config.environment, inputs, &["model"]));
            problems.extend(shape::without_language_head(inputs, &["model"]));
            problems.extend(shape::native_template_problems(&self.config.template, inputs, &["model"]));
        }
        problems
    }
    fn facts(&self, inputs: &WiredInputs) -> BTreeMap<String, Facts> {
        shape::whole(inputs)
    }
}

impl TrlConfig {
    /// Returns the ports that the method reads.
    pub fn ports(&self) -> &'static [RowPort] {
        match self.method {
            TrlMethod::Sft => &[("trajectories", Some(ExportForm::Sft)), ("tokenized", Some(ExportForm::Tokens))],
            TrlMethod::Dpo => &[("preferences", Some(ExportForm::Preference))],
            TrlMethod::Grpo => &[("problems", None)],
        }
    }
    fn problems_with(&self, inputs: &WiredInputs) -> Vec<OptionProblem> {
        let is_wired = |port: &str| inputs.get(port).is_some_and(|count| *count > 0);
        let ports = self.ports();
        let mut problems = Vec::new();
        if !ports.iter().any(|(port, _)| is_wired(port)) {
            let names: Vec<String> = ports.iter().map(|(port, _)| format!("`{port}`")).collect();
            let message = format!("`{}` has no rows to learn from", self.method.name());
            problems.push(OptionProblem::new("/method", message).help(format!("wire {}", names.join(" or "))));
        }
        let wired = ["trajectories", "tokenized", "preferences", "problems"].into_iter().filter(|port| is_wired(port));
        for port in wired.filter(|port| !ports.iter().any(|(own, _)| own == port)) {
            let problem = OptionProblem::new("/method", format!("`{}` does not read `{port}`", self.method.name()));
            problems.push(problem.help("remove the input, or choose another method"));
        }
        if is_wired("trajectories") && is_wired("tokenized") {
            let problem = OptionProblem::new("/method", "rows as text and rows as tokens cannot be combined");
            problems.push(problem.help("wire `trajectories` or `tokenized`"));
        }
        problems
    }
}

impl TrlEpisodeParts {
    /// Reads the inputs and builds the rollout service. Errors: data and invalid, with the name of the input.
    pub fn open<'c>(
        self,
        parts: &EnvironmentParts,
        config: &'c TrlConfig,
        rollout: &'c RolloutOptions,
        host: &Arc<ToolHost>,
        context: &StageContext,
    ) -> Result<RolloutService<'c>> {
        let mut model = ModelFolder::load(&context.input("model")?.folder).at("input `model`")?;
        model.chat = model.chat.with_template_options(&config.template)?;
        let native = native::environment(parts, &config.environment, &config.template, &mut model, host)?;
        let environment = native.map_or_else(|| self.environment.build(host), Ok)?;
        // The trainer samples with its own weights.
        model.weights.clear();
        let mut all = Vec::new();
        for artifact in context.many("problems") {
            all.extend(problems::read(artifact, "problems")?);
        }
        problems::expect_distinct(&all, "problems")?;
        problems::expect_environment(&config.environment, &all, "problems")?;
        let groups = config.batch_rows / rollout.group_size.max(1);
        if (all.len() as u64) < groups {
            let message = format!("a step has {groups} groups, but there are {} problems", all.len());
            return Err(Error::data(message).help("add problems, or use a smaller `batch_rows` or larger groups"));
        }
        let settings = RolloutSettings {
            model,
            environment,
            problems: all,
            rewards: Rewards::new(&self.rewards, &RewardContext::of_host(host))?,
            rollout,
            chance: Chance::new(config.seed).child("practice", &[]),
            steps: config.steps,
        };
        Ok(RolloutService::new(settings))
    }
}
