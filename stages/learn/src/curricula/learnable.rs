//! Implements `learnable` (RIF-RFT), which tries every problem once and then draws only the problems from which the
//! policy can learn.
//!
//! A problem that no rollout solves gives no useful gradient, only drift. Without such problems the model keeps its
//! existing abilities (2507.05386, rollout-based instance filtering). The trial is the first pass of training, so it
//! needs no extra rollouts.

use crate::part::{Curriculum, Draw, ProblemPool, RlPart};
use crate::pass_rates::PassRates;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use trainyard_api::PartOptions;
use trainyard_core::{Chance, Error, MetricInfo, OptionProblem, Reduce, Result};

/// Options of `learnable`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LearnableCurriculum {
    /// Levels of the problems to draw; empty = all.
    pub levels: Vec<u32>,
    /// A problem is learnable if its pass rate is above this (0 = at least one rollout passed) …
    #[schemars(range(min = 0, max = 1))]
    pub above: f64,
    /// … and at most this. Below 1, problems leave once they are mastered.
    #[schemars(range(min = 0, max = 1))]
    pub below_or_equal: f64,
    /// Placebo: keeps as many of the tried problems as are learnable, chosen by chance.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub by_chance: bool,
    /// Position and measured share; saved in checkpoints.
    #[serde(skip)]
    state: LearnableState,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
struct LearnableState {
    /// Number of the pass; 0 = the trial.
    pass: u64,
    /// Number of problems of the current pass that were drawn or skipped.
    place: usize,
    /// Share of the tried problems that were learnable at the last draw.
    share: Option<f64>,
}

impl Default for LearnableCurriculum {
    fn default() -> Self {
        Self { levels: Vec::new(), above: 0.0, below_or_equal: 1.0, by_chance: false, state: LearnableState::default() }
    }
}

impl PartOptions for LearnableCurriculum {
    const KIND: &'static str = "learnable";
    const SUMMARY: &'static str = "one pass over all problems, then only those that some rollout solved (RIF-RFT)";
    const DOC: &'static str = "The first pass draws every problem of the chosen levels once, shuffled. Later passes,\n\
        each shuffled anew, draw those with above < pass rate ≤ below_or_equal, measured over all their rollouts\n\
        since the start, including those that filters dropped. A problem without a finished rollout is not learnable\n\
        yet. While no problem is learnable, all are drawn. A problem repeats within a step only if fewer are\n\
        learnable than drawn, or where a pass ends.\n\n\
        State: the pass and the position in it. Source: 2507.05386, which tries before training and drops\n\
        instances on which no rollout earns a reward (`above` 0).";
    fn metrics() -> Vec<MetricInfo> {
        vec![
            MetricInfo::new(
                "share",
                "share",
                "Share of the problems with a finished rollout whose pass rate is in the range.",
            )
            .reduced_by(Reduce::LastTenth)
            .optional()
            .former_name("learnable_share"),
        ]
    }
    fn check(&self) -> Vec<OptionProblem> {
        let shares = [("/above", self.above), ("/below_or_equal", self.below_or_equal)];
        let mut problems: Vec<OptionProblem> =
            shares.into_iter().filter_map(|(at, share)| OptionProblem::out_of_range(at, share, 0.0..=1.0)).collect();
        if self.above >= self.below_or_equal {
            let message = format!("{} is not below `below_or_equal` ({})", self.above, self.below_or_equal);
            problems.push(
                OptionProblem::new("/above", message)
                    .help("use 0 and 1 to keep every problem that some rollout solved"),
            );
        }
        problems
    }
}

impl RlPart for LearnableCurriculum {
    fn save(&self) -> Value {
        json!(self.state)
    }
    fn load(&mut self, state: Value) -> Result<()> {
        self.state =
            serde_json::from_value(state).map_err(|e| Error::data(format!("state of curriculum `learnable`: {e}")))?;
        Ok(())
    }
}

impl Curriculum for LearnableCurriculum {
    fn next(&mut self, _step: u64, count: usize, pool: &ProblemPool, rates: &PassRates, chance: &Chance) -> Draw {
        let cards = super::of_levels(pool, &self.levels);
        let tried: Vec<usize> = cards.iter().copied().filter(|&card| rates.problem(card).0 > 0).collect();
        let mut learnable: BTreeSet<usize> =
            tried.iter().copied().filter(|&card| self.is_learnable(rates.problem(card))).collect();
        self.state.share = if tried.is_empty() { None } else { Some(learnable.len() as f64 / tried.len() as f64) };
        if self.by_chance {
            let mut ranked = tried;
            ranked.sort_by_cached_key(|&card| (chance.at("learnable by chance", &[card as u64]).next_u64(), card));
            learnable = ranked.into_iter().take(learnable.len()).collect();
        }
        let shuffled = |pass: u64| {
            let mut order = cards.clone();
            chance.at("learnable", &[pass]).shuffle(&mut order);
            order
        };
        let mut order = shuffled(self.state.pass);
        let mut problems = Vec::with_capacity(count);
        while problems.len() < count && !cards.is_empty() {
            if self.state.place >= order.len() {
                self.state.pass += 1;
                self.state.place = 0;
                order = shuffled(self.state.pass);
            }
            let card = order[self.state.place];
            self.state.place += 1;
            if self.state.pass == 0 || learnable.is_empty() || learnable.contains(&card) {
                problems.push(card);
            }
        }
        Draw { problems, ..Draw::default() }
    }
    fn metrics(&self) -> Vec<(&'static str, f64)> {
        self.state.share.map(|s| ("share", s)).into_iter().collect()
    }
}

