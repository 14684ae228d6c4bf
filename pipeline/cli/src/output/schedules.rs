//! Formats schedules as text: a line in a table, or a page.

use super::human::table;
use std::fmt::Write as _;
use trainyard_daemon::operations::{BackfillRow, PastTick, SchedulePage, ScheduleRow, ScheduleStatus};
use trainyard_spec::schedule::{ScheduleStart, Trigger};

pub fn list(rows: &[ScheduleRow]) -> String {
    if rows.is_empty() {
        return "no schedules yet; `trainyard serve --workflows FOLDER` creates them".to_string();
    }
    let header = ["schedule", "status", "starts", "next (its zone)", "next (UTC)", "last run", "ended"];
    let cells = |row: &ScheduleRow| {
        vec![
            row.name.clone(),
            status(row.status).to_string(),
            starts(&row.start),
            row.next_local.clone().unwrap_or_default(),
            row.next.as_deref().map(short).unwrap_or_default(),
            row.last.as_ref().and_then(|last| last.run.as_ref()).map(ToString::to_string).unwrap_or_default(),
            row.last.as_ref().map(end).unwrap_or_default(),
        ]
    };
    table(&header, &rows.iter().map(cells).collect::<Vec<_>>())
}

pub fn page(page: &SchedulePage) -> String {
    let row = &page.row;
    let mut text = format!("schedule {}: {}, {}\nfile {}", row.name, status(row.status), starts(&row.start), row.file);
    if let Some(pause) = &page.paused {
        let why = pause.why.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
        let _ = write!(text, "\npaused by {} at {}{why}", pause.by, pause.at);
    }
    if let (Some(next), Some(local)) = (&row.next, &row.next_local) {
        let _ = write!(text, "\nnext tick {local} ({next})");
    }
    let _ = write!(text, "\n{} ticks fired, {} passed without a run", page.fired, page.skipped);
    for open in &page.waiting {
        let of = open.backfill.as_ref().map(|id| format!(" of backfill {id}")).unwrap_or_default();
        let _ = write!(text, "\nopen: tick {}{of}, run {}", open.tick, open.run);
    }
    if !page.backfills.is_empty() {
        let header = ["backfill", "status", "from", "to", "left", "open", "succeeded", "failed", "had a run"];
        let rows: Vec<Vec<String>> = page.backfills.iter().map(backfill).collect();
        let _ = write!(text, "\n\n{}", table(&header, &rows));
    }
    if !page.recent.is_empty() {
        let cells = |past: &PastTick| {
            let run = past.run.as_ref().map(ToString::to_string).unwrap_or_default();
            vec![past.tick.clone(), end(past), run, past.why.clone().unwrap_or_default()]
        };
        let rows: Vec<Vec<String>> = page.recent.iter().map(cells).collect();
        let _ = write!(text, "\n\n{}", table(&["tick", "status", "run", "why"], &rows));
    }
    text
}

fn backfill(row: &BackfillRow) -> Vec<String> {
    let status = word(&row.status);
    let numbers = [row.left as u64, row.open as u64, row.succeeded, row.failed, row.skipped];
    let front = [row.id.clone(), status, short(&row.from), short(&row.to)];
    front.into_iter().chain(numbers.map(|n| n.to_string())).collect()
}

fn end(past: &PastTick) -> String {
    match (&past.outcome, &past.skipped) {
        (Some(outcome), _) => word(outcome),
        (None, Some(why)) => format!("skipped ({})", word(why)),
        (None, None) => String::new(),
    }
}

/// Returns the JSON name of a value as words: `_` becomes a blank.
fn word(value: &impl serde::Serialize) -> String {
    let json = serde_json::to_value(value).unwrap_or_default();
    json.as_str().unwrap_or_default().replace('_', " ")
}

fn status(status: ScheduleStatus) -> &'static str {
    match status {
        ScheduleStatus::Active => "active",
        ScheduleStatus::Paused => "paused",
        ScheduleStatus::Removed => "removed",
    }
}

fn starts(start: &ScheduleStart) -> String {
    match start {
        ScheduleStart::Cron { cron, timezone } => format!("{cron} {timezone}"),
        ScheduleStart::On { on: Trigger::Artifact(name) } => format!("on {name}"),
        ScheduleStart::On { on: Trigger::Files(place) } => format!("on files in {place}"),
    }
}

/// Shortens an RFC 3339 time in UTC to `2026-11-21 02:00:00`.
fn short(time: &str) -> String {
    time.get(..19).unwrap_or(time).replace('T', " ")
}
