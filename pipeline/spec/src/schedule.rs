//! When a workflow starts by itself: by a cron pattern in a time zone, when another workflow publishes an artifact, or
//! when files appear. `trainyard serve` acts on it (`docs/schedules.md`).
//!
//! The ticks of a pattern are instants, so the change of clocks is settled here: a pattern of a fixed time runs once a
//! day, right after the gap if its time does not exist and at the first of two times that are called alike. A pattern
//! with `*` or steps among hours or minutes follows the real hours.

mod read;
#[cfg(test)]
mod tests;

pub(crate) use read::read;

use croner::Cron;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::str::FromStr;

/// What the key `schedule` says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Schedule {
    /// What makes a run start.
    #[serde(flatten)]
    pub start: Start,
    /// Which missed ticks are made up for.
    pub catchup: Catchup,
    /// Ticks older than this are not made up for; milliseconds.
    pub catchup_window_millis: u64,
    /// What happens to a tick during a run.
    pub overlap: Overlap,
    /// The longest delay of a tick, in milliseconds; 0 for none.
    pub jitter_millis: u64,
}

/// What makes a run start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Start {
    /// The clock.
    Cron {
        /// Five fields, or six with seconds first.
        cron: String,
        /// IANA name; `UTC` by default.
        timezone: String,
    },
    /// Something that appears.
    On {
        /// What appears.
        on: Trigger,
    },
}

/// What must appear for a run to start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Trigger {
    /// `WORKFLOW.STAGE.OUTPUT`: a run of that workflow publishes another content of this output.
    Artifact(String),
    /// A folder, or a URL with a prefix: files that were not there before.
    Files(String),
}

/// What to do about ticks that passed while nothing was there to see them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Catchup {
    /// Run once for all of them.
    Latest,
    /// Run once for each.
    All,
    /// Let them pass.
    None,
}

/// What to do about a tick while the run before is still going.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Overlap {
    /// Let the tick pass.
    Skip,
    /// Start when the run before has ended.
    Queue,
    /// Cancel the run before, then start.
    Cancel,
    /// Start at once, beside the other run.
    Allow,
}

/// Default of `catchup_window`: a day.
pub const CATCHUP_WINDOW_MILLIS: u64 = 24 * 3_600_000;

impl Trigger {
    /// Workflow, stage and output of an artifact. A workflow's name may hold dots, those of stages and outputs do not.
    pub fn artifact(&self) -> Option<(&str, &str, &str)> {
        let Self::Artifact(name) = self else { return None };
        let (rest, output) = name.rsplit_once('.')?;
        let (workflow, stage) = rest.rsplit_once('.')?;
        let full = [workflow, stage, output].iter().all(|part| !part.is_empty());
        full.then_some((workflow, stage, output))
    }
}

impl Schedule {
    /// A schedule with defaults.
    pub fn new(start: Start) -> Self {
        Self {
            start,
            catchup: Catchup::Latest,
            catchup_window_millis: CATCHUP_WINDOW_MILLIS,
            overlap: Overlap::Skip,
            jitter_millis: 0,
        }
    }
    /// A schedule with defaults by cron pattern and zone.
    pub fn cron(cron: &str, timezone: &str) -> Self {
        Self::new(Start::Cron { cron: cron.to_string(), timezone: timezone.to_string() })
    }
    /// The pattern of its ticks; none if it does not start by the clock.
    pub fn pattern(&self) -> Option<Pattern> {
        let Start::Cron { cron, timezone } = &self.start else { return None };
        Some(Pattern { cron: Cron::from_str(cron).ok()?, zone: TimeZone::get(timezone).ok()? })
    }
    /// The first tick after a Unix time in milliseconds.
    pub fn next_after(&self, unix_millis: i64) -> Option<i64> {
        self.pattern()?.next_after(unix_millis)
    }
}

/// A cron pattern in its zone: a set of instants, each in Unix milliseconds.
#[derive(Debug, Clone)]
pub struct Pattern {
    cron: Cron,
    zone: TimeZone,
}

impl Pattern {
    /// The first tick after an instant.
    pub fn next_after(&self, unix_millis: i64) -> Option<i64> {
        let next = self.cron.find_next_occurrence(&self.at(unix_millis)?, false).ok()?;
        Some(next.timestamp().as_millisecond())
    }
    /// The last tick at or before an instant.
    pub fn last_until(&self, unix_millis: i64) -> Option<i64> {
        // A search backwards steps off whole seconds, and an instant within a second is behind the tick at its begin.
        let after = unix_millis.div_euclid(1_000).checked_add(1)?.checked_mul(1_000)?;
        let last = self.cron.find_previous_occurrence(&self.at(after)?, false).ok()?;
        Some(last.timestamp().as_millisecond())
    }
    /// The ticks after `after`, up to and including `until`, oldest first, at most `most` of them.
    pub fn between(&self, after: i64, until: i64, most: usize) -> Vec<i64> {
        let next = |from: &i64| self.next_after(*from).filter(|tick| *tick <= until);
        std::iter::successors(next(&after), next).take(most).collect()
    }
    /// An instant as the clocks of its zone show it.
    pub fn local(&self, unix_millis: i64) -> Option<String> {
        Some(self.at(unix_millis)?.strftime("%Y-%m-%d %H:%M:%S %Z").to_string())
    }

    /// The first and the last millisecond of a day, written `2026-11-21`, in its zone.
    pub fn day(&self, text: &str) -> Option<(i64, i64)> {
        let day: Date = text.parse().ok()?;
        let begin = |day: Date| Some(day.to_zoned(self.zone.clone()).ok()?.timestamp().as_millisecond());
        Some((begin(day)?, begin(day.tomorrow().ok()?)? - 1))
    }

    fn at(&self, unix_millis: i64) -> Option<Zoned> {
        Some(Zoned::new(Timestamp::from_millisecond(unix_millis).ok()?, self.zone.clone()))
    }
}
