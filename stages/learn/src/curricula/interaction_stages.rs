//! Implements `interaction_stages` (ScalingInter-RL), which raises the turn limit in stages.
//!
//! With a long horizon from the start the agent wastes turns and training collapses; with a short horizon it never
//! learns to continue. Short episodes first train the use of observations, and longer ones then train exploration
//! (AgentGym-RL, 2509.08755).

use super::epoch_sampler::EpochSampler;
use crate::part::{Curriculum, Draw, Needs, ProblemPool, RlPart};
use crate::pass_rates::PassRates;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use trainyard_api::PartOptions;
use trainyard_core::{Chance, Error, MetricInfo, OptionProblem, Reduce, Result};

/// Options of `interaction_stages`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct InteractionStages {
    /// Turn limit of each stage, in order, never falling.
    pub turns: Vec<u32>,
    /// Steps per stage; the last stage lasts until the end of the run.
    #[schemars(range(min = 1))]
    pub every: u64,
    /// Levels of the problems to draw; empty = all.
    pub levels: Vec<u32>,
    /// Deck and current limit; saved in checkpoints.
    #[serde(skip)]
    state: InteractionState,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
struct InteractionState {
    #[serde(rename = "deck")]
    sampler: EpochSampler,
    /// Turn limit of the last draw.
    limit: Option<u32>,
}

impl Default for InteractionStages {
    fn default() -> Self {
        Self { turns: vec![2, 3, 4], every: 10, levels: Vec::new(), state: InteractionState::default() }
    }
}

impl PartOptions for InteractionStages {
    const KIND: &'static str = "interaction_stages";
    const SUMMARY: &'static str = "turn limit grows in stages, problems in shuffled passes (ScalingInter-RL)";
    const DOC: &'static str = "Turn limit at step s (from 0): turns[min(s / every, last)]; the environment's own\n\
        limit still applies. Every problem of the chosen levels is drawn once per pass, as in `uniform`. Needs\n\
        several turns. State: the pass and the position in it.\n\
        Source: 2509.08755 (released code: a list of rounds, stepwise).";
    fn metrics() -> Vec<MetricInfo> {
        let metric = MetricInfo::new("turn_limit", "turns", "Turn limit of the step.")
            .optional()
            .reduced_by(Reduce::LastTenth)
            .former_name("turn_limit");
        vec![metric.initial(), metric]
    }
    fn check(&self) -> Vec<OptionProblem> {
        let mut problems: Vec<OptionProblem> =
            OptionProblem::out_of_range("/every", self.every, 1..).into_iter().collect();
        if self.turns.is_empty() || self.turns[0] == 0 || self.turns.windows(2).any(|w| w[1] < w[0]) {
            let message = format!("{:?} must be a list of limits of at least 1 that never fall", self.turns);
            problems.push(OptionProblem::new("/turns", message).help("write for example [2, 3, 4]"));
        }
        problems
    }
}

impl RlPart for InteractionStages {
    fn needs(&self) -> Needs {
        Needs { multi_turn: true, ..Needs::NONE }
    }
    fn save(&self) -> Value {
        json!(self.state)
    }
    fn load(&mut self, state: Value) -> Result<()> {
        self.state = serde_json::from_value(state)
            .map_err(|e| Error::data(format!("state of curriculum `interaction_stages`: {e}")))?;
        Ok(())
    }
}

impl Curriculum for InteractionStages {
    fn next(&mut self, step: u64, count: usize, pool: &ProblemPool, _rates: &PassRates, chance: &Chance) -> Draw {
        self.state.limit = self.limit(step);
        let problems = self.state.sampler.draw(&super::of_levels(pool, &self.levels), count, 0, chance);
        Draw { problems, max_turns: self.state.limit, ..Draw::default() }
    }
    fn metrics(&self) -> Vec<(&'static str, f64)> {
        self.state.limit.map(|l| ("turn_limit", f64::from(l))).into_iter().collect()
    }
}

impl InteractionStages {
    fn limit(&self, step: u64) -> Option<u32> {
        let stage = usize::try_from(step / self.every.max(1)).unwrap_or(usize::MAX);
        self.turns.get(stage).or(self.turns.last()).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::part::PoolProblem;

    fn pool() -> ProblemPool {
        let problem = |i: u32| PoolProblem { id: i.to_string(), level: 1 + i % 2, ..PoolProblem::default() };
        ProblemPool { problems: (0..12).map(problem).collect() }
    }
    fn next(part: &mut InteractionStages, step: u64, count: usize) -> Draw {
        part.next(step, count, &pool(), &PassRates::default(), &Chance::new(3))
    }

    #[test]
    fn limit_grows_in_stages_and_stays() {
        let mut part = InteractionStages { turns: vec![1, 4, 4, 9], every: 3, ..InteractionStages::default() };
        let limits: Vec<u32> = (0..14).map(|step| next(&mut part, step, 1).max_turns.unwrap()).collect();
        assert_eq!(limits, [1, 1, 1, 4, 4, 4, 4, 4, 4, 9, 9, 9, 9, 9]);
        assert_eq!(part.metrics(), [("turn_limit", 9.0)]);
        assert_eq!(part.limit(u64::MAX), Some(9));
        assert!(InteractionStages::default().metrics().is_empty());
    }

    #[test]
    fn problems_come_once_per_pass_in_any_stage() {
        let mut part = InteractionStages { every: 1, levels: vec![2], ..InteractionStages::default() };
        let mut drawn: Vec<usize> = (0..3).flat_map(|step| next(&mut part, step, 2).problems).collect();
        drawn.sort_unstable();
        assert_eq!(drawn, [1, 3, 5, 7, 9, 11]);
    }

    #[test]
    fn state_resumes_exactly() {
        let mut part = InteractionStages { every: 2, ..InteractionStages::default() };
        next(&mut part, 0, 5);
        let mut copy = InteractionStages { every: 2, ..InteractionStages::default() };
        copy.load(part.save()).unwrap();
        assert_eq!(copy.metrics(), part.metrics());
        for step in 1..6 {
            assert_eq!(next(&mut part, step, 5), next(&mut copy, step, 5));
        }
        assert!(copy.load(json!("x")).is_err());
    }

    #[test]
    fn falling_or_missing_limits_are_rejected() {
        for turns in [vec![], vec![0, 1], vec![3, 2]] {
            assert_eq!(InteractionStages { turns, ..InteractionStages::default() }.check()[0].pointer, "/turns");
        }
        assert!(!InteractionStages { every: 0, ..InteractionStages::default() }.check().is_empty());
        assert_eq!(InteractionStages::default().check(), []);
    }
}
