//! Implements `levels`, which unlocks levels by their measured pass rates.
//!
//! Group-relative RL learns only where some rollouts pass and some fail. Problems are therefore drawn among the
//! unlocked levels in proportion to p(1−p) of the recent pass rate, with a floor that keeps earlier levels in the
//! mixture and an extra share for the highest unlocked level. Promotion depends on measured outcomes, never on the step
//! count.

use super::epoch_sampler::EpochSampler;
use crate::part::{Curriculum, Draw, ProblemPool, RlPart};
use crate::pass_rates::PassRates;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use trainyard_api::PartOptions;
use trainyard_core::{Chance, Error, MetricInfo, OptionProblem, Reduce, Result};

/// Options of `levels`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Levels {
    /// Frontier at the start; 0 = the lowest level of the pool.
    pub start: u32,
    /// The next level unlocks when the frontier's recent pass rate reaches this.
    #[schemars(range(min = 0, max = 1))]
    pub promote_at: f64,
    /// Number of rollouts of the frontier over which the rate is measured.
    #[schemars(range(min = 1, max = 1024))]
    pub window: usize,
    /// Share of the draws reserved for the frontier before the rest is divided by p(1−p).
    #[schemars(range(min = 0, max = 1))]
    pub frontier_share: f64,
    /// Smallest weight of an unlocked level, compared with p(1−p), which is at most 0.25.
    #[schemars(range(min = 0))]
    pub floor: f64,
    /// Frontier and decks; saved in checkpoints.
    #[serde(skip)]
    state: LevelsState,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
struct LevelsState {
    /// Highest unlocked level; `None` before the first draw.
    frontier: Option<u32>,
    #[serde(rename = "decks")]
    samplers: BTreeMap<u32, EpochSampler>,
}

impl Default for Levels {
    fn default() -> Self {
        Self { start: 0, promote_at: 0.7, window: 64, frontier_share: 0.3, floor: 0.02, state: LevelsState::default() }
    }
}