impl LearnableCurriculum {
    fn is_learnable(&self, (attempts, passes): (u64, u64)) -> bool {
        let rate = passes as f64 / attempts.max(1) as f64;
        attempts > 0 && rate > self.above && rate <= self.below_or_equal
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::part::PoolProblem;

    const SIZE: usize = 10;

    fn pool() -> ProblemPool {
        let problem = |i: usize| PoolProblem { id: i.to_string(), level: 1 + (i / 5) as u32, ..PoolProblem::default() };
        ProblemPool { problems: (0..SIZE).map(problem).collect() }
    }
    fn next(part: &mut LearnableCurriculum, count: usize, rates: &PassRates) -> Vec<usize> {
        part.next(0, count, &pool(), rates, &Chance::new(9)).problems
    }
    /// Observes four rollouts of each problem; i mod 5 of them pass for problem i.
    fn observe(rates: &mut PassRates, problems: &[usize]) {
        for &problem in problems {
            for sample in 0..4 {
                rates.observe(1, problem, sample < problem % 5);
            }
        }
    }
    fn sorted(mut list: Vec<usize>) -> Vec<usize> {
        list.sort_unstable();
        list
    }

    #[test]
    fn all_problems_once_then_only_solved_ones() {
        let (mut part, mut rates, mut drawn) = (LearnableCurriculum::default(), PassRates::default(), Vec::new());
        for _ in 0..5 {
            let problems = next(&mut part, 2, &rates);
            observe(&mut rates, &problems);
            drawn.extend(problems);
        }
        assert_eq!(sorted(drawn), (0..SIZE).collect::<Vec<_>>());
        for _ in 0..3 {
            assert_eq!(sorted(next(&mut part, 8, &rates)), [1, 2, 3, 4, 6, 7, 8, 9], "0 and 5 never pass");
        }
        assert_eq!(part.metrics(), [("share", 0.8)]);
        assert_eq!(next(&mut part, 20, &rates).len(), 20, "passes repeat within a draw");
    }

    #[test]
    fn drawing_again_within_a_step_continues_the_trial() {
        let (mut part, mut rates) = (LearnableCurriculum::default(), PassRates::default());
        assert!(part.metrics().is_empty());
        let first: Vec<usize> = [next(&mut part, 4, &rates), next(&mut part, 3, &rates)].concat();
        assert_eq!(
            first.iter().collect::<BTreeSet<_>>().len(),
            7,
            "no problem comes twice before its rollouts are counted"
        );
        observe(&mut rates, &first);
        let second = next(&mut part, 5, &rates);
        assert!(second[..3].iter().all(|p| !first.contains(p)), "the rest of the trial");
        assert!(second[3..].iter().all(|p| first.contains(p) && p % 5 > 0), "then known learnable ones: {second:?}");
    }

    #[test]
    fn mastered_problems_leave() {
        let (mut part, mut rates) = (
            LearnableCurriculum { above: 0.25, below_or_equal: 0.75, ..LearnableCurriculum::default() },
            PassRates::default(),
        );
        observe(&mut rates, &next(&mut part, SIZE, &PassRates::default()));
        assert_eq!(sorted(next(&mut part, 4, &rates)), [2, 3, 7, 8], "pass rates 1/2 and 3/4");
        for _ in 0..12 {
            rates.observe(1, 8, true);
        }
        assert_eq!(sorted(next(&mut part, 3, &rates)), [2, 3, 7]);
        assert_eq!(part.metrics(), [("share", 0.3)]);
    }

    #[test]
    fn all_problems_are_drawn_while_none_is_learnable() {
        let (mut part, mut rates) =
            (LearnableCurriculum { levels: vec![2], ..LearnableCurriculum::default() }, PassRates::default());
        for _ in 0..3 {
            let problems = next(&mut part, 5, &rates);
            assert_eq!(sorted(problems.clone()), [5, 6, 7, 8, 9]);
            for problem in problems {
                rates.observe(2, problem, false);
            }
        }
        assert_eq!(part.metrics(), [("share", 0.0)]);
        let none = part.next(0, 3, &ProblemPool::default(), &rates, &Chance::new(9));
        assert!(none.problems.is_empty());
    }

    #[test]
    fn placebo_keeps_as_many_problems_at_random() {
        let (mut part, mut rates) =
            (LearnableCurriculum { by_chance: true, ..LearnableCurriculum::default() }, PassRates::default());
        observe(&mut rates, &next(&mut part, SIZE, &PassRates::default()));
        let kept: BTreeSet<usize> = (0..4).flat_map(|_| next(&mut part, 8, &rates)).collect();
        assert_eq!(kept.len(), 8, "eight of ten are learnable");
        assert!(kept.contains(&0) || kept.contains(&5), "this seed keeps a problem that never passes: {kept:?}");
        assert_eq!(part.metrics(), [("share", 0.8)]);
    }

    #[test]
    fn state_resumes_exactly() {
        let (mut part, mut rates) = (LearnableCurriculum::default(), PassRates::default());
        for _ in 0..4 {
            let problems = next(&mut part, 3, &rates);
            observe(&mut rates, &problems);
        }
        let mut copy = LearnableCurriculum::default();
        copy.load(part.save()).unwrap();
        assert_eq!(copy.metrics(), part.metrics());
        for _ in 0..4 {
            assert_eq!(next(&mut part, 5, &rates), next(&mut copy, 5, &rates));
        }
        assert!(copy.load(json!([1])).is_err());
    }

    #[test]
    fn bounds_are_ordered_shares() {
        for (above, below_or_equal) in [(0.5, 0.5), (-0.1, 1.0), (0.0, 1.1), (f64::NAN, 1.0), (0.0, f64::NAN)] {
            assert!(
                !LearnableCurriculum { above, below_or_equal, ..LearnableCurriculum::default() }.check().is_empty()
            );
        }
        assert_eq!(LearnableCurriculum::default().check(), []);
    }
}
