//! Defines schedules. A schedule starts a workflow at the ticks of a cron pattern in a time zone, when another workflow
//! publishes an artifact, or when files appear. `trainyard serve` executes schedules (`docs/schedules.md`).
//!
//! The ticks of a pattern are instants, so this module handles changes of the clock. A pattern of a fixed time runs
//! once a day: right after the gap if its time does not exist, and at the first of two equal times. A pattern with `*`
//! or steps among hours or minutes follows elapsed hours.

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

/// Schedule of a workflow: the key `schedule`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Schedule {
    /// Event that starts a run.
    #[serde(flatten)]
    pub start: ScheduleStart,
    /// Which missed ticks are caught up.
    pub catchup: Catchup,
    /// Age in milliseconds above which missed ticks are not caught up.
    pub catchup_window_millis: u64,
    /// Handling of a tick during a run.
    pub overlap: Overlap,
    /// The longest delay of a tick, in milliseconds; 0 for none.
    pub jitter_millis: u64,
}

/// Event that starts a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ScheduleStart {
    /// A cron pattern in a time zone.
    Cron {
        /// Five fields, or six with seconds first.
        cron: String,
        /// IANA name; `UTC` by default.
        timezone: String,
    },
    /// An artifact or files that appear.
    On {
        /// The artifact or files.
        on: Trigger,
    },
}

/// Artifact or files whose appearance starts a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Trigger {
    /// `WORKFLOW.STAGE.OUTPUT`: a run of that workflow publishes new content of this output.
    Artifact(String),
    /// A folder, or a URL with a prefix: new files appear in it.
    Files(String),
}

/// Handling of ticks that passed while no daemon was running.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Catchup {
    /// Run once for all of them.
    Latest,
    /// Run once for each.
    All,
    /// Skip them.
    None,
}

/// Handling of a tick while the previous run is still active.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Overlap {
    /// Skip the tick.
    Skip,
    /// Start when the previous run has ended.
    Queue,
    /// Cancel the previous run, then start.
    Cancel,
    /// Start at once, in parallel with the previous run.
    Allow,
}

/// Default of `catchup_window`: a day.
pub const CATCHUP_WINDOW_MILLIS: u64 = 24 * 3_600_000;

impl Trigger {
    /// Returns workflow, stage and output of an artifact. A workflow's name may contain dots, those of stages and
    /// outputs do not.
    pub fn artifact(&self) -> Option<(&str, &str, &str)> {
        let Self::Artifact(name) = self else { return None };
        let (rest, output) = name.rsplit_once('.')?;
        let (workflow, stage) = rest.rsplit_once('.')?;
        let full = [workflow, stage, output].iter().all(|part| !part.is_empty());
        full.then_some((workflow, stage, output))
    }
}

impl Schedule {
    /// Creates a schedule with defaults.
    pub fn new(start: ScheduleStart) -> Self {
        Self {
            start,
            catchup: Catchup::Latest,
            catchup_window_millis: CATCHUP_WINDOW_MILLIS,
            overlap: Overlap::Skip,
            jitter_millis: 0,
        }
    }
    /// Creates a schedule with defaults from a cron pattern and a zone.
    pub fn cron(cron: &str, timezone: &str) -> Self {
        Self::new(ScheduleStart::Cron { cron: cron.to_string(), timezone: timezone.to_string() })
    }
    /// Returns the cron pattern; `None` if the schedule starts by a trigger.
    pub fn pattern(&self) -> Option<CronPattern> {
        let ScheduleStart::Cron { cron, timezone } = &self.start else { return None };
        Some(CronPattern { cron: Cron::from_str(cron).ok()?, zone: TimeZone::get(timezone).ok()? })
    }
    /// Returns the first tick after a Unix time in milliseconds.
    pub fn next_after(&self, unix_millis: i64) -> Option<i64> {
        self.pattern()?.next_after(unix_millis)
    }
}

/// A cron pattern in its zone: a set of instants, each in Unix milliseconds.
#[derive(Debug, Clone)]
pub struct CronPattern {
    cron: Cron,
    zone: TimeZone,
}

impl CronPattern {
    /// Returns the first tick after an instant.
    pub fn next_after(&self, unix_millis: i64) -> Option<i64> {
        let next = self.cron.find_next_occurrence(&self.at(unix_millis)?, false).ok()?;
        Some(next.timestamp().as_millisecond())
    }
    /// Returns the last tick at or before an instant.
    pub fn last_until(&self, unix_millis: i64) -> Option<i64> {
        // A backward search steps by whole seconds, and an instant within a second is after the tick at its start.
        let after = unix_millis.div_euclid(1_000).checked_add(1)?.checked_mul(1_000)?;
        let last = self.cron.find_previous_occurrence(&self.at(after)?, false).ok()?;
        Some(last.timestamp().as_millisecond())
    }
    /// Returns the ticks after `after`, up to and including `until`, oldest first, at most `limit` of them.
    pub fn between(&self, after: i64, until: i64, limit: usize) -> Vec<i64> {
        let next = |from: &i64| self.next_after(*from).filter(|tick| *tick <= until);
        std::iter::successors(next(&after), next).take(limit).collect()
    }
    /// Formats an instant as local time in the pattern's zone.
    pub fn local(&self, unix_millis: i64) -> Option<String> {
        Some(self.at(unix_millis)?.strftime("%Y-%m-%d %H:%M:%S %Z").to_string())
    }

    /// Returns the first and the last millisecond of a day, written `2026-11-21`, in the pattern's zone.
    pub fn day(&self, text: &str) -> Option<(i64, i64)> {
        let day: Date = text.parse().ok()?;
        let begin = |day: Date| Some(day.to_zoned(self.zone.clone()).ok()?.timestamp().as_millisecond());
        Some((begin(day)?, begin(day.tomorrow().ok()?)? - 1))
    }

    fn at(&self, unix_millis: i64) -> Option<Zoned> {
        Some(Zoned::new(Timestamp::from_millisecond(unix_millis).ok()?, self.zone.clone()))
    }
}
