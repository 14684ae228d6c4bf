//! Implements `dpo`, DPO on pairs of rollouts of one problem.
//!
//! Rewards order the rollouts of a group, so the policy's own samples are preference pairs without a judge. If this
//! term runs every few steps between policy-gradient steps, it is the self-critic phase of Tool-Star (2505.16410).

use crate::batch::{Batch, LossBatch};
use crate::part::{LossTerm, Needs, Progress, RlPart, TermScope, TermValue};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use trainyard_api::PartOptions;
use trainyard_core::{MetricInfo, OptionProblem, Reduce, above};

/// Selection of pairs in a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PairSelection {
    /// Pair of the best and the worst; the first in the minibatch among equals.
    #[default]
    Extremes,
    /// All pairs with different rewards.
    All,
}

/// Options of `dpo`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct GroupDpo {
    /// Weight of the loss.
    #[schemars(range(min = 0))]
    pub weight: f64,
    /// Strength of the constraint to the reference.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub beta: f64,
    /// Which rollouts of a group form pairs: `extremes` or `all`.
    pub pairs: PairSelection,
    /// Acts only in every n-th step, first in the n-th; 1 = in every step.
    #[schemars(range(min = 1))]
    pub every: u64,
    /// Whether the current step is an n-th one.
    #[serde(skip)]
    due: bool,
}

impl Default for GroupDpo {
    fn default() -> Self {
        Self { weight: 1.0, beta: 0.1, pairs: PairSelection::Extremes, every: 1, due: false }
    }
}

impl PartOptions for GroupDpo {
    const KIND: &'static str = "dpo";
    const SUMMARY: &'static str = "better versus worse rollouts of a group (DPO, self-critic phase)";
    const DOC: &'static str = "Loss = weight·mean over pairs of −log σ(beta·(S_b − S_w)), with S = Σ_t (logπ\n\
        − logπ_ref) over the tokens in the loss; b is the better and w the worse rollout of one group by reward.\n\
        Neither the aggregation nor importance weights apply: the mean is over the pairs of the minibatch. With\n\
        `every: n` it acts in steps n−1, 2n−1, … (counted from 0); in other steps loss and gradient are 0.\n\
        Pairs of equal reward and rollouts without a token in the loss do not count.\n\n\
        Needs groups and the reference, which is the model this stage started from. Sources: 2305.18290; pairs by\n\
        reward within a group, and interleaving: Tool-Star, 2505.16410. Metrics, as means over minibatches weighted\n\
        by their tokens: pairs (per minibatch) and, in steps with pairs, accuracy (share of pairs that\n\
        the policy, relative to the reference, orders correctly; a minibatch without pairs counts as 0).";
    fn metrics() -> Vec<MetricInfo> {
        vec![
            MetricInfo::new("pairs", "pairs", "Pairs of a better and a worse rollout, by reward, that are contrasted.")
                .reduced_by(Reduce::LastTenth)
                .optional()
                .former_name("dpo_pairs"),
            MetricInfo::new(
                "accuracy",
                "share",
                "Share of the pairs whose better rollout gained more over the reference.",
            )
            .higher()
            .reduced_by(Reduce::LastTenth)
            .optional()
            .former_name("dpo_accuracy"),
        ]
    }
    fn check(&self) -> Vec<OptionProblem> {
        [
            OptionProblem::out_of_range("/weight", self.weight, 0.0..),
            OptionProblem::out_of_range("/beta", self.beta, above(0.0)),
            OptionProblem::out_of_range("/every", self.every, 1..),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

impl RlPart for GroupDpo {
    fn needs(&self) -> Needs {
        Needs { reference: true, groups: true, ..Needs::NONE }
    }
}

impl LossTerm for GroupDpo {
    fn begin(&mut self, _batch: &Batch, progress: Progress) {
        self.due = (progress.step + 1).is_multiple_of(self.every);
    }
    fn value(&self, b: &LossBatch) -> TermValue {
        let reference = b.reference.as_ref().expect("`needs` includes the reference");
        let mut term = TermValue { d_logprobs: b.zeros(), ..TermValue::default() };
        let pairs = if self.due || self.every == 1 { self.pairs_of(b) } else { Vec::new() };
        let mut gains = vec![0.0; b.mask.len()];
        for (i, t) in b.places() {
            gains[i] += b.logprobs[i][t] - reference[i][t];
        }
        // d loss / d gain per sequence, which is also the gradient of each of its tokens.
        let mut slopes = vec![0.0; b.mask.len()];
        let share = self.weight / pairs.len().max(1) as f64;
        let mut ordered = 0.0;
        for &(better, worse) in &pairs {
            let margin = self.beta * (gains[better] - gains[worse]);
            term.loss += share * softplus(-margin);
            let slope = share * self.beta * sigmoid(-margin);
            slopes[better] -= slope;
            slopes[worse] += slope;
            ordered += f64::from(u8::from(margin > 0.0));
        }
        for (i, t) in b.places() {
            term.d_logprobs[i][t] = slopes[i];
        }
        // The loop divides sums by tokens; this factor makes them means over minibatches.
        let tokens = b.places().count() as f64;
        term.sums.push(("pairs", pairs.len() as f64 * tokens));
        if !pairs.is_empty() {
            term.sums.push(("accuracy", ordered / pairs.len() as f64 * tokens));
        }
        term
    }
    fn scope(&self) -> TermScope {
        TermScope::Minibatch
    }
}

impl GroupDpo {
    /// Returns (better, worse) as indexes in the minibatch, group by group.
    fn pairs_of(&self, b: &LossBatch) -> Vec<(usize, usize)> {
        let mut groups: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (i, _) in b.mask.iter().enumerate().filter(|(_, mask)| mask.contains(&true)) {
            groups.entry(b.groups[i]).or_default().push(i);
        }
        groups.values().flat_map(|members| self.pairs_in(members, &b.rewards)).collect()
    }
    fn pairs_in(&self, members: &[usize], rewards: &[f64]) -> Vec<(usize, usize)> {
        let differ = |&(better, worse): &(usize, usize)| rewards[better] > rewards[worse];
        match self.pairs {
            PairSelection::Extremes => {
                let best = members.iter().copied().reduce(|a, i| if rewards[i] > rewards[a] { i } else { a });
                let worst = members.iter().copied().reduce(|a, i| if rewards[i] < rewards[a] { i } else { a });
                best.zip(worst).into_iter().filter(differ).collect()
            }
            PairSelection::All => {
                members.iter().flat_map(|&i| members.iter().map(move |&k| (i, k))).filter(differ).collect()
            }
        }
    }
}

/// Computes log(1 + e^x) without overflow.
fn softplus(x: f64) -> f64 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

#[cfg(test)]
#[path = "dpo_tests.rs"]
mod tests;
