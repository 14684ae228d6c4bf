//! Implements `rubric_scaffold` (RuscaRL, 2508.16949), which puts a different share of the problem's hints into the
//! prompt of each rollout of a group, and fewer hints as the run proceeds.
//!
//! A hint makes success likely for problems that the policy alone does not solve, and different shares within a group
//! keep its rewards different. The update uses the prompt without the hints, so the policy learns to solve problems
//! without them. Problems without hints get a plain group.

use super::{Tally, from_root};
use crate::part::{Draw, Needs, ProblemPool, Progress, RlPart, Spawn, Strategy};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_api::PartOptions;
use trainyard_core::{Chance, MetricInfo, OptionProblem, Reduce};

/// Selection of hints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HintChoice {
    /// Random hints, drawn for each rollout.
    #[default]
    Random,
    /// First hints.
    First,
}

/// Options of `rubric_scaffold`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RubricScaffold {
    /// t₀: share of the run at which half of the hints are left.
    #[schemars(range(min = 0, max = 1))]
    pub midpoint: f64,
    /// a: slope of the decay of hints around the midpoint.
    #[schemars(range(min = 0))]
    pub steepness: f64,
    /// Text before the hints.
    pub heading: String,
    /// Selection of hints, in their original order.
    pub choice: HintChoice,
    #[serde(skip)]
    tally: Tally,
}

impl Default for RubricScaffold {
    fn default() -> Self {
        Self {
            midpoint: 0.2,
            steepness: 125.0,
            heading: "Hints:\n".to_string(),
            choice: HintChoice::Random,
            tally: Tally::default(),
        }
    }
}

impl PartOptions for RubricScaffold {
    const KIND: &'static str = "rubric_scaffold";
    const SUMMARY: &'static str = "hints that differ within a group and vanish over the run (RuscaRL, 2508.16949)";
    const DOC: &'static str = "Rollout i of G (from 1) is shown round(λ·n) of its problem's n hints, with λ = (G\n\
        − i)/(G − 1) · 1/(1 + exp(steepness·(t − midpoint))) and t = finished share of the run; ties round to\n\
        even as in the released code, and in a group of one (G − i)/(G − 1) = 1. The text is `heading` and the\n\
        hints, one per line, after the curriculum's text if there is one.\n\n\
        The paper shows criteria of a judge's rubric, drawn for each rollout (choice `random`); its variant for\n\
        mathematics shows them from the first one on (choice `first`), which suits the lines of a worked solution.\n\
        Needs an altered start and groups. Metric of the last step: scaffold_share (mean share of hints shown, over\n\
        rollouts of problems with hints). Source: 2508.16949.";
    fn metrics() -> Vec<MetricInfo> {
        let metric = MetricInfo::new("scaffold_share", "share", "Share of a problem's hints that are shown.")
            .reduced_by(Reduce::LastTenth)
            .optional()
            .former_name("scaffold_share");
        vec![metric.initial(), metric]
    }
    fn check(&self) -> Vec<OptionProblem> {
        let steepness = OptionProblem::out_of_range("/steepness", self.steepness, 0.0..);
        let steepness =
            steepness.map(|p| p.help("use at least 0; at 0 half of the hints are shown throughout the run"));
        OptionProblem::out_of_range("/midpoint", self.midpoint, 0.0..=1.0).into_iter().chain(steepness).collect()
    }
}

impl RlPart for RubricScaffold {
    fn needs(&self) -> Needs {
        Needs { altered_start: true, groups: true, ..Needs::NONE }
    }
}

impl Strategy for RubricScaffold {
    fn start(&mut self, draw: &Draw, pool: &ProblemPool, size: u32, progress: Progress, chance: &Chance) -> Vec<Spawn> {
        self.tally.begin(progress);
        let decay = self.decay(progress.share());
        let mut spawns = from_root(draw, size);
        for spawn in &mut spawns {
            let hints = &pool.problems[draw.problems[spawn.group]].hints;
            if hints.is_empty() {
                continue;
            }
            let count = (within_group(spawn.sample, size) * decay * hints.len() as f64).round_ties_even() as usize;
            let place = [spawn.group as u64, u64::from(spawn.sample)];
            let shown = self.choose_hints(hints.len(), count, chance, place);
            self.tally.add("scaffold_share", shown.len() as f64 / hints.len() as f64, 1);
            if !shown.is_empty() {
                let lines: Vec<&str> = shown.iter().map(|&i| hints[i].as_str()).collect();
                let before = if draw.scaffold.is_empty() { String::new() } else { format!("{}\n", draw.scaffold) };
                spawn.scaffold = format!("{before}{}{}", self.heading, lines.join("\n"));
            }
        }
        spawns
    }
    fn metrics(&self) -> Vec<(&'static str, f64)> {
        self.tally.metrics()
    }
}

impl RubricScaffold {
    /// Returns a factor that falls from 1 to 0 around the midpoint.
    fn decay(&self, done: f64) -> f64 {
        1.0 / (1.0 + (self.steepness * (done - self.midpoint)).exp())
    }
    /// Returns the indexes of `count` of `all` hints, ascending.
    fn choose_hints(&self, all: usize, count: usize, chance: &Chance, place: [u64; 2]) -> Vec<usize> {
        let mut indexes: Vec<usize> = (0..all).collect();
        if self.choice == HintChoice::Random {
            chance.at("hints", &place).shuffle(&mut indexes);
        }
        indexes.truncate(count);
        indexes.sort_unstable();
        indexes
    }
}

