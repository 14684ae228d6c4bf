//! Implements the reward `length`: the soft overlong punishment of DAPO (arXiv 2503.14476, equation 13).
//!
//! The penalty grows before the limit, so that the policy learns to stop before it. Only sampled tokens count.

use crate::rewards::{GroupView, Reward, Score};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_api::PartOptions;
use trainyard_core::{OptionProblem, Result};
use trainyard_tables::{Problem, StopReason, Trajectory};

/// Options of the reward `length`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LengthOptions {
    /// L: limit in sampled tokens over the whole episode.
    #[schemars(range(min = 1))]
    pub max_tokens: u32,
    /// b: number of tokens before L over which the penalty grows.
    #[schemars(range(min = 1))]
    pub buffer_tokens: u32,
}

impl Default for LengthOptions {
    fn default() -> Self {
        Self { max_tokens: 256, buffer_tokens: 64 }
    }
}

impl PartOptions for LengthOptions {
    const KIND: &'static str = "length";
    const SUMMARY: &'static str = "a penalty that grows near the length limit";
    const DOC: &'static str = "With n = sampled tokens, L = `max_tokens`, b = `buffer_tokens`:\n\
        value = 0 if n ≤ L − b; (L − b − n)/b if L − b < n ≤ L; −1 if n > L or the episode was cut\n\
        (`stop_reason` is `length`).\n\n\
        In [−1, 0]. Source: 2503.14476, equation 13.";
    fn check(&self) -> Vec<OptionProblem> {
        let crossed =
            OptionProblem::reversed_bounds(("/buffer_tokens", self.buffer_tokens), ("/max_tokens", self.max_tokens));
        let problems = [
            OptionProblem::out_of_range("/max_tokens", self.max_tokens, 1..),
            OptionProblem::out_of_range("/buffer_tokens", self.buffer_tokens, 1..),
            crossed.map(|p| p.help("the penalty grows over the last `buffer_tokens` before `max_tokens`")),
        ];
        problems.into_iter().flatten().collect()
    }
}

pub struct LengthReward(pub LengthOptions);

impl Reward for LengthReward {
    fn score(&self, r: &Trajectory, _p: &Problem, _g: &GroupView<'_>) -> Result<Score> {
        let sampled = r.loss_mask.iter().filter(|is_sampled| **is_sampled).count() as f64;
        let (limit, buffer) = (f64::from(self.0.max_tokens), f64::from(self.0.buffer_tokens));
        let value = if sampled > limit || r.stop_reason == StopReason::Length {
            -1.0
        } else {
            ((limit - buffer - sampled) / buffer).min(0.0)
        };
        Ok(Score::of(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rewards::reward::score_alone;

    #[test]
    fn penalty_grows_over_the_buffer() {
        let reward = LengthReward(LengthOptions { max_tokens: 10, buffer_tokens: 4 });
        let value = |sampled: usize, stop_reason| {
            let mut loss_mask = vec![false; 5];
            loss_mask.extend(vec![true; sampled]);
            score_alone(&reward, &Trajectory { loss_mask, stop_reason, ..Trajectory::default() }, &Problem::default())
                .value
        };
        for (sampled, expected) in [(0, 0.0), (6, 0.0), (7, -0.25), (8, -0.5), (10, -1.0), (11, -1.0)] {
            assert_eq!(value(sampled, StopReason::Answer), Some(expected), "{sampled}");
        }
        assert_eq!(value(3, StopReason::Length), Some(-1.0));
    }

    #[test]
    fn buffer_longer_than_the_limit_is_rejected() {
        assert_eq!(LengthOptions { max_tokens: 4, buffer_tokens: 5 }.check().len(), 1);
        assert_eq!(LengthOptions { max_tokens: 0, buffer_tokens: 0 }.check().len(), 2);
    }
}
