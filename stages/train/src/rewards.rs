//! Scoring finished episodes, with what rewards keep across steps.

use serde_json::Value;
use trainyard_core::Result;
use trainyard_envs::rewards::weighted::{self, Total, WeightedReward};
use trainyard_envs::rewards::{GroupView, RewardList, verified};
use trainyard_tables::{Problem, Trajectory};

/// A weighted sum of rewards, with what they keep across steps.
pub struct Rewards(Vec<WeightedReward>);

impl Rewards {
    /// Fresh ones. Errors: invalid, with the place in the list.
    pub fn new(list: &RewardList) -> Result<Self> {
        list.build().map(Self)
    }
    /// Sets `rewards`, `reward` and `turn_rewards` of one finished episode outside of RL: the problem's verifier judges
    /// its answer, there are no others beside it, and nothing is kept.
    pub fn score(&self, trajectory: &mut Trajectory, problem: &Problem) {
        let right = verified(trajectory, problem);
        let total = {
            let seen: &Trajectory = trajectory;
            weighted::score(&self.0, seen, problem, &GroupView::alone(&[seen], &[right]))
        };
        set(trajectory, total);
    }
    /// Sets the same of all finished episodes of one problem in one step of `steps`, in order of sample, infrastructure
    /// failures left out. `correct` holds the environment's word on each answer. Call it once per group and step:
    /// rewards with state see the group before they score.
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
            weighted::score_group(&mut self.0, problem, &GroupView { step, steps, members: &seen, correct })
        };
        for (member, total) in members.iter_mut().zip(totals) {
            set(member, total);
        }
    }
    /// What the rewards keep across steps, by their place in the list; null if none keeps anything. Belongs into every
    /// checkpoint.
    pub fn save(&self) -> Value {
        weighted::save(&self.0)
    }
    /// Takes back what [`Rewards::save`] gave. Errors: data, when the state is that of other rewards.
    pub fn load(&mut self, state: &Value) -> Result<()> {
        weighted::load(&mut self.0, state.clone())
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
    use serde_json::json;

    fn episode(answer: &str, tool_calls: u32) -> Trajectory {
        Trajectory { answer: Some(answer.to_string()), tool_calls, ..Trajectory::default() }
    }

    #[test]
    fn members_are_scored_beside_each_other_and_state_is_resumed() {
        let options = json!([{"kind": "answer"}, {"kind": "tool_efficiency"}]);
        let list = RewardList::read(&trainyard_envs::rewards::family(), &mut options.clone());
        let fresh = || Rewards::new(&list).unwrap();
        let (mut rewards, mut resumed) = (fresh(), fresh());
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
        fresh().score(&mut alone, &problem);
        assert_eq!(alone.reward, 2.0);
    }
}
