//! Implements `entropy_branching` (ARPO, 2507.19849), which forks a sequence after a tool result that left the policy
//! uncertain.
//!
//! An agent is most uncertain about the first tokens after a tool result, so part of the budget is spent on branches at
//! these tokens instead of on whole episodes; the branches share the tokens before the fork. A node is judged once,
//! when its turn has been sampled: copies continue from the end of the tool result and are not judged there again. The
//! rest of the budget is filled with sequences from the root.

use super::forking::{self, ForkRule, entropy_jumps};
use super::{Tally, from_root};
use crate::part::{
    Draw, GroupBudget, LiveSequence, Needs, ProblemPool, Progress, RlPart, Spawn, Strategy, StrategyAction,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_api::PartOptions;
use trainyard_core::{Chance, MetricInfo, OptionProblem, Reduce};

/// Options of `entropy_branching`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct EntropyBranching {
    /// Number of sequences that start from the root; null = half of the group size, rounded up.
    pub roots: Option<u32>,
    /// Propensity to fork where the entropy has not changed.
    pub alpha: f64,
    /// Weight of the change of entropy in the propensity.
    pub beta: f64,
    /// With rule `threshold`, a node is forked if its propensity is above this.
    pub threshold: f64,
    /// Whether propensities are compared with the threshold or drawn.
    pub rule: ForkRule,
    /// Sequences that continue from a forked node, including the original; 1 = never fork.
    #[schemars(range(min = 1))]
    pub beam: u32,
    /// Tokens at the beginning of a turn over which the entropy is averaged.
    #[schemars(range(min = 1))]
    pub window: usize,
    /// Nats that count as 1 in the change of entropy.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub normalizer: f64,
    #[serde(skip)]
    tally: Tally,
}

impl Default for EntropyBranching {
    fn default() -> Self {
        Self {
            roots: None,
            alpha: 0.5,
            beta: 0.2,
            threshold: 0.5,
            rule: ForkRule::Threshold,
            beam: 2,
            window: 20,
            normalizer: 1.0,
            tally: Tally::default(),
        }
    }
}

impl PartOptions for EntropyBranching {
    const KIND: &'static str = "entropy_branching";
    const SUMMARY: &'static str = "forks after tool results where entropy rose (ARPO, 2507.19849)";
    const DOC: &'static str = "Of a budget M = group size, `roots` sequences start from the root. At the end of every\n\
        turn t ≥ 1, ΔH = (H_t − H_0) / normalizer, with H the mean entropy of the first `window` tokens of a\n\
        turn in nats, and P = alpha + beta·ΔH. If P > threshold (rule `chance`: with probability P), beam − 1\n\
        copies continue from the end of the tool result. Budget that branches leave over is filled from the root.\n\
        With group advantages this is ARPO's soft form; the modulation `shared_prefix` is the hard form.\n\n\
        The paper does not specify how ΔH is normalized. The released code sums over 20 tokens and divides by the\n\
        log of the vocabulary (about 11.9), which equals normalizer 0.6 here up to the truncation of its sums to the\n\
        likeliest tokens; the default of one nat needs no vocabulary. With the defaults a node is forked wherever\n\
        entropy rose.\n\n\
        Needs forks, entropies, several turns, and groups. Metrics of the last step: forks (copies per group),\n\
        fork_entropy_jump (mean ΔH of forked nodes), nonfork_entropy_jump (mean ΔH of nodes that could have been\n\
        forked within the budget but were not). Source: 2507.19849.";
    fn metrics() -> Vec<MetricInfo> {
        vec![
            forking::metric(),
            MetricInfo::new("fork_entropy_jump", "normalized nats", "Mean entropy jump of the turns that were forked.")
                .reduced_by(Reduce::Whole)
                .optional()
                .former_name("fork_entropy_jump"),
            MetricInfo::new(
                "nonfork_entropy_jump",
                "normalized nats",
                "Mean entropy jump of the turns that were not forked.",
            )
            .reduced_by(Reduce::Whole)
            .optional()
            .former_name("nonfork_entropy_jump"),
        ]
    }
    fn check(&self) -> Vec<OptionProblem> {
        let roots = self.roots.and_then(|roots| OptionProblem::out_of_range("/roots", roots, 1..));
        let roots = roots.map(|p| p.help("leave it out to use half of the group"));
        let free = [("/alpha", self.alpha), ("/beta", self.beta), ("/threshold", self.threshold)];
        let free = free.into_iter().filter_map(|(at, value)| OptionProblem::not_finite(at, value));
        roots.into_iter().chain(free).chain(forking::check(self.window, self.normalizer, self.beam)).collect()
    }
}

