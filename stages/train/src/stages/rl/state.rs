//! Defines the state of the loop of `rl`: constant during the stage, changing, and stored in resume points.

use super::config::RlConfig;
use super::critic::Critic;
use super::parts::RlParts;
use crate::config::kv_memory;
use crate::model::PolicyModel;
use crate::optimize::ModelTrainer;
use crate::rewards::Rewards;
use crate::rollouts::EpisodeLimits;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::VecDeque;
use std::path::Path;
use trainyard_api::CancelToken;
use trainyard_api::curves::LearningCurves;
use trainyard_core::{Chance, Error, MetricInfo, Result};
use trainyard_envs::tools::difference;
use trainyard_envs::{Environment, ToolSpec};
use trainyard_learn::{PassRates, ProblemPool, Progress as Place};
use trainyard_lm::backend::{Parameters, Sampler, TrainableParameters};
use trainyard_tables::{Problem, Trajectory, read_trajectories, write_trajectories};

const ROLLOUTS: &str = "rollouts.parquet";
const BEST: &str = "best.safetensors";

/// State that is constant during the stage.
pub struct RlRun<'a> {
    pub config: &'a RlConfig,
    pub policy: &'a PolicyModel,
    /// Trained part of the policy.
    pub learns: TrainableParameters,
    pub environment: Box<dyn Environment>,
    pub problems: Vec<Problem>,
    pub validation: Vec<Problem>,
    /// Problems in the form that curricula and strategies use.
    pub pool: ProblemPool,
    pub chance: Chance,
    pub cancel: CancelToken,
    pub threads: usize,
    /// Declared metrics.
    pub declared: Vec<MetricInfo>,
}

impl RlRun<'_> {
    /// Returns the curriculum's random source, which is the same in the whole run: the passes of a curriculum span
    /// steps and draws, and its state contains its position in them.
    pub(super) fn curriculum_chance(&self) -> Chance {
        self.chance.child("curriculum", &[])
    }
    pub(super) fn place(&self, step: u64) -> Place {
        Place { step, steps: self.config.steps }
    }
    pub(super) fn limits(&self) -> EpisodeLimits {
        let rollout = &self.config.rollout;
        EpisodeLimits {
            turn_tokens: rollout.max_turn_tokens,
            episode_tokens: rollout.max_episode_tokens,
            running: rollout.max_running,
            kv_memory: kv_memory(rollout.kv_memory.as_deref()),
            tool_wait: rollout.tool_wait,
        }
    }
}

/// State of a checkpoint, in addition to weights, moments and kept rollouts.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct RlState {
    pub step: u64,
    pub rates: PassRates,
    pub parts: Value,
    pub rewards: Value,
    pub curves: LearningCurves,
    /// Step and greedy pass rate of the best validation so far.
    pub best: Option<(u64, f64)>,
    /// Number of rollouts that an infrastructure failure ended.
    pub failures: u64,
    /// Number of steps whose filters dropped all rollouts.
    pub empty_steps: u64,
    /// Tools of the environment; `None` in resume points from before this field existed.
    #[serde(default)]
    pub tools: Option<Vec<ToolSpec>>,
    /// Number of groups started so far, in asynchronous runs.
    pub started_groups: u32,
}

/// State that changes during the stage.
pub struct RlProgress {
    pub state: RlState,
    pub parts: RlParts,
    pub rewards: Rewards,
    pub trainer: ModelTrainer,
    pub sampler: Box<dyn Sampler>,
    /// Trainer with the weights of the input model, if a term measures the distance from it.
    pub reference: Option<ModelTrainer>,
    pub critic: Option<Critic>,
    /// Weights of the best validation so far.
    pub best: Option<Parameters>,
    /// Newest rows of the output `trajectories`.
    pub rollouts: VecDeque<Trajectory>,
    /// Whether versions of the weights count steps (as in asynchronous runs) instead of optimizer steps.
    pub versions_are_steps: bool,
}

impl RlState {
    /// Rejects tools that differ from those of the previous attempt, because the rollouts would not be comparable.
    /// Errors: invalid.
    pub fn expect_tools(&self, now: &[ToolSpec]) -> Result<()> {
        let change = self.tools.as_deref().and_then(|before| difference(before, now));
        change.map_or(Ok(()), |change| {
            let error = Error::invalid(format!("the tools differ from those of the previous attempt: {change}"));
            Err(error.at("environment").help(
                "start the program or server as before, or discard the resume points by `trainyard runs afresh RUN \
                 STAGE`",
            ))
        })
    }
}

impl RlProgress {
    /// Returns the number of steps done, which is the version of the weights in asynchronous runs.
    pub fn version(&self) -> u32 {
        u32::try_from(self.state.step).unwrap_or(u32::MAX)
    }
    /// Sends the current weights to the sampler.
    pub fn refresh_sampler(&mut self) -> Result<()> {
        let steps = u32::try_from(self.trainer.steps()).unwrap_or(u32::MAX);
        // Samplers of one server share its weights, so all of them must count versions in the same way.
        let version = if self.versions_are_steps { self.version() } else { steps };
        self.sampler.set_weights(&self.trainer.weights()?, version)
    }
    /// Appends rows and keeps the newest `limit`.
    pub fn keep(&mut self, rows: Vec<Trajectory>, limit: usize) {
        self.rollouts.extend(rows);
        while self.rollouts.len() > limit {
            self.rollouts.pop_front();
        }
    }
    /// Writes weights, moments, kept rollouts and the best weights into a folder; [`RlState`] is saved separately.
    pub fn save(&mut self, folder: &Path) -> Result<()> {
        self.trainer.save(folder, "")?;
        if let Some(critic) = &self.critic {
            critic.save(folder)?;
        }
        write_trajectories(&folder.join(ROLLOUTS), self.rollouts.make_contiguous())?;
        self.best.as_ref().map_or(Ok(()), |best| best.save(&folder.join(BEST)))
    }
    /// Restores the state written by [`RlProgress::save`], and the state of parts and rewards in `state`.
    pub fn load(&mut self, state: RlState, folder: &Path) -> Result<()> {
        self.parts.load(&state.parts)?;
        self.rewards.load(&state.rewards)?;
        self.trainer.load(folder, "")?;
        if let Some(critic) = &mut self.critic {
            critic.load(folder)?;
        }
        self.rollouts = read_trajectories(&folder.join(ROLLOUTS))?.into();
        if state.best.is_some() {
            self.best = Some(Parameters::load(&folder.join(BEST))?);
        }
        self.state = state;
        Ok(())
    }
}
