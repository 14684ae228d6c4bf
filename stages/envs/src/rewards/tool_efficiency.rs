//! Implements the reward `tool_efficiency`: correct answers with few tool calls, from OTC-PO (arXiv 2504.14870).
//!
//! The number of calls that a problem needs is unknown, so the fewest calls of any correct answer so far are the
//! standard. The reward already contains the answer's correctness and replaces the reward `answer`.

use crate::rewards::{GroupView, Reward, Score};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::f64::consts::PI;
use trainyard_api::PartOptions;
use trainyard_core::{Error, OptionProblem, Result, above};
use trainyard_tables::{Problem, Trajectory};

/// How the number of calls is weighed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum EfficiencyMode {
    /// Fewer is always better (OTC-PPO).
    Smooth,
    /// Best is the number of calls of the best right episode of the problem (OTC-GRPO).
    Optimal,
}

/// Options of the reward `tool_efficiency`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ToolEfficiencyOptions {
    /// How the number of calls is weighed.
    pub form: EfficiencyMode,
    /// α: value of a right answer with the best number of calls. Above 0.
    #[schemars(range(min = 0))]
    pub alpha: f64,
    /// c: a larger value makes the reward fall more slowly with the calls when none is needed. Above 0.
    #[schemars(range(min = 0))]
    pub smoothing: f64,
}

impl Default for ToolEfficiencyOptions {
    fn default() -> Self {
        Self { form: EfficiencyMode::Optimal, alpha: 1.0, smoothing: 1.0 }
    }
}

impl PartOptions for ToolEfficiencyOptions {
    const KIND: &'static str = "tool_efficiency";
    const SUMMARY: &'static str = "right answers, worth less the more tool calls they took";
    const DOC: &'static str = "value = alpha·r_tool·r_correct, with r_correct = 1 for a right answer and 0\n\
        otherwise. With m = tool calls of the episode and c = `smoothing`:\n\
        form `smooth` (OTC-PPO): r_tool = cos(m·π/(2m + c));\n\
        form `optimal` (OTC-GRPO): r_tool = 1 if m = n = 0; cos(m·π/(2m + c)) if n = 0; else sin(f·π/(2n)) with\n\
        f = 2nm/(m + n).\n\n\
        n = fewest calls of any right episode of the problem in this step or an earlier one; it is this reward's\n\
        state. `optimal` is alpha exactly at m = n and falls with more calls, so necessary calls cost nothing.\n\
        Unreadable calls count. In [0, alpha]. Use it instead of the reward `answer`. Outside of RL a right episode\n\
        sets its own n. Source: 2504.14870.";
    fn check(&self) -> Vec<OptionProblem> {
        let named = [("/alpha", self.alpha), ("/smoothing", self.smoothing)];
        named.into_iter().filter_map(|(at, value)| OptionProblem::out_of_range(at, value, above(0.0))).collect()
    }
}

/// The reward `tool_efficiency` and its state.
pub struct ToolEfficiencyReward {
    options: ToolEfficiencyOptions,
    /// Fewest calls of a correct episode so far, by problem id.
    fewest: BTreeMap<String, u32>,
}

impl ToolEfficiencyReward {
    /// Returns the reward in its initial state.
    pub fn new(options: ToolEfficiencyOptions) -> Self {
        Self { options, fewest: BTreeMap::new() }
    }
    /// Returns r_tool of a correct episode with `m` calls, where `n` are the fewest.
    fn share(&self, m: u32, n: u32) -> f64 {
        match self.options.form {
            EfficiencyMode::Smooth => smooth(m, self.options.smoothing),
            EfficiencyMode::Optimal => optimal(m, n, self.options.smoothing),
        }
    }
}

fn smooth(m: u32, c: f64) -> f64 {
    let m = f64::from(m);
    (m * PI / (2.0 * m + c)).cos()
}

fn optimal(m: u32, n: u32, c: f64) -> f64 {
    if n == 0 {
        return smooth(m, c);
    }
    let (m, n) = (f64::from(m), f64::from(n));
    let f = 2.0 * n * m / (m + n);
    (f * PI / (2.0 * n)).sin()
}

impl Reward for ToolEfficiencyReward {
    fn score(&self, r: &Trajectory, p: &Problem, g: &GroupView<'_>) -> Result<Score> {
        if !g.right(r, p) {
            return Ok(Score::of(0.0));
        }
        let now = g.right_ones().map(|m| m.tool_calls);
        let n = now.chain(self.fewest.get(&p.id).copied()).fold(r.tool_calls, u32::min);
        Ok(Score::of(self.options.alpha * self.share(r.tool_calls, n)))
    }
    fn observe(&mut self, p: &Problem, g: &GroupView<'_>) {
        if let Some(now) = g.right_ones().map(|m| m.tool_calls).min() {
            self.fewest.entry(p.id.clone()).and_modify(|n| *n = (*n).min(now)).or_insert(now);
        }
    }
    fn save(&self) -> Value {
        if self.fewest.is_empty() { Value::Null } else { json!({ "fewest": self.fewest }) }
    }
    fn load(&mut self, mut state: Value) -> Result<()> {
        self.fewest = match state.get_mut("fewest").map(Value::take) {
            None if state.is_null() => BTreeMap::new(),
            None => return Err(Error::data("the saved state of reward `tool_efficiency` has no `fewest`")),
            Some(fewest) => serde_json::from_value(fewest)
                .map_err(|e| Error::data(format!("invalid saved state of reward `tool_efficiency`: {e}")))?,
        };
        Ok(())
    }
}

#[cfg(test)]
#[path = "tool_efficiency_tests.rs"]
mod tests;
