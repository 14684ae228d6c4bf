//! Environments and rewards as stages configure them, through the registries of `trainyard-envs`.
//!
//! Why so: four stages pose problems, and their options must mean the same; the tool host is shared by all episodes of a stage.
//! Refuses: nothing of its own; unknown kinds and options are answered by the registries with the valid names.

use serde_json::{Value, json};
use std::sync::Arc;
use trainyard_core::{Error, OptionProblem, Result};
pub use trainyard_envs::environments::word_problems::default_options as default_environment;
use trainyard_envs::rewards::registry::{self as rewards, Total, WeightedReward};
use trainyard_envs::rewards::{GroupView, verified};
use trainyard_envs::{Environment, ToolHost, environments};
use trainyard_tables::{Problem, Trajectory};

/// The final answer alone.
pub fn default_rewards() -> Value {
    json!([{ "kind": "answer" }])
}

/// Builds environments that share one tool host.
pub struct World {
    host: Arc<ToolHost>,
}

impl World {
    /// `workers` = tool processes at most.
    pub fn new(workers: usize) -> Self {
        Self { host: ToolHost::new(workers) }
    }
    pub fn environment(&self, options: &Value) -> Result<Box<dyn Environment>> {
        environments::build(options, &self.host)
    }
    pub fn rewards(&self, options: &Value) -> Result<Rewards> {
        let list = options.as_array().ok_or_else(|| Error::invalid("`rewards` must be a list"))?;
        Ok(Rewards(rewards::build(list)?))
    }

    /// Fills the defaults of `environment` and `rewards` in a config; absent keys get the default world. What is wrong stays as it is,
    /// for [`World::check`].
    pub fn complete(config: Value) -> Value {
        let mut config = Self::complete_environment(config);
        if let Some(options) = config.as_object_mut() {
            let list = options.entry("rewards").or_insert_with(default_rewards);
            for reward in list.as_array_mut().into_iter().flatten() {
                if let Ok(full) = rewards::complete(reward) {
                    *reward = full;
                }
            }
        }
        config
    }
    /// Fills the defaults of `environment` alone.
    pub fn complete_environment(mut config: Value) -> Value {
        if let Some(options) = config.as_object_mut() {
            let environment = options.entry("environment").or_insert_with(default_environment);
            if let Ok(full) = environments::complete(environment) {
                *environment = full;
            }
        }
        config
    }
    /// Everything wrong with an environment and a list of rewards, with pointers into the config.
    pub fn check(environment: &Value, rewards_list: Option<&Value>) -> Vec<OptionProblem> {
        let mut problems: Vec<OptionProblem> =
            environments::check(environment).into_iter().map(|p| p.within("/environment")).collect();
        let Some(list) = rewards_list else { return problems };
        if !list.is_array() {
            problems.push(
                OptionProblem::new("/rewards", "the rewards must be a list").help("write for example [{kind: answer}]"),
            );
        }
        if list.as_array().is_some_and(Vec::is_empty) {
            problems.push(
                OptionProblem::new(
                    "/rewards",
                    "without a reward all episodes are worth the same, and nothing is learned",
                )
                .help("write for example [{kind: answer}]"),
            );
        }
        for (i, reward) in list.as_array().into_iter().flatten().enumerate() {
            let place = format!("/rewards/{i}");
            problems.extend(rewards::check(reward).into_iter().map(|p| p.within(&place)));
        }
        problems
    }
}

/// A weighted sum of rewards, with what they keep across steps.
pub struct Rewards(Vec<WeightedReward>);

impl Rewards {
    /// Sets `rewards`, `reward` and `turn_rewards` of one finished episode outside of RL: the problem's verifier judges its answer,
    /// there are no others beside it, and nothing is kept.
    pub fn score(&self, trajectory: &mut Trajectory, problem: &Problem) {
        let right = verified(trajectory, problem);
        let total = {
            let seen: &Trajectory = trajectory;
            rewards::score(&self.0, seen, problem, &GroupView::alone(&[seen], &[right]))
        };
        set(trajectory, total);
    }
    /// Sets the same of all finished episodes of one problem in one step of `steps`, in order of sample, infrastructure failures
    /// left out. `correct` holds the environment's word on each answer. Call it once per group and step: rewards with state see
    /// the group before they score.
    pub fn score_group(
        &mut self,
        members: &mut [&mut Trajectory],
        correct: &[bool],
        problem: &Problem,
        step: u64,
        steps: u64,
    ) {
        debug_assert_eq!(members.len(), correct.len());
        let totals = {
            let seen: Vec<&Trajectory> = members.iter().map(|member| &**member).collect();
            rewards::score_group(&mut self.0, problem, &GroupView { step, steps, members: &seen, correct })
        };
        for (member, total) in members.iter_mut().zip(totals) {
            set(member, total);
        }
    }
    /// What the rewards keep across steps, by their place in the list; null if none keeps anything. Belongs into every checkpoint.
    pub fn save(&self) -> Value {
        rewards::save(&self.0)
    }
    /// Takes back what [`Rewards::save`] gave. Errors: data, when the state is that of other rewards.
    pub fn load(&mut self, state: &Value) -> Result<()> {
        rewards::load(&mut self.0, state.clone())
    }
}

fn set(trajectory: &mut Trajectory, total: Total) {
    trajectory.rewards = total.components;
    trajectory.reward = total.value;
    trajectory.turn_rewards = total.per_turn;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn episode(answer: &str, tool_calls: u32) -> Trajectory {
        Trajectory { answer: Some(answer.to_string()), tool_calls, ..Trajectory::default() }
    }

    #[test]
    fn members_are_scored_beside_each_other_and_state_is_resumed() {
        let options = json!([{"kind": "answer"}, {"kind": "tool_efficiency"}]);
        let world = World::new(1);
        let (mut rewards, mut resumed) = (world.rewards(&options).unwrap(), world.rewards(&options).unwrap());
        let problem = Problem { id: "p".into(), answer: "7".into(), ..Problem::default() };
        let mut rows = [episode("7", 2), episode("7", 1), episode("8", 0)];
        rewards.score_group(&mut rows.iter_mut().collect::<Vec<_>>(), &[true, true, false], &problem, 0, 10);
        let expected = 0.75_f64.sqrt();
        assert!(
            (rows[0].rewards["tool_efficiency"] - expected).abs() < 1e-12
                && (rows[0].reward - 1.0 - expected).abs() < 1e-12
        );
        assert_eq!((rows[1].reward, rows[2].reward), (2.0, 0.0));
        resumed.load(&rewards.save()).unwrap();
        for rewards in [&mut rewards, &mut resumed] {
            let mut later = episode("7", 2);
            rewards.score_group(&mut [&mut later], &[true], &problem, 1, 10);
            assert!(
                (later.rewards["tool_efficiency"] - expected).abs() < 1e-12,
                "the best of an earlier step is the measure"
            );
        }
        let mut alone = episode("7", 2);
        world.rewards(&options).unwrap().score(&mut alone, &problem);
        assert_eq!(alone.reward, 2.0);
    }
}
