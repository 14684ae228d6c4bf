//! What the loop of `rl` holds: what stays the same during the stage, what changes, and what goes into a resume point.

use super::config::Config;
use super::critic::Critic;
use super::parts::Parts;
use crate::config::kv_memory;
use crate::model::Policy;
use crate::optimize::Trainer;
use crate::rewards::Rewards;
use crate::rollouts::Limits;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::VecDeque;
use std::path::Path;
use trainyard_api::CancelToken;
use trainyard_api::curves::Curves;
use trainyard_core::{Chance, Error, Metric, Result};
use trainyard_envs::tools::difference;
use trainyard_envs::{Environment, ToolSpec};
use trainyard_learn::{PassRates, Pool, Progress as Place};
use trainyard_lm::backend::{Learns, Parameters, Sampler};
use trainyard_tables::{Problem, Trajectory, read_trajectories, write_trajectories};

const ROLLOUTS: &str = "rollouts.parquet";
const BEST: &str = "best.safetensors";

/// What stays the same during the stage.
pub struct Run<'a> {
    pub config: &'a Config,
    pub policy: &'a Policy,
    /// What of the policy learns.
    pub learns: Learns,
    pub environment: Box<dyn Environment>,
    pub problems: Vec<Problem>,
    pub validation: Vec<Problem>,
    /// The problems as curricula and strategies see them.
    pub pool: Pool,
    pub chance: Chance,
    pub cancel: CancelToken,
    pub threads: usize,
    /// What the stage reports.
    pub declared: Vec<Metric>,
}

impl Run<'_> {
    /// One source for the whole run: a curriculum's passes go on over steps and draws, and its state says where it is
    /// in them.
    pub(super) fn curriculum_chance(&self) -> Chance {
        self.chance.child("curriculum", &[])
    }
    pub(super) fn place(&self, step: u64) -> Place {
        Place { step, steps: self.config.steps }
    }
    pub(super) fn limits(&self) -> Limits {
        let rollout = &self.config.rollout;
        Limits {
            turn_tokens: rollout.max_turn_tokens,
            episode_tokens: rollout.max_episode_tokens,
            running: rollout.max_running,
            kv_memory: kv_memory(rollout.kv_memory.as_deref()),
            tool_wait: rollout.tool_wait,
        }
    }
}

/// What a checkpoint holds besides weights, moments and kept rollouts.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct State {
    /// Steps done.
    pub step: u64,
    pub rates: PassRates,
    pub parts: Value,
    /// State of the rewards.
    pub rewards: Value,
    pub curves: Curves,
    /// Step and greedy pass rate of the best validation so far.
    pub best: Option<(u64, f64)>,
    /// Rollouts that the infrastructure ended.
    pub failures: u64,
    /// Steps whose filters left nothing to learn from.
    pub empty_steps: u64,
    /// What the environment offered; none in resume points from before this was kept.
    #[serde(default)]
    pub tools: Option<Vec<ToolSpec>>,
    /// Asynchronous rollouts: groups started so far.
    pub started_groups: u32,
}

/// What changes during the stage.
pub struct Progress {
    pub state: State,
    pub parts: Parts,
    pub rewards: Rewards,
    pub trainer: Trainer,
    pub sampler: Box<dyn Sampler>,
    /// The input model, where a term measures the distance from it.
    pub reference: Option<Trainer>,
    pub critic: Option<Critic>,
    /// Weights of the best validation so far.
    pub best: Option<Parameters>,
    /// The newest rows of the output `trajectories`.
    pub rollouts: VecDeque<Trajectory>,
    /// Versions of the weights count steps, as asynchronous rollouts do, and not the optimizer's.
    pub versions_are_steps: bool,
}

impl State {
    /// Refuses to go on with other tools than the attempt before had: its rollouts would not be comparable.
    pub fn expect_tools(&self, now: &[ToolSpec]) -> Result<()> {
        let what = self.tools.as_deref().and_then(|before| difference(before, now));
        what.map_or(Ok(()), |what| {
            let error = Error::invalid(format!("the tools are not those of the attempt before: {what}"));
            Err(error
                .at("environment")
                .help("start the program or server as it was, or give the resume points up: `runs afresh RUN STAGE`"))
        })
    }
}

impl Progress {
    /// Steps done, as the version of the weights.
    pub fn version(&self) -> u32 {
        u32::try_from(self.state.step).unwrap_or(u32::MAX)
    }
    /// Gives the sampler the current weights.
    pub fn refresh_sampler(&mut self) -> Result<()> {
        let steps = u32::try_from(self.trainer.steps()).unwrap_or(u32::MAX);
        // Samplers of one server share its weights, so they must count alike.
        let version = if self.versions_are_steps { self.version() } else { steps };
        self.sampler.set_weights(&self.trainer.weights()?, version)
    }
    /// Keeps at most the newest `most` rows.
    pub fn keep(&mut self, rows: Vec<Trajectory>, most: usize) {
        self.rollouts.extend(rows);
        while self.rollouts.len() > most {
            self.rollouts.pop_front();
        }
    }
    /// Writes everything but [`State`] into a folder.
    pub fn save(&mut self, folder: &Path) -> Result<()> {
        self.trainer.save(folder, "")?;
        if let Some(critic) = &self.critic {
            critic.save(folder)?;
        }
        write_trajectories(&folder.join(ROLLOUTS), self.rollouts.make_contiguous())?;
        self.best.as_ref().map_or(Ok(()), |best| best.save(&folder.join(BEST)))
    }
    /// Goes on from what [`Progress::save`] wrote.
    pub fn load(&mut self, state: State, folder: &Path) -> Result<()> {
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
