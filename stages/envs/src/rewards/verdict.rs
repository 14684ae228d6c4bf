//! Implements the reward `verdict`, which the episode itself reports.

use crate::rewards::{GroupView, Reward, Score};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_api::PartOptions;
use trainyard_core::Result;
use trainyard_tables::{Problem, Trajectory};

/// Name of the component that stores the reward that an episode reported, until the rewards are computed.
pub const VERDICT: &str = "verdict";

/// Options of the reward `verdict`: none.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct VerdictOptions {}

impl PartOptions for VerdictOptions {
    const KIND: &'static str = VERDICT;
    const SUMMARY: &'static str = "the reward that the agent's program printed";
    const DOC: &'static str = "\
        value = the `reward` in the last line that a program of the environment `harness` printed as\n\
        JSON (`{\"reward\": 0.5}`). Does not apply to episodes without such a line, or in other environments.";
}

pub struct VerdictReward(pub VerdictOptions);

impl Reward for VerdictReward {
    fn score(&self, r: &Trajectory, _: &Problem, _: &GroupView<'_>) -> Result<Score> {
        Ok(r.rewards.get(VERDICT).map_or_else(Score::not_applicable, |reward| Score::of(*reward)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rewards::reward::score_alone;

    #[test]
    fn reward_does_not_apply_without_a_reported_value() {
        let reward = VerdictReward(VerdictOptions {});
        let reported = Trajectory { rewards: [(VERDICT.to_string(), 0.25)].into(), ..Trajectory::default() };
        assert_eq!(score_alone(&reward, &reported, &Problem::default()).value, Some(0.25));
        assert_eq!(score_alone(&reward, &Trajectory::default(), &Problem::default()).value, None);
    }
}
