//! Words for the parts of a schedule.

use crate::outcomes;
use crate::text;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use maud::{Markup, html};
use trainyard_daemon::operations::{BackfillStatus, PastTick, ScheduleStatus};
use trainyard_daemon::schedule::event::SkipReason;
use trainyard_spec::schedule::{ScheduleStart, Trigger};

/// Returns the state of a schedule.
pub fn state(status: ScheduleStatus) -> &'static str {
    match status {
        ScheduleStatus::Active => "active",
        ScheduleStatus::Paused => "paused",
        ScheduleStatus::Removed => "removed",
    }
}

/// Returns the state of a backfill.
pub fn backfill(status: BackfillStatus) -> &'static str {
    match status {
        BackfillStatus::Running => "running",
        BackfillStatus::Done => "done",
        BackfillStatus::Cancelled => "cancelled",
    }
}

/// Returns what starts the runs of a schedule.
pub fn starts(start: &ScheduleStart) -> String {
    match start {
        ScheduleStart::Cron { cron, timezone } => format!("{cron} {timezone}"),
        ScheduleStart::On { on: Trigger::Artifact(name) } => format!("new content of {name}"),
        ScheduleStart::On { on: Trigger::Files(place) } => format!("new files in {place}"),
    }
}

/// Returns the reason why a tick has no run.
pub fn skipped(why: &SkipReason) -> &'static str {
    match why {
        SkipReason::Overlap => "the previous run was still active",
        SkipReason::Missed => "no daemon was running in time",
        SkipReason::Full => "too many ticks were waiting",
        SkipReason::Done => "it already had a run",
    }
}

/// Renders a skipped tick in short.
pub fn skipped_mark(why: &SkipReason) -> Markup {
    html! { span .status data-status="skipped" { span aria-hidden="true" { "∅ " } "skipped" } ": " (skipped(why)) }
}

/// Returns the zone of a schedule; UTC if it does not start by the clock.
pub fn zone(start: &ScheduleStart) -> TimeZone {
    match start {
        ScheduleStart::Cron { timezone, .. } => TimeZone::get(timezone).unwrap_or(TimeZone::UTC),
        ScheduleStart::On { .. } => TimeZone::UTC,
    }
}

/// Renders the end of a tick: its outcome or the reason for skipping.
pub fn past(past: &PastTick) -> Markup {
    html! {
        @if let Some(of) = past.outcome { (outcomes::mark(of)) }
        @if let Some(why) = &past.skipped { (skipped_mark(why)) }
    }
}

/// Renders a time to minutes in a zone, as in `2026-11-28 13:07 CET`.
pub fn minutes(time: &str, zone: &TimeZone) -> Markup {
    formatted(time, zone, "%Y-%m-%d %H:%M %Z")
}

/// Renders the time of a tick in a zone, as in `2026-11-28 02:00:00 CET`; another name of a tick as it is.
pub fn tick(name: &str, zone: &TimeZone) -> Markup {
    formatted(name, zone, "%Y-%m-%d %H:%M:%S %Z")
}

fn formatted(time: &str, zone: &TimeZone, format: &str) -> Markup {
    match time.parse::<Timestamp>() {
        Ok(at) => {
            let shown = at.to_zoned(zone.clone()).strftime(format).to_string();
            html! { time datetime=(time) title=(time) { (shown) } }
        }
        Err(_) => html! { (text::cut(time, 80).0) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_in_the_zone_of_the_schedule() {
        let zone = |timezone: &str| zone(&ScheduleStart::Cron { cron: "0 2 * * *".into(), timezone: timezone.into() });
        let (paris, lost) = (zone("Europe/Paris"), zone("Mars/Olympus"));
        let shown = tick("2026-11-10T01:00:00Z", &paris).into_string();
        assert!(
            shown.contains(">2026-11-10 02:00:00 CET<") && shown.contains("title=\"2026-11-10T01:00:00Z\""),
            "{shown}"
        );
        assert!(minutes("2026-07-10T22:30:00Z", &paris).into_string().contains(">2026-07-11 00:30 CEST<"));
        assert!(minutes("2026-07-10T22:30:00Z", &lost).into_string().contains(">2026-07-10 22:30 UTC<"));
        assert_eq!(tick("2026-11-10:by-hand-<b>", &paris).into_string(), "2026-11-10:by-hand-&lt;b&gt;");
    }
}
