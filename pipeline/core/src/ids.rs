//! Names of runs, stage instances and attempts.

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
        let (y, mo, d, h, mi, s) = civil_from_unix(clock.unix_millis() / 1000);
        let millis = clock.unix_millis().rem_euclid(1000);
        let tail = chance.at("run_id", &[]).next_u64() & 0xffff;
        Self(format!("{y:04}{mo:02}{d:02}-{h:02}{mi:02}{s:02}-{millis:03x}{tail:04x}"))
    }
    /// Returns `yyyy-mm`: the folder under `runs/` in the store.
    pub fn month(&self) -> String {
        format!("{}-{}", self.0.get(..4).unwrap_or("0000"), self.0.get(4..6).unwrap_or("00"))
    }
}

/// Returns year, month, day, hour, minute and second (UTC) of a Unix time in seconds, by Howard Hinnant's algorithm for
/// the proleptic Gregorian calendar.
pub fn civil_from_unix(seconds: i64) -> (i64, i64, i64, i64, i64, i64) {
    let (days, rest) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let doe = z.rem_euclid(146_097);
    let yoe = (doe - doe / 1_460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let (day, month) = (doy - (153 * mp + 2) / 5 + 1, if mp < 10 { mp + 3 } else { mp - 9 });
    let year = yoe + era * 400 + i64::from(month <= 2);
    (year, month, day, rest / 3_600, rest / 60 % 60, rest % 60)
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
    fn civil_dates_match_known_instants() {
        assert_eq!(civil_from_unix(0), (1970, 1, 1, 0, 0, 0));
        assert_eq!(civil_from_unix(951_782_400), (2000, 2, 29, 0, 0, 0));
        assert_eq!(civil_from_unix(1_795_234_530), (2026, 11, 21, 4, 15, 30));
        assert_eq!(civil_from_unix(-1), (1969, 12, 31, 23, 59, 59));
    }

    #[test]
    fn the_stage_id_leaves_out_the_axes() {
        assert_eq!(StageKey("rl[seed=1]".into()).stage_id(), "rl");
        assert_eq!(StageKey("sft".into()).stage_id(), "sft");
    }
}
