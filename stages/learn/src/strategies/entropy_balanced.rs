//! Implements `entropy_balanced` (AEPO, 2510.14545), which divides a group's budget between roots and branches by the
//! uncertainty at the prompt and after tool results, and penalizes consecutive branching.
//!
//! Branches help if the policy is uncertain after tool results, and whole rollouts if it is uncertain at the prompt.
//! Without a penalty, a few sequences that stay uncertain use up the budget. The paper measures both entropies with an
//! episode that it samples beforehand and discards. In this part the group's first rollout measures them: it starts
//! alone, is never forked, and stays in the group; the other roots start when it has ended. The measurement takes time
//! but no extra tokens, and no state crosses steps.

use super::forking::{self, ForkRule, entropy_jumps, opening};
use super::{Tally, from_root};
use crate::part::{
    Draw, GroupBudget, LiveSequence, Needs, ProblemPool, Progress, RlPart, Spawn, Strategy, StrategyAction,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use trainyard_api::PartOptions;
use trainyard_core::{Chance, MetricInfo, OptionProblem, Reduce};

/// Options of `entropy_balanced`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct EntropyBalancedStrategy {
    /// Strength with which H_root − H_tool shifts the budget toward roots; 0 = always half.
    pub beta: f64,
    /// Propensity to fork where the entropy has not changed.
    pub alpha: f64,
    /// Weight of the change of entropy in the propensity.
    pub gamma: f64,
    /// A node is uncertain if alpha + gamma·ΔH is above this, and forked if the penalized propensity still is.
    pub threshold: f64,
    /// Share of the propensity lost for each uncertain node directly before.
    #[schemars(range(min = 0, max = 1))]
    pub penalty: f64,
    /// Whether penalized propensities are compared with the threshold or drawn.
    pub rule: ForkRule,
    /// Sequences that continue from a forked node, including the original; 1 = never fork.
    #[schemars(range(min = 1))]
    pub beam: u32,
    /// Tokens at the beginning of a turn over which the entropy is averaged.
    #[schemars(range(min = 1))]
    pub window: usize,
    /// Nats that count as 1 in differences of entropy.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub normalizer: f64,
    #[serde(skip)]
    state: StepState,
}

/// State of one draw. Only the step's means are kept afterwards.
#[derive(Debug, Clone, PartialEq, Default)]
struct StepState {
    /// First rollouts by group, until the other roots start.
    pilots: BTreeMap<usize, Pilot>,
    /// (H_root − H_tool, roots) of every group in this step.
    plans: Vec<(f64, f64)>,
    step: Option<u64>,
    tally: Tally,
}

/// Measurements of the first rollout of a group.
#[derive(Debug, Clone, PartialEq, Default)]
struct Pilot {
    /// Mean entropy at the opening of turn 0, in nats.
    root: Option<f64>,
    /// Mean entropies at the openings of turns after tool results.
    tools: Vec<f64>,
}

impl Pilot {
    /// Returns H_root − H_tool in nats; 0 if one of them is missing.
    fn difference(&self) -> f64 {
        match self.root {
            Some(root) if !self.tools.is_empty() => root - self.tools.iter().sum::<f64>() / self.tools.len() as f64,
            _ => 0.0,
        }
    }
}

impl Default for EntropyBalancedStrategy {
    fn default() -> Self {
        Self {
            beta: 1.0,
            alpha: 0.5,
            gamma: 0.2,
            threshold: 0.5,
            penalty: 0.05,
            rule: ForkRule::Threshold,
            beam: 2,
            window: 20,
            normalizer: 1.0,
            state: StepState::default(),
        }
    }
}

impl PartOptions for EntropyBalancedStrategy {
    const KIND: &'static str = "entropy_balanced";
    const SUMMARY: &'static str =
        "roots and branches by measured entropy, with a penalty on consecutive branching (AEPO, 2510.14545)";
    const DOC: &'static str = "H = mean entropy of the first `window` tokens of a turn. Of k = group size sequences,\n\
        m = k·σ(beta·(H_root − H_tool) / normalizer), rounded and at least 2, start from the root. H_root is H\n\
        of turn 0 and H_tool the mean H of turns after tool results, both of the group's first rollout, which runs\n\
        alone and is not forked; without a tool result m is half of k. At turn t ≥ 1 of the others, ΔH = (H_t −\n\
        H_0) / normalizer and P = (alpha + gamma·ΔH)·(1 − min(1, penalty·l)), with l = number of turns directly\n\
        before, after tool results, with alpha + gamma·ΔH > threshold. If P > threshold (rule `chance`: with\n\
        probability P), beam − 1 copies continue from the end of the tool result. Budget that branches leave over\n\
        is filled from the root.\n\n\
        The released code penalizes by 0.05 per branch and draws; its H_tool also counts turn 0. Its entropies are\n\
        sums over 20 tokens divided by the log of the vocabulary, about 1.7 times the mean in nats, with beta 0.5.\n\n\
        Needs forks, entropies, several turns, and groups. Metrics of the last step: roots (planned per group),\n\
        roots_slope (roots per unit of H_root − H_tool, over groups), forks (copies per group), fork_chain (mean l\n\
        + 1 of forked nodes). Source: 2510.14545.";
    fn metrics() -> Vec<MetricInfo> {
        vec![
            forking::metric(),
            MetricInfo::new("fork_chain", "forks", "Forks in a row at the place of a fork, itself included.")
                .reduced_by(Reduce::LastTenth)
                .optional()
                .former_name("fork_chain"),
            MetricInfo::new("roots", "rollouts per group", "Rollouts that start from the prompt.")
                .reduced_by(Reduce::LastTenth)
                .optional()
                .former_name("roots"),
            MetricInfo::new(
                "roots_slope",
                "rollouts per nat",
                "Slope of the number of roots over the difference between root and tool entropy.",
            )
            .reduced_by(Reduce::Whole)
            .optional()
            .former_name("roots_slope"),
        ]
    }
    fn check(&self) -> Vec<OptionProblem> {
        let free =
            [("/beta", self.beta), ("/alpha", self.alpha), ("/gamma", self.gamma), ("/threshold", self.threshold)];
        let mut problems: Vec<OptionProblem> =
            free.into_iter().filter_map(|(at, value)| OptionProblem::not_finite(at, value)).collect();
        problems.extend(OptionProblem::out_of_range("/penalty", self.penalty, 0.0..=1.0));
        problems.extend(forking::check(self.window, self.normalizer, self.beam));
        problems
    }
}

