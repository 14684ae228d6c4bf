//! Table of ticks: why each was skipped, whether it was late, and its run.

use super::words;
use crate::layout::{empty, scrolling};
use crate::links::{Links, query};
use crate::outcomes;
use crate::text;
use jiff::tz::TimeZone;
use maud::{Markup, html};
use serde::Deserialize;
use trainyard_daemon::history::{TickDecisionRow, TickList, TickRow};

/// Seconds after a tick from which on its decision counts as late.
const LATE: i64 = 60;

/// Part of the history that a page shows.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct Shown {
    /// Month of the calendar, `2026-11`; the current one by default.
    pub month: Option<String>,
    /// Day of the listed ticks, `2026-11-21`; all by default.
    pub day: Option<String>,
    /// Only ticks whose records are before this one.
    pub before: Option<u64>,
}

/// Renders a page of ticks in a zone, with the links to other pages.
pub fn list(links: &Links, name: &str, listed: &TickList, shown: &Shown, zone: &TimeZone) -> Markup {
    let address = |before: Option<&str>, day: Option<&str>| {
        let month = shown.month.as_deref().map(|month| ("month", month));
        let (day, before) = (day.map(|day| ("day", day)), before.map(|before| ("before", before)));
        let parameters: Vec<(&str, &str)> = month.into_iter().chain(day).chain(before).collect();
        format!("{}{}#ticks", links.schedule(name), query(&parameters))
    };
    let next = listed.next.map(|next| next.to_string());
    html! {
        @if listed.ticks.is_empty() {
            (empty("No tick was decided here."))
        } @else {
            (scrolling("Ticks", &table(links, &listed.ticks, zone)))
        }
        nav .pages aria-label="Pages of ticks" {
            @if let Some(next) = &next {
                a rel="next" href=(address(Some(next.as_str()), shown.day.as_deref())) { "Older ticks" }
            }
            @if shown.before.is_some() { a href=(address(None, shown.day.as_deref())) { "Newest ticks" } }
            @if shown.day.is_some() { a href=(address(None, None)) { "Ticks of all days" } }
        }
    }
}

fn table(links: &Links, rows: &[TickRow], zone: &TimeZone) -> Markup {
    html! {
        table {
            thead { tr { th { "Tick" } th { "Decided" } th { "Result" } th { "Run" } th { "Details" } } }
            tbody {
                @for row in rows {
                    tr {
                        td { (words::tick(&row.tick, zone)) }
                        td { (words::minutes(&row.at, zone)) (late(row)) }
                        (decision(links, row))
                    }
                }
            }
        }
    }
}

/// Renders how late a decision was, if it was.
fn late(row: &TickRow) -> Markup {
    let seconds = row.late_millis / 1_000;
    #[expect(clippy::cast_precision_loss, reason = "a duration for display")]
    let shown = text::seconds(seconds as f64);
    html! { @if seconds >= LATE && row.backfill.is_none() { " " span .muted { (shown) " late" } } }
}

fn decision(links: &Links, row: &TickRow) -> Markup {
    html! {
        @match &row.decision {
            TickDecisionRow::Skipped(why) => {
                td { span .status data-status="skipped" { span aria-hidden="true" { "∅ " } "skipped" } }
                td {}
                td .wide { (details(row, Some(words::skipped(why)))) }
            }
            TickDecisionRow::Fired { run, outcome, is_open, why } => {
                td {
                    @match (outcome, is_open) {
                        (Some(of), _) => (outcomes::mark(*of)),
                        (None, true) => span .status data-status="running" { span aria-hidden="true" { "▶ " } "open" },
                        (None, false) => span .muted { "see the run" },
                    }
                }
                td { a .mono href=(links.run(&run.0)) { (text::visible(&run.0)) } }
                td .wide { (details(row, why.as_deref())) }
            }
        }
    }
}

/// Returns the reason of a decision and what else is known about it.
fn details(row: &TickRow, why: Option<&str>) -> String {
    let why = why.map(|why| text::cut(why, 500).0.into_owned());
    let passed_over = (row.passed_over > 0).then(|| format!("with {} earlier ticks", row.passed_over));
    let backfill = row.backfill.as_ref().map(|id| format!("backfill {}", text::visible(id)));
    let by_hand = row.tick.contains(":by-hand-").then(|| format!("started by {}", text::cut(&row.by, 80).0));
    [why, passed_over, backfill, by_hand].into_iter().flatten().collect::<Vec<_>>().join("; ")
}
