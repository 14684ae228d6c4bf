//! Defines the names of runs and stage instances, and the numbers of attempts and writers.

use crate::units::timestamp;
use crate::{Chance, Clock};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Name of a run: UTC time of creation, its milliseconds in hexadecimal, and four random characters
/// (`20261121-041530-2a17f3a`). Sorts by time.
///
/// ```
/// use trainyard_core::{Chance, RunId, clock::ManualClock};
///
/// let run = RunId::new(&ManualClock::at_millis(1_795_234_530_042), &Chance::new(7));
/// assert!(run.0.starts_with("20261121-041530-02a"));
/// assert_eq!(run.month(), "2026-11");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct RunId(pub String);

impl RunId {
    /// Creates a name from an injected time and seed.
    pub fn new(clock: &dyn Clock, chance: &Chance) -> Self {
        let created = timestamp(clock.unix_millis());
        let millis = clock.unix_millis().rem_euclid(1000);
        let tail = chance.at("run_id", &[]).next_u64() & 0xffff;
        Self(format!("{}-{millis:03x}{tail:04x}", created.strftime("%Y%m%d-%H%M%S")))
    }
    /// Returns `yyyy-mm`: the folder under `runs/` in the store.
    pub fn month(&self) -> String {
        format!("{}-{}", self.0.get(..4).unwrap_or("0000"), self.0.get(4..6).unwrap_or("00"))
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A stage instance in a plan: the stage id, plus its fan-out axes in file order (`rl[seed=1]`, `eval[item=0]`).
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct StageKey(pub String);

impl StageKey {
    /// Returns the stage id without its axes.
    pub fn stage_id(&self) -> &str {
        self.0.split('[').next().unwrap_or(&self.0)
    }
}

impl fmt::Display for StageKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Number of an attempt among those of one stage in one run, from 1. It only grows.
pub type AttemptNumber = u32;
/// Number of a writer among those of one run's journal, from 1. It only grows.
pub type Epoch = u64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stage_id_omits_the_axes() {
        assert_eq!(StageKey("rl[seed=1]".into()).stage_id(), "rl");
        assert_eq!(StageKey("sft".into()).stage_id(), "sft");
    }
}
