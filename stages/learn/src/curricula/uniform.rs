//! Implements `uniform`, which draws all problems of the pool in shuffled passes, regardless of their level.

use super::epoch_sampler::EpochSampler;
use crate::part::{Curriculum, Draw, ProblemPool, RlPart};
use crate::pass_rates::PassRates;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use trainyard_api::PartOptions;
use trainyard_core::{Chance, Error, Result};

/// Options of `uniform`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct UniformCurriculum {
    /// Levels of the problems to draw; empty = all.
    pub levels: Vec<u32>,
    /// Position in the deck; saved in checkpoints.
    #[serde(skip)]
    sampler: EpochSampler,
}

impl PartOptions for UniformCurriculum {
    const KIND: &'static str = "uniform";
    const SUMMARY: &'static str = "all problems equally often, in shuffled passes";
    const DOC: &'static str =
        "Every problem of the chosen levels is drawn once per pass. State: the pass and the position in it.";
}

impl RlPart for UniformCurriculum {
    fn save(&self) -> Value {
        json!(self.sampler)
    }
    fn load(&mut self, state: Value) -> Result<()> {
        self.sampler =
            serde_json::from_value(state).map_err(|e| Error::data(format!("state of curriculum `uniform`: {e}")))?;
        Ok(())
    }
}

impl Curriculum for UniformCurriculum {
    fn next(&mut self, _step: u64, count: usize, pool: &ProblemPool, _rates: &PassRates, chance: &Chance) -> Draw {
        let allowed = |level: u32| self.levels.is_empty() || self.levels.contains(&level);
        let cards: Vec<usize> =
            pool.problems.iter().enumerate().filter(|(_, p)| allowed(p.level)).map(|(i, _)| i).collect();
        Draw { problems: self.sampler.draw(&cards, count, 0, chance), ..Draw::default() }
    }
}