impl RlPart for EntropyBranching {
    fn needs(&self) -> Needs {
        forking::NEEDS
    }
}

impl Strategy for EntropyBranching {
    fn start(
        &mut self,
        draw: &Draw,
        _pool: &ProblemPool,
        size: u32,
        progress: Progress,
        _chance: &Chance,
    ) -> Vec<Spawn> {
        self.tally.begin(progress);
        self.tally.add("forks", 0.0, draw.problems.len());
        from_root(draw, self.roots.unwrap_or(size.div_ceil(2)).min(size))
    }
    fn at_turn(&mut self, live: &LiveSequence, group: &GroupBudget, chance: &Chance) -> StrategyAction {
        let copies = forking::copies(self.beam, live, group);
        if copies == 0 {
            return StrategyAction::Continue;
        }
        let Some(jump) = entropy_jumps(live, self.window, self.normalizer).pop().flatten() else {
            return StrategyAction::Continue;
        };
        if !self.rule.forks(self.alpha + self.beta * jump, self.threshold, live, chance) {
            self.tally.add("nonfork_entropy_jump", jump, 1);
            return StrategyAction::Continue;
        }
        self.tally.add("forks", f64::from(copies), 0);
        self.tally.add("fork_entropy_jump", jump, 1);
        StrategyAction::Fork { at: live.first, copies }
    }
    fn metrics(&self) -> Vec<(&'static str, f64)> {
        self.tally.metrics()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strategies::tests::{live, play};

    const OPEN: GroupBudget = GroupBudget { started: 4, budget: 8 };

    fn action(part: &mut EntropyBranching, live: &LiveSequence, group: GroupBudget) -> StrategyAction {
        part.at_turn(live, &group, &Chance::new(3))
    }

    #[test]
    fn rising_entropy_after_a_tool_result_forks() {
        let mut part = EntropyBranching { window: 2, ..EntropyBranching::default() };
        let draw = Draw { problems: vec![5, 6], ..Draw::default() };
        let roots = part.start(&draw, &ProblemPool::default(), 7, Progress::default(), &Chance::new(0));
        assert_eq!(
            roots.iter().map(|s| (s.group, s.sample)).collect::<Vec<_>>(),
            [0, 1].map(|g| [0, 1, 2, 3].map(|s| (g, s))).concat()
        );
        // Means of the first two tokens: 1 and 2, so ΔH = 1 and P = 0.7; the third token is outside the window.
        let risen = live(&[&[1.0, 1.0], &[1.5, 2.5, 0.0]]);
        assert_eq!(action(&mut part, &risen, OPEN), StrategyAction::Fork { at: risen.first, copies: 1 });
        // P = 0.5 is not above the threshold, nor is 0.4.
        assert_eq!(action(&mut part, &live(&[&[1.0, 1.0], &[0.5, 1.5]]), OPEN), StrategyAction::Continue);
        assert_eq!(action(&mut part, &live(&[&[1.0, 1.0], &[0.5, 0.5, 9.0]]), OPEN), StrategyAction::Continue);
        let metrics = [("fork_entropy_jump", 1.0), ("forks", 0.5), ("nonfork_entropy_jump", -0.25)];
        assert_eq!(part.metrics(), metrics, "one copy in two groups; the others changed by 0 and −0.5");
    }

    #[test]
    fn no_fork_without_tool_result_budget_or_new_node() {
        let mut part = EntropyBranching::default();
        let risen = live(&[&[0.0], &[5.0]]);
        let inherited = LiveSequence { forks: 1, since_fork: Some(0), ..risen.clone() };
        assert_eq!(
            action(&mut part, &live(&[&[5.0]]), OPEN),
            StrategyAction::Continue,
            "turn 0 follows no tool result"
        );
        assert_eq!(action(&mut part, &live(&[&[0.0], &[]]), OPEN), StrategyAction::Continue, "a turn without tokens");
        assert_eq!(
            action(&mut part, &risen, GroupBudget { started: 8, ..OPEN }),
            StrategyAction::Continue,
            "the budget is used up"
        );
        assert_eq!(
            action(&mut part, &inherited, OPEN),
            StrategyAction::Continue,
            "this node was judged when the copy was made"
        );
        let later = LiveSequence { since_fork: Some(1), ..inherited };
        assert_ne!(action(&mut part, &later, OPEN), StrategyAction::Continue);
        let mut wide = EntropyBranching { beam: 4, ..EntropyBranching::default() };
        assert_eq!(action(&mut wide, &risen, OPEN), StrategyAction::Fork { at: risen.first, copies: 3 });
        assert_eq!(
            action(&mut wide, &risen, GroupBudget { started: 6, ..OPEN }),
            StrategyAction::Fork { at: risen.first, copies: 2 }
        );
    }

    #[test]
    fn groups_are_filled_exactly() {
        for seed in 0..40 {
            let (size, beam) = (2 + (seed % 7) as u32, 2 + (seed % 3) as u32);
            for rule in [ForkRule::Threshold, ForkRule::Chance] {
                let mut part = EntropyBranching { beam, rule, ..EntropyBranching::default() };
                let played = play(&mut part, size, 4, Chance::new(seed));
                assert_eq!(played.waves[0], size.div_ceil(2));
                assert_eq!(played.forked + played.waves.iter().sum::<u32>(), size);
                let metrics = part.metrics();
                let of = |name: &str| metrics.iter().find(|(n, _)| *n == name).map(|(_, v)| *v);
                assert_eq!(of("forks"), Some(f64::from(played.forked)), "of one group");
                if let (ForkRule::Threshold, Some(fork), Some(other)) =
                    (rule, of("fork_entropy_jump"), of("nonfork_entropy_jump"))
                {
                    assert!(fork > 0.0 && other <= 0.0, "the threshold separates them: {fork}, {other}");
                }
            }
        }
    }

    #[test]
    fn rule_chance_forks_in_proportion() {
        let mut part = EntropyBranching { rule: ForkRule::Chance, beta: 0.25, ..EntropyBranching::default() };
        let risen = live(&[&[0.0], &[1.0]]);
        let forks = |part: &mut EntropyBranching| {
            (0..2000).filter(|s| part.at_turn(&risen, &OPEN, &Chance::new(*s)) != StrategyAction::Continue).count()
        };
        let share = forks(&mut part) as f64 / 2000.0;
        assert!((share - 0.75).abs() < 0.05, "P = 0.5 + 0.25·1: {share}");
        part.alpha = 1.0;
        assert_eq!(forks(&mut part), 2000);
        part.alpha = -0.5;
        assert_eq!(forks(&mut part), 0);
    }

    #[test]
    fn metrics_cover_all_draws_of_one_step() {
        let mut part = EntropyBranching::default();
        let draw = Draw { problems: vec![0], ..Draw::default() };
        let start = |part: &mut EntropyBranching, step: u64| {
            part.start(&draw, &ProblemPool::default(), 4, Progress { step, steps: 9 }, &Chance::new(0));
        };
        start(&mut part, 2);
        action(&mut part, &live(&[&[0.0], &[5.0]]), OPEN);
        start(&mut part, 2);
        assert_eq!(part.metrics(), [("fork_entropy_jump", 5.0), ("forks", 0.5)]);
        start(&mut part, 3);
        assert_eq!(part.metrics(), [("forks", 0.0)]);
    }

    #[test]
    fn impossible_options_are_rejected() {
        let ok = EntropyBranching::default();
        assert!(ok.check().is_empty());
        let wrong = [
            EntropyBranching { roots: Some(0), ..ok.clone() },
            EntropyBranching { beam: 0, ..ok.clone() },
            EntropyBranching { window: 0, ..ok.clone() },
            EntropyBranching { normalizer: 0.0, ..ok.clone() },
            EntropyBranching { normalizer: f64::NAN, ..ok.clone() },
            EntropyBranching { alpha: f64::INFINITY, ..ok },
        ];
        assert!(wrong.iter().all(|w| !w.check().is_empty()));
    }
}