impl RlPart for EntropyBalancedStrategy {
    fn needs(&self) -> Needs {
        forking::NEEDS
    }
}

impl Strategy for EntropyBalancedStrategy {
    fn start(
        &mut self,
        draw: &Draw,
        _pool: &ProblemPool,
        _size: u32,
        progress: Progress,
        _chance: &Chance,
    ) -> Vec<Spawn> {
        if self.state.step != Some(progress.step) {
            self.state.plans.clear();
        }
        self.state.step = Some(progress.step);
        self.state.tally.begin(progress);
        self.state.tally.add("forks", 0.0, draw.problems.len());
        self.state.pilots = (0..draw.problems.len()).map(|g| (g, Pilot::default())).collect();
        from_root(draw, 1)
    }
    fn at_turn(&mut self, live: &LiveSequence, group: &GroupBudget, chance: &Chance) -> StrategyAction {
        if let Some(pilot) = self.state.pilots.get_mut(&live.group) {
            let opening = live.entropies.last().and_then(|t| opening(t, self.window));
            match opening {
                Some(h) if live.turn == 0 => pilot.root = Some(h),
                Some(h) => pilot.tools.push(h),
                None => {}
            }
            return StrategyAction::Continue;
        }
        let copies = forking::copies(self.beam, live, group);
        if copies == 0 {
            return StrategyAction::Continue;
        }
        let mut jumps = entropy_jumps(live, self.window, self.normalizer);
        let Some(jump) = jumps.pop().flatten() else { return StrategyAction::Continue };
        let chain = jumps.iter().rev().take_while(|j| j.is_some_and(|j| self.propensity(j) > self.threshold)).count();
        let penalized = self.propensity(jump) * (1.0 - (self.penalty * chain as f64).min(1.0));
        if !self.rule.forks(penalized, self.threshold, live, chance) {
            return StrategyAction::Continue;
        }
        self.state.tally.add("forks", f64::from(copies), 0);
        self.state.tally.add("fork_chain", chain as f64 + 1.0, 1);
        StrategyAction::Fork { at: live.first, copies }
    }
    fn refill(&mut self, group: usize, view: &GroupBudget) -> u32 {
        let remaining = view.budget.saturating_sub(view.started);
        let Some(pilot) = self.state.pilots.remove(&group) else { return remaining };
        let roots = self.roots(view.budget, pilot.difference());
        self.state.tally.add("roots", f64::from(roots), 1);
        self.state.plans.push((pilot.difference() / self.normalizer, f64::from(roots)));
        roots.saturating_sub(view.started).min(remaining)
    }
    fn metrics(&self) -> Vec<(&'static str, f64)> {
        let mut list = self.state.tally.metrics();
        list.extend(slope(&self.state.plans).map(|s| ("roots_slope", s)));
        list
    }
}

/// Returns the regression slope of the second numbers on the first, or `None` if the first numbers are all equal.
fn slope(pairs: &[(f64, f64)]) -> Option<f64> {
    let mut pairs = pairs.to_vec();
    // Sorted by value, because groups arrive in no fixed order.
    pairs.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let n = pairs.len().max(1) as f64;
    let mean = (pairs.iter().map(|p| p.0).sum::<f64>() / n, pairs.iter().map(|p| p.1).sum::<f64>() / n);
    let squared: f64 = pairs.iter().map(|p| (p.0 - mean.0).powi(2)).sum();
    let together: f64 = pairs.iter().map(|p| (p.0 - mean.0) * (p.1 - mean.1)).sum();
    if squared > 0.0 { Some(together / squared) } else { None }
}

impl EntropyBalancedStrategy {
    fn propensity(&self, jump: f64) -> f64 {
        self.alpha + self.gamma * jump
    }
    /// Returns the number of roots among `budget` sequences: the first rollout, and at least one more, because the
    /// first is not forked.
    fn roots(&self, budget: u32, difference: f64) -> u32 {
        let share = 1.0 / (1.0 + (-self.beta * difference / self.normalizer).exp());
        ((f64::from(budget) * share).round() as u32).max(2).min(budget)
    }
}

#[cfg(test)]
#[path = "entropy_balanced_tests.rs"]
mod tests;
