//! Implements the reward `tool_success`: the share of tool calls that did not fail.

use crate::rewards::{GroupView, Reward, Score};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_api::PartOptions;
use trainyard_core::Result;
use trainyard_tables::{Problem, Trajectory};

/// The reward `tool_success` has no options.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ToolSuccessOptions {}

impl PartOptions for ToolSuccessOptions {
    const KIND: &'static str = "tool_success";
    const SUMMARY: &'static str = "share of tool calls without an error";
    const DOC: &'static str = "value = 1 − errors / calls, in [0, 1]. Unreadable calls count as failed. Does not\n\
        apply to episodes without a call.";
}

pub struct ToolSuccessReward(pub ToolSuccessOptions);

impl Reward for ToolSuccessReward {
    fn score(&self, r: &Trajectory, _p: &Problem, _g: &GroupView<'_>) -> Result<Score> {
        if r.tool_calls == 0 {
            return Ok(Score::not_applicable());
        }
        Ok(Score::of(1.0 - f64::from(r.tool_errors) / f64::from(r.tool_calls)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rewards::reward::score_alone;

    #[test]
    fn value_is_the_share_of_successful_calls() {
        let value = |tool_calls, tool_errors| {
            let r = Trajectory { tool_calls, tool_errors, ..Trajectory::default() };
            score_alone(&ToolSuccessReward(ToolSuccessOptions {}), &r, &Problem::default()).value
        };
        assert_eq!(value(4, 1), Some(0.75));
        assert_eq!(value(2, 2), Some(0.0));
        assert_eq!(value(0, 0), None);
    }
}
