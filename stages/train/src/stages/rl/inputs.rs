//! Opens the inputs of the stage before its first step: the policy, its environment, problems and demonstrations.

use super::config::RlConfig;
use super::run::RlData;
use crate::model::PolicyModel;
use crate::parts::TrainParts;
use crate::{native, problems};
use std::sync::Arc;
use trainyard_api::StageContext;
use trainyard_core::{Error, Result};
use trainyard_envs::ToolHost;
use trainyard_envs::environments::EnvironmentSlot;
use trainyard_lm::backend::TrainableParameters;
use trainyard_lm::backend::registry::BackendSlot;
use trainyard_tables::read_trajectories;

/// Options that define the inputs.
pub(super) struct RlInputOptions<'a> {
    pub config: &'a RlConfig,
    pub environment: EnvironmentSlot,
    pub backend: BackendSlot,
    /// Backend of the rollouts, if it differs from that of training.
    pub sampling_backend: Option<BackendSlot>,
    /// Whether a part requires demonstrations.
    pub needs_demonstrations: bool,
}

/// Opened inputs of a stage.
pub(super) struct RlInputs {
    pub policy: PolicyModel,
    pub learns: TrainableParameters,
    pub episodes: RlData,
    /// Host of the tools of all episodes.
    pub host: Arc<ToolHost>,
}

/// Reads the inputs and builds the environment. Errors: data and invalid, naming the input.
pub(super) fn open(parts: &TrainParts, opening: RlInputOptions<'_>, context: &StageContext) -> Result<RlInputs> {
    let RlInputOptions { config, environment, backend, sampling_backend: elsewhere, needs_demonstrations } = opening;
    let host = ToolHost::of_stage(context)?;
    let policy = PolicyModel::load(context.input("model")?, "model", backend.build(&context.secrets)?)?;
    let policy = policy.with_sampling_backend(elsewhere.map(|slot| slot.build(&context.secrets)).transpose()?);
    let mut policy = policy.with_template(&config.template)?;
    let native = native::environment(&parts.envs, &config.environment, &config.template, &mut policy.folder, &host)?;
    let environment = native.map_or_else(|| environment.build(&host), Ok)?;
    native::expect_tools(&policy.folder, &*environment)?;
    let (policy, learns) = policy.trained(config.adapter.as_ref(), config.seed)?;
    let problems = problems::read(context.input("problems")?, "problems")?;
    if problems.is_empty() {
        return Err(Error::data("input `problems` has no rows").help("wire at least one problem"));
    }
    let validation =
        context.optional("validation").map(|a| problems::read(a, "validation")).transpose()?.unwrap_or_default();
    problems::expect_environment(&config.environment, &problems, "problems")?;
    problems::expect_environment(&config.environment, &validation, "validation")?;
    let demonstrations =
        context.optional("demonstrations").map(|a| read_trajectories(&a.parquet())).transpose()?.unwrap_or_default();
    if demonstrations.is_empty() && needs_demonstrations {
        return Err(Error::invalid("a part needs demonstrations, but the input `demonstrations` has no rows")
            .help("connect `demonstrations` to the trajectories that solve these problems"));
    }
    let episodes = RlData { environment, problems, validation, demonstrations };
    Ok(RlInputs { policy, learns, episodes, host })
}
