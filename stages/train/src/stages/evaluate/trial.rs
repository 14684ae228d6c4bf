//! Runs a trial of the stage: the last model plays the first problems greedily.

use super::config::EvaluateConfig;
use super::run::Evaluation;
use crate::environment_config::EnvironmentConfig;
use crate::model::PolicyModel;
use crate::native;
use crate::parts::TrainParts;
use crate::rollouts::EpisodeJob;
use trainyard_api::{StageContext, Trial, TrialEpisode};
use trainyard_core::{Chance, Error, Result};
use trainyard_envs::ToolHost;
use trainyard_learn::Rollout;
use trainyard_tables::Problem;

/// Runs the requested episodes. The last model is the pipeline's result; a replacement for this model has no name among
/// the options.
pub(super) fn trial(
    parts: &TrainParts,
    prepared: EnvironmentConfig<EvaluateConfig>,
    (mut problems, chance): (Vec<Problem>, Chance),
    trial: &Trial,
    context: &StageContext,
) -> Result<Vec<TrialEpisode>> {
    let EnvironmentConfig { config, environment, backend } = prepared;
    let models = context.many("models");
    let Some(artifact) = models.last() else {
        return Err(Error::invalid("input `models` is not wired").help("wire it to the models to evaluate"));
    };
    let named = config.names.last().filter(|_| config.names.len() == models.len());
    let name = named.map_or("model", String::as_str);
    problems.truncate(trial.episodes);
    let host = ToolHost::of_stage(context)?;
    let policy = PolicyModel::load(artifact, "models", backend.build(&context.secrets)?)?;
    let mut policy = policy.with_template(&config.template)?;
    let native = native::environment(&parts.envs, &config.environment, &config.template, &mut policy.folder, &host)?;
    let environment = native.map_or_else(|| environment.build(&host), Ok)?;
    let evaluation = Evaluation { config: &config, environment: &*environment, problems: &problems, chance };
    let mut sampler = policy.sampler(context.cpus)?;
    let jobs: Vec<_> = (0..problems.len()).map(|i| EpisodeJob::root(i, 0)).collect();
    let finished = evaluation.greedy(name, &policy, &mut *sampler, &context.cancel).run(&problems, &jobs)?;
    let tried = |one: Rollout| {
        let mut trajectory = one.trajectory;
        trajectory.reward = f64::from(u8::from(one.correct));
        TrialEpisode {
            trajectory,
            problem: problems[one.problem].clone(),
            correct: one.correct,
            components: Vec::new(),
        }
    };
    Ok(finished.into_iter().map(tried).collect())
}