/// Returns (G − i)/(G − 1) with i = sample + 1: from 1 for the first to 0 for the last rollout.
fn within_group(sample: u32, size: u32) -> f64 {
    if size < 2 { 1.0 } else { f64::from(size - 1 - sample) / f64::from(size - 1) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::part::PoolProblem;

    fn pool() -> ProblemPool {
        let problem =
            |n: usize| PoolProblem { hints: (0..n).map(|i| format!("line {i}")).collect(), ..PoolProblem::default() };
        ProblemPool { problems: vec![problem(4), problem(0)] }
    }
    fn scaffolds(part: &mut RubricScaffold, problem: usize, size: u32, step: u64) -> Vec<String> {
        let draw = Draw { problems: vec![problem], ..Draw::default() };
        let spawns = part.start(&draw, &pool(), size, Progress { step, steps: 10 }, &Chance::new(1));
        spawns.into_iter().map(|s| s.scaffold).collect()
    }

    #[test]
    fn shares_fall_within_the_group() {
        let mut part = RubricScaffold { choice: HintChoice::First, ..RubricScaffold::default() };
        let texts = scaffolds(&mut part, 0, 3, 0);
        assert_eq!(texts, ["Hints:\nline 0\nline 1\nline 2\nline 3", "Hints:\nline 0\nline 1", ""]);
        assert_eq!(part.metrics(), [("scaffold_share", 0.5)]);
        assert_eq!(scaffolds(&mut part, 1, 3, 0), ["", "", ""], "no hints to show");
        assert_eq!(part.metrics(), [("scaffold_share", 0.5)], "problems without hints do not count");
    }

    #[test]
    fn hints_vanish_over_the_run() {
        let mut part = RubricScaffold::default();
        for step in 3..10 {
            assert!(scaffolds(&mut part, 0, 4, step).iter().all(String::is_empty));
            assert_eq!(part.metrics(), [("scaffold_share", 0.0)]);
        }
        assert_eq!(part.decay(0.2), 0.5);
        let gentle = RubricScaffold { steepness: 3.0f64.ln(), midpoint: 0.0, ..RubricScaffold::default() };
        assert!((gentle.decay(1.0) - 0.25).abs() < 1e-12, "1/(1 + 3)");
        assert!((0..100).map(|i| gentle.decay(f64::from(i) / 100.0)).is_sorted_by(|a, b| a > b));
    }

    #[test]
    fn counts_are_rounded_half_to_even() {
        let mut part = RubricScaffold { choice: HintChoice::First, ..RubricScaffold::default() };
        // At the midpoint the first of two is shown half of four, and of five shares 1, 3/4, … times 1/2 of four: 2,
        // 1.5, 1, 0.5, 0.
        let lines = |texts: Vec<String>| texts.iter().map(|t| t.matches("line").count()).collect::<Vec<_>>();
        assert_eq!(lines(scaffolds(&mut part, 0, 2, 2)), [2, 0]);
        assert_eq!(lines(scaffolds(&mut part, 0, 5, 2)), [2, 2, 1, 0, 0]);
        assert_eq!(lines(scaffolds(&mut part, 0, 1, 0)), [4], "a group of one sees all");
    }

    #[test]
    fn random_hints_differ_between_rollouts_and_keep_their_order() {
        let part = RubricScaffold::default();
        let mut seen = std::collections::BTreeSet::new();
        for sample in 0..200 {
            let shown = part.choose_hints(4, 2, &Chance::new(5), [0, sample]);
            assert!(shown.len() == 2 && shown[0] < shown[1] && shown[1] < 4);
            seen.insert(shown);
        }
        assert_eq!(seen.len(), 6, "every pair of four");
        assert_eq!(part.choose_hints(4, 9, &Chance::new(5), [0, 0]), [0, 1, 2, 3]);
    }

    #[test]
    fn curriculum_text_is_kept() {
        let draw = Draw { problems: vec![0], scaffold: "Be brief.".into(), ..Draw::default() };
        let mut part = RubricScaffold { heading: "Steps: ".into(), ..RubricScaffold::default() };
        let spawns = part.start(&draw, &pool(), 2, Progress { step: 0, steps: 10 }, &Chance::new(1));
        assert_eq!(spawns[0].scaffold, "Be brief.\nSteps: line 0\nline 1\nline 2\nline 3");
        assert_eq!(spawns[1].scaffold, "", "then the loop puts the curriculum's there");
    }

    #[test]
    fn impossible_options_are_rejected() {
        assert!(RubricScaffold::default().check().is_empty());
        assert!(!RubricScaffold { midpoint: 1.1, ..RubricScaffold::default() }.check().is_empty());
        assert!(!RubricScaffold { steepness: -1.0, ..RubricScaffold::default() }.check().is_empty());
        assert!(!RubricScaffold { steepness: f64::NAN, ..RubricScaffold::default() }.check().is_empty());
    }
}