impl PartOptions for Levels {
    const KIND: &'static str = "levels";
    const SUMMARY: &'static str = "levels unlock by measured pass rate";
    const DOC: &'static str = "The frontier level f is promoted when the pass rate over its last `window` rollouts\n\
        reaches `promote_at`. Of n problems, frontier_share·n come from f and the others from levels ≤ f in\n\
        proportion to max(p(1−p), floor), with p = recent pass rate (0.5 if unmeasured), by systematic sampling.\n\
        Within a level, problems come in shuffled passes.\n\n\
        State: frontier and one deck per level.";
    fn metrics() -> Vec<MetricInfo> {
        vec![
            MetricInfo::new("unlocked", "level", "Highest level that is unlocked.")
                .higher()
                .reduced_by(Reduce::LastTenth)
                .optional()
                .former_name("curriculum_level"),
        ]
    }
    fn check(&self) -> Vec<OptionProblem> {
        [
            OptionProblem::out_of_range("/promote_at", self.promote_at, 0.0..=1.0),
            OptionProblem::out_of_range("/window", self.window, 1..=1024),
            OptionProblem::out_of_range("/frontier_share", self.frontier_share, 0.0..=1.0),
            OptionProblem::out_of_range("/floor", self.floor, 0.0..),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

impl RlPart for Levels {
    fn save(&self) -> Value {
        json!(self.state)
    }
    fn load(&mut self, state: Value) -> Result<()> {
        self.state =
            serde_json::from_value(state).map_err(|e| Error::data(format!("state of curriculum `levels`: {e}")))?;
        Ok(())
    }
}

impl Curriculum for Levels {
    fn next(&mut self, step: u64, count: usize, pool: &ProblemPool, rates: &PassRates, chance: &Chance) -> Draw {
        let levels = pool.by_level();
        let Some(frontier) = self.promote(&levels, rates) else { return Draw::default() };
        let weights: Vec<(u32, f64)> = self.weights(frontier, &levels, rates);
        let offset =
            chance.at("levels", &[step, self.state.samplers.values().map(EpochSampler::total_drawn).sum()]).uniform();
        let mut problems = Vec::with_capacity(count);
        for (level, share) in systematic(&weights, count, offset) {
            problems.extend(self.state.samplers.entry(level).or_default().draw(
                &levels[&level],
                share,
                u64::from(level),
                chance,
            ));
        }
        Draw { problems, ..Draw::default() }
    }
    fn metrics(&self) -> Vec<(&'static str, f64)> {
        self.state.frontier.map(|f| ("unlocked", f64::from(f))).into_iter().collect()
    }
}

impl Levels {
    /// Unlocks as many levels as the rates allow and returns the highest one, or `None` if the pool is empty.
    fn promote(&mut self, levels: &BTreeMap<u32, Vec<usize>>, rates: &PassRates) -> Option<u32> {
        let lowest = *levels.keys().next()?;
        let highest = *levels.keys().next_back()?;
        // The nearest level at or below `start` that has problems: a level without problems could never be passed.
        let first = *levels.range(..=self.start.max(lowest)).next_back()?.0;
        let mut frontier = self.state.frontier.unwrap_or(first);
        while frontier < highest && rates.recent(frontier, self.window).is_some_and(|p| p >= self.promote_at) {
            frontier = *levels.range(frontier + 1..).next()?.0;
        }
        self.state.frontier = Some(frontier);
        Some(frontier)
    }
    /// Returns the weight of each unlocked level, summing to 1.
    fn weights(&self, frontier: u32, levels: &BTreeMap<u32, Vec<usize>>, rates: &PassRates) -> Vec<(u32, f64)> {
        let learnable = |level: u32| {
            let p = rates.estimate(level, self.window).unwrap_or(0.5);
            (p * (1.0 - p)).max(self.floor).max(1e-6)
        };
        let unlocked: Vec<(u32, f64)> = levels.range(..=frontier).map(|(&l, _)| (l, learnable(l))).collect();
        let total: f64 = unlocked.iter().map(|(_, w)| w).sum();
        let share = |l: u32| if l == frontier { self.frontier_share } else { 0.0 };
        unlocked.iter().map(|&(l, w)| (l, share(l) + (1.0 - self.frontier_share) * w / total)).collect()
    }
}

/// Samples systematically: the counts sum to `count` and differ from count·weight by less than 1.
fn systematic(weights: &[(u32, f64)], count: usize, offset: f64) -> Vec<(u32, usize)> {
    let mut edge = 0.0;
    let mut taken = 0;
    let mut counts = Vec::with_capacity(weights.len());
    for (i, &(level, weight)) in weights.iter().enumerate() {
        edge += weight * count as f64;
        let upto = if i + 1 == weights.len() { count } else { ((edge - offset).ceil().max(0.0) as usize).min(count) };
        counts.push((level, upto.saturating_sub(taken)));
        taken = taken.max(upto);
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::part::PoolProblem;

    fn pool() -> ProblemPool {
        let problem = |i: u32| PoolProblem { id: i.to_string(), level: 1 + i % 3, ..PoolProblem::default() };
        ProblemPool { problems: (0..60).map(problem).collect() }
    }
    fn levels_of(draw: &Draw) -> Vec<u32> {
        draw.problems.iter().map(|&i| pool().problems[i].level).collect()
    }

    #[test]
    fn starts_easy_and_promotes_by_measured_rate() {
        let (chance, mut rates, mut part) = (Chance::new(1), PassRates::default(), Levels::default());
        assert!(levels_of(&part.next(0, 8, &pool(), &rates, &chance)).iter().all(|&l| l == 1));
        for _ in 0..63 {
            rates.observe(1, 0, true);
        }
        part.next(1, 8, &pool(), &rates, &chance);
        assert_eq!(part.metrics(), [("unlocked", 1.0)], "the window is not full yet");
        rates.observe(1, 0, true);
        let draw = part.next(2, 20, &pool(), &rates, &chance);
        assert_eq!(part.metrics(), [("unlocked", 2.0)]);
        let hard = levels_of(&draw).iter().filter(|&&l| l == 2).count();
        assert!((15..20).contains(&hard), "the frontier gets most, the passed level a few: {hard}");
    }

    #[test]
    fn start_between_levels_uses_the_level_below() {
        let problem = |level: u32| PoolProblem { level, ..PoolProblem::default() };
        let gap = ProblemPool { problems: vec![problem(1), problem(4)] };
        for (start, expected) in [(0, 1.0), (2, 1.0), (4, 4.0), (9, 4.0)] {
            let mut part = Levels { start, ..Levels::default() };
            part.next(0, 1, &gap, &PassRates::default(), &Chance::new(1));
            assert_eq!(part.metrics(), [("unlocked", expected)], "start {start}");
        }
        let (mut part, mut rates) = (Levels { start: 2, window: 1, ..Levels::default() }, PassRates::default());
        rates.observe(1, 0, true);
        part.next(0, 1, &gap, &rates, &Chance::new(1));
        assert_eq!(part.metrics(), [("unlocked", 4.0)]);
    }

    #[test]
    fn state_resumes_exactly() {
        let (chance, rates) = (Chance::new(2), PassRates::default());
        let mut part = Levels { start: 3, ..Levels::default() };
        part.next(0, 7, &pool(), &rates, &chance);
        let mut copy = Levels { start: 3, ..Levels::default() };
        copy.load(part.save()).unwrap();
        assert_eq!(part.next(1, 9, &pool(), &rates, &chance), copy.next(1, 9, &pool(), &rates, &chance));
        assert!(copy.load(json!("x")).is_err());
    }

    #[test]
    fn systematic_counts_add_up() {
        for (offset, count) in [(0.0, 10), (0.3, 7), (0.99, 1)] {
            let counts = systematic(&[(1, 0.25), (2, 0.25), (3, 0.5)], count, offset);
            assert_eq!(counts.iter().map(|c| c.1).sum::<usize>(), count);
        }
        assert_eq!(systematic(&[(1, 0.2), (2, 0.8)], 10, 0.5), [(1, 2), (2, 8)]);
    }
}
