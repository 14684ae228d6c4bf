//! Implements the reward `tool_turns`, which pays for calling tools at all and fades out over the run, as in the
//! released code of SPEAR (arXiv 2509.22601).
//!
//! It rewards exploration early and leaves the later steps to the other rewards.

use crate::calls::executed;
use crate::rewards::reward::agent_turns;
use crate::rewards::{GroupView, Reward, Score};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::f64::consts::PI;
use trainyard_api::PartOptions;
use trainyard_core::{OptionProblem, Result};
use trainyard_tables::{Problem, Trajectory};

/// Options of the reward `tool_turns`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ToolTurnsOptions {
    /// Value of each turn that calls a tool.
    #[schemars(range(min = 0))]
    pub per_turn: f64,
    /// Maximum for one episode.
    #[schemars(range(min = 0))]
    pub cap: f64,
    /// T: step from which the value is 0.
    #[schemars(range(min = 1))]
    pub decay_steps: u64,
}

impl Default for ToolTurnsOptions {
    fn default() -> Self {
        Self { per_turn: 0.1, cap: 1.0, decay_steps: 200 }
    }
}

impl PartOptions for ToolTurnsOptions {
    const KIND: &'static str = "tool_turns";
    const SUMMARY: &'static str = "turns that call a tool, fading out over the run";
    const DOC: &'static str = "With k = agent turns that called a tool, t = step of the run, T = `decay_steps`:\n\
        value = min(cap, per_turn·k)·(1 + cos(π·min(t, T)/T))/2.\n\n\
        A turn counts if at least one of its calls got a result from its tool. In [0, cap]. Outside of RL t is 0.\n\
        Source: released code of 2509.22601.";
    fn check(&self) -> Vec<OptionProblem> {
        let problems = [
            OptionProblem::out_of_range("/per_turn", self.per_turn, 0.0..),
            OptionProblem::out_of_range("/cap", self.cap, 0.0..),
            OptionProblem::out_of_range("/decay_steps", self.decay_steps, 1..),
        ];
        problems.into_iter().flatten().collect()
    }
}

pub struct ToolTurnsReward(pub ToolTurnsOptions);

impl ToolTurnsReward {
    /// Returns the remaining share: half a cosine wave from 1 at step 0 to 0 at step T.
    fn remaining_share(&self, step: u64) -> f64 {
        if step >= self.0.decay_steps {
            return 0.0;
        }
        (1.0 + (PI * step as f64 / self.0.decay_steps as f64).cos()) / 2.0
    }
}

impl Reward for ToolTurnsReward {
    fn score(&self, r: &Trajectory, p: &Problem, g: &GroupView<'_>) -> Result<Score> {
        let turns = agent_turns(r, p).into_iter().filter(|(at, _)| !executed(&r.messages, *at).is_empty()).count();
        Ok(Score::of((self.0.per_turn * turns as f64).min(self.0.cap) * self.remaining_share(g.step)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rewards::kit::{answer, called, episode};
    use trainyard_tables::Message;

    /// Returns an episode of `turns` turns with two calls each, then an answer.
    fn calling(turns: usize) -> Trajectory {
        let mut all: Vec<Vec<Message>> = vec![called(&["python", "python"]); turns];
        all.push(answer("7"));
        episode(&all)
    }

    fn value(options: ToolTurnsOptions, r: &Trajectory, step: u64) -> f64 {
        let g = GroupView { step, steps: 1000, members: &[r], correct: &[false], earlier: &[] };
        ToolTurnsReward(options).score(r, &Problem::default(), &g).unwrap().value.unwrap()
    }

    #[test]
    fn value_is_capped() {
        for (turns, expected) in [(0, 0.0), (1, 0.1), (3, 0.3), (10, 1.0), (12, 1.0)] {
            assert!((value(ToolTurnsOptions::default(), &calling(turns), 0) - expected).abs() < 1e-12, "{turns}");
        }
        let low = ToolTurnsOptions { cap: 0.15, ..ToolTurnsOptions::default() };
        assert!((value(low, &calling(2), 0) - 0.15).abs() < 1e-12);
    }

    #[test]
    fn value_fades_as_half_a_cosine() {
        let at = |step| value(ToolTurnsOptions::default(), &calling(10), step);
        // (1 + cos 0)/2, (1 + cos π/2)/2, (1 + cos π)/2; 0 after T.
        for (step, expected) in [(0, 1.0), (100, 0.5), (200, 0.0), (201, 0.0), (100_000, 0.0)] {
            assert!((at(step) - expected).abs() < 1e-12, "{step}");
        }
        let short =
            |step| value(ToolTurnsOptions { decay_steps: 3, ..ToolTurnsOptions::default() }, &calling(10), step);
        assert!((short(1) - 0.75).abs() < 1e-12 && (short(2) - 0.25).abs() < 1e-12);
        for step in 0..200 {
            assert!(at(step) > at(step + 1));
            assert!((at(step) + at(200 - step) - 1.0).abs() < 1e-12, "the two halves are symmetric");
        }
    }

    #[test]
    fn calls_without_a_result_do_not_count() {
        let mut cut = calling(2);
        cut.messages.truncate(4);
        assert!((value(ToolTurnsOptions::default(), &cut, 0) - 0.1).abs() < 1e-12, "the second call did not run");
    }

    #[test]
    fn options_out_of_range_are_rejected() {
        assert_eq!(ToolTurnsOptions::default().check(), []);
        let bad = ToolTurnsOptions { per_turn: -0.1, cap: f64::NAN, decay_steps: 0 };
        assert_eq!(
            bad.check().iter().map(|p| p.pointer.as_str()).collect::<Vec<_>>(),
            ["/per_turn", "/cap", "/decay_steps"]
        );
    }
}
