//! Scores finished episodes, and holds the state that rewards keep across steps.

use serde_json::Value;
use trainyard_core::Result;
use trainyard_envs::rewards::weighted::{self, RewardTotal, WeightedReward};
use trainyard_envs::rewards::{GroupView, RewardContext, RewardList, ScoringGroup};
use trainyard_tables::{Problem, Trajectory};

/// Weighted sum of rewards, with their state across steps.
pub struct Rewards(Vec<WeightedReward>);

/// Finished episodes of one problem in one step, in order of sample, without infrastructure failures.
pub struct ScoredGroup<'a> {
    /// Problem of the episodes.
    pub problem: &'a Problem,
    /// Episodes whose `rewards`, `reward` and `turn_rewards` are set.
    pub members: Vec<&'a mut Trajectory>,
    /// Whether the environment accepts the answer of each episode.
    pub correct: Vec<bool>,
}

impl Rewards {
    /// Builds and opens the rewards. Errors: invalid, with the position in the list.
    pub fn new(list: &RewardList, context: &RewardContext) -> Result<Self> {
        let mut rewards = list.build()?;
        rewards.iter_mut().try_for_each(|one| one.reward.open(context))?;
        Ok(Self(rewards))
    }
    /// Returns the names of the components, in order, with their weights.
    pub fn weights(&self) -> impl Iterator<Item = (&str, f64)> {
        self.0.iter().map(|reward| (reward.component.as_str(), reward.weight))
    }
    /// Sets the rewards of the groups that one of `steps` steps scores together. Call this function once per group and
    /// step, because rewards with state see the group before they score.
    ///
    /// Errors: retryable, if the service that computes a reward is unavailable; other kinds, if a reward cannot judge
    /// an episode.
    pub fn score_groups(&mut self, groups: &mut [ScoredGroup<'_>], step: u64, steps: u64) -> Result<()> {
        let totals = {
            let seen: Vec<Vec<&Trajectory>> =
                groups.iter().map(|group| group.members.iter().map(|member| &**member).collect()).collect();
            let mut scenes = Vec::with_capacity(groups.len());
            for (ScoredGroup { problem, correct, .. }, members) in groups.iter().zip(&seen) {
                debug_assert_eq!(members.len(), correct.len());
                scenes.push(ScoringGroup { problem, group: GroupView { step, steps, members, correct, earlier: &[] } });
            }
            weighted::score_groups(&mut self.0, &scenes)?
        };
        for (group, totals) in groups.iter_mut().zip(totals) {
            group.members.iter_mut().zip(totals).for_each(|(member, total)| set(member, total));
        }
        Ok(())
    }
    /// Returns the rewards' metrics since the last call, under the names that the list declares.
    pub fn metrics(&mut self) -> Vec<(String, f64)> {
        let named = |one: &mut WeightedReward| {
            let component = one.component.clone();
            let under = move |(name, value)| (weighted::metric_name(&component, name), value);
            one.reward.metrics().into_iter().map(under).collect::<Vec<_>>()
        };
        self.0.iter_mut().flat_map(named).collect()
    }
    /// Returns the rewards' state across steps, by position in the list, or null if all rewards are stateless. Every
    /// checkpoint must include this state.
    pub fn save(&self) -> Value {
        weighted::save(&self.0)
    }
    /// Restores the state returned by [`Rewards::save`]. Errors: data, if the state belongs to other rewards.
    pub fn load(&mut self, state: &Value) -> Result<()> {
        weighted::load(&mut self.0, state.clone())
    }
}

fn set(trajectory: &mut Trajectory, total: RewardTotal) {
    trajectory.rewards = total.components;
    trajectory.reward = total.value;
    trajectory.turn_rewards = total.per_turn;
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn episode(answer: &str, tool_calls: u32) -> Trajectory {
        Trajectory { answer: Some(answer.to_string()), tool_calls, ..Trajectory::default() }
    }

    #[test]
    fn group_members_are_scored_together_and_state_is_resumed() {
        let options = json!([{"kind": "answer"}, {"kind": "tool_efficiency"}]);
        let list = RewardList::read(&trainyard_envs::rewards::family(), &mut options.clone());
        let fresh = || Rewards::new(&list, &RewardContext::detached()).unwrap();
        let (mut rewards, mut resumed) = (fresh(), fresh());
        let problem = Problem { id: "p".into(), answer: "7".into(), ..Problem::default() };
        let mut rows = [episode("7", 2), episode("7", 1), episode("8", 0)];
        let score = |rewards: &mut Rewards, rows: &mut [Trajectory], correct: &[bool], step| {
            let members = rows.iter_mut().collect();
            let group = ScoredGroup { problem: &problem, members, correct: correct.to_vec() };
            rewards.score_groups(&mut [group], step, 10).unwrap();
        };
        score(&mut rewards, &mut rows, &[true, true, false], 0);
        let expected = 0.75_f64.sqrt();
        assert!(
            (rows[0].rewards["tool_efficiency"] - expected).abs() < 1e-12
                && (rows[0].reward - 1.0 - expected).abs() < 1e-12
        );
        assert_eq!((rows[1].reward, rows[2].reward), (2.0, 0.0));
        resumed.load(&rewards.save()).unwrap();
        for rewards in [&mut rewards, &mut resumed] {
            let mut later = [episode("7", 2)];
            score(rewards, &mut later, &[true], 1);
            assert!(
                (later[0].rewards["tool_efficiency"] - expected).abs() < 1e-12,
                "the best of an earlier step is the measure"
            );
        }
    }
}
