//! When a workflow starts by itself: a cron pattern in a time zone.
//!
//! Schedules are validated here and handed on in the plan. Nothing in this build fires them yet, and `check` says so.

use crate::diagnostic::Diagnostic;
use crate::read::{Bound, Reader};
use croner::Cron;
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use serde::Serialize;
use std::str::FromStr;

/// What the key `schedule` says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Schedule {
    /// Five fields, or six with seconds first.
    pub cron: String,
    /// IANA name; `UTC` by default.
    pub timezone: String,
    /// Which missed ticks are made up for.
    pub catchup: Catchup,
    /// What happens to a tick during a run.
    pub overlap: Overlap,
}

/// What to do about ticks that passed while nothing was there to see them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Overlap {
    /// Let the tick pass.
    Skip,
    /// Start when the run before has ended.
    Queue,
    /// Start at once, beside the other run.
    Allow,
}

impl Schedule {
    /// The first tick after a Unix time in milliseconds.
    pub fn next_after(&self, unix_millis: i64) -> Option<i64> {
        let zone = TimeZone::get(&self.timezone).ok()?;
        let from = Zoned::new(Timestamp::from_millisecond(unix_millis).ok()?, zone);
        let next = Cron::from_str(&self.cron).ok()?.find_next_occurrence(&from, false).ok()?;
        Some(next.timestamp().as_millisecond())
    }
}

/// Reads `schedule: {cron, timezone, catchup, overlap}`.
pub fn read(bound: &Bound, reader: &mut Reader<'_>) -> Option<Schedule> {
    let fields = reader.map(bound, "`schedule`", &["cron", "timezone", "catchup", "overlap"])?;
    let timezone = reader.optional(fields.get("timezone"), |r, b| {
        let name = r.string(b, "`timezone`")?;
        if TimeZone::get(&name).is_ok() {
            return Some(name);
        }
        let d = Diagnostic::error("schedule", b.span, format!("there is no time zone `{name}`"));
        r.report(d.help("use an IANA name such as `UTC` or `Europe/Paris`"));
        None
    });
    let catchup = reader.optional(fields.get("catchup"), |r, b| r.word(b, "`catchup`", &["latest", "all", "none"]));
    let overlap = reader.optional(fields.get("overlap"), |r, b| r.word(b, "`overlap`", &["skip", "queue", "allow"]));
    let Some(cron_bound) = fields.get("cron") else {
        reader.report(
            Diagnostic::error("missing-key", bound.span, "`schedule` has no `cron`").help("add `cron: \"0 2 * * *\"`"),
        );
        return None;
    };
    let cron = reader.string(cron_bound, "`cron`")?;
    if let Err(e) = Cron::from_str(&cron) {
        let d = Diagnostic::error("schedule", cron_bound.span, format!("`{cron}` is not a cron pattern: {e}"));
        reader.report(d.help("minute, hour, day of month, month, day of week, as in `0 2 * * *`"));
        return None;
    }
    let timezone = timezone?.unwrap_or_else(|| "UTC".to_string());
    let catchup = match catchup? {
        Some("all") => Catchup::All,
        Some("none") => Catchup::None,
        _ => Catchup::Latest,
    };
    let overlap = match overlap? {
        Some("queue") => Overlap::Queue,
        Some("allow") => Overlap::Allow,
        _ => Overlap::Skip,
    };
    let schedule = Schedule { cron, timezone, catchup, overlap };
    // A fixed instant (2024-01-01) keeps the check a function of the file.
    if schedule.next_after(1_704_067_200_000).is_none() {
        reader.report(Diagnostic::error("schedule", cron_bound.span, format!("`{}` never comes true", schedule.cron)));
        return None;
    }
    Some(schedule)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_follow_the_time_zone_through_the_change_of_clocks() {
        let schedule = Schedule {
            cron: "30 2 * * *".into(),
            timezone: "Europe/Paris".into(),
            catchup: Catchup::Latest,
            overlap: Overlap::Skip,
        };
        // 2026-01-01T00:00:00Z → 02:30 in Paris is 01:30Z.
        assert_eq!(schedule.next_after(1_767_225_600_000), Some(1_767_231_000_000));
        // In summer it is 00:30Z: after 2026-07-01T00:00:00Z.
        assert_eq!(schedule.next_after(1_782_864_000_000), Some(1_782_865_800_000));
    }
}
