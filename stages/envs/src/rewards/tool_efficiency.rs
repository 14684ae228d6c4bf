//! `tool_efficiency`: right answers with few tool calls, the reward of OTC-PO (arXiv 2504.14870).
//!
//! Why so: a call costs time and money, but how many a problem needs nobody knows beforehand; the fewest that ever led to a right
//! answer are the measure. The product takes the place of the reward `answer`. Refuses: credit for what a wrong answer saved.

use crate::rewards::{GroupView, Reward, Score};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::f64::consts::PI;
use trainyard_api::PartOptions;
use trainyard_core::{Error, OptionProblem, Result, above};
use trainyard_tables::{Problem, Trajectory};

/// How calls are weighed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum Form {
    /// Fewer is always better (OTC-PPO).
    Smooth,
    /// As few as the best right episode of the problem is best (OTC-GRPO).
    Optimal,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ToolEfficiencyOptions {
    pub form: Form,
    /// α: value of a right answer with the best number of calls. Above 0.
    #[schemars(range(min = 0))]
    pub alpha: f64,
    /// c: the larger, the slower the value falls with calls where none was needed. Above 0.
    #[schemars(range(min = 0))]
    pub smoothing: f64,
}

impl Default for ToolEfficiencyOptions {
    fn default() -> Self {
        Self { form: Form::Optimal, alpha: 1.0, smoothing: 1.0 }
    }
}

impl PartOptions for ToolEfficiencyOptions {
    const KIND: &'static str = "tool_efficiency";
    const SUMMARY: &'static str = "right answers, worth less the more tool calls they took";
    const DOC: &'static str = "value = alpha·r_tool·r_correct, r_correct = 1 for a right answer and 0 otherwise; with m = tool calls of the episode, c = `smoothing`:\n\
        form `smooth` (OTC-PPO): r_tool = cos(m·π/(2m + c));\n\
        form `optimal` (OTC-GRPO): r_tool = 1 if m = n = 0; cos(m·π/(2m + c)) if n = 0; else sin(f·π/(2n)) with f = 2nm/(m + n).\n\n\
        n = fewest calls of any right episode of the problem so far, in this step or an earlier one; it is the state of this reward. So `optimal`\n\
        is alpha exactly at m = n and falls for more calls, and tools that are needed cost nothing. Unreadable calls count. Dimensionless, in\n\
        [0, alpha]. Outside of RL, where nothing is known of n, a right episode is its own measure. Source: 2504.14870.";
    fn check(&self) -> Vec<OptionProblem> {
        let named = [("/alpha", self.alpha), ("/smoothing", self.smoothing)];
        named.into_iter().filter_map(|(at, value)| OptionProblem::outside(at, value, above(0.0))).collect()
    }
}

pub struct ToolEfficiency {
    options: ToolEfficiencyOptions,
    /// Problem → fewest calls of a right episode so far.
    fewest: BTreeMap<String, u32>,
}

impl ToolEfficiency {
    pub fn new(options: ToolEfficiencyOptions) -> Self {
        Self { options, fewest: BTreeMap::new() }
    }
    /// r_tool of a right episode with m calls.
    fn share(&self, m: u32, n: u32) -> f64 {
        match self.options.form {
            Form::Smooth => smooth(m, self.options.smoothing),
            Form::Optimal => optimal(m, n, self.options.smoothing),
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

impl Reward for ToolEfficiency {
    fn name(&self) -> &str {
        ToolEfficiencyOptions::KIND
    }
    fn score(&self, r: &Trajectory, p: &Problem, g: &GroupView<'_>) -> Score {
        if !g.right(r, p) {
            return Score::of(0.0);
        }
        let now = g.right_ones().map(|m| m.tool_calls);
        let n = now.chain(self.fewest.get(&p.id).copied()).fold(r.tool_calls, u32::min);
        Score::of(self.options.alpha * self.share(r.tool_calls, n))
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
                .map_err(|e| Error::data(format!("the saved state of reward `tool_efficiency`: {e}")))?,
        };
        Ok(())
    }
}

#[cfg(test)]
#[path = "tool_efficiency_tests.rs"]
mod tests;
