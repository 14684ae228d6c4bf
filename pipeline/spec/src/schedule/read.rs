//! Reads the key `schedule`.

use super::{CATCHUP_WINDOW_MILLIS, Catchup, Overlap, Schedule, ScheduleStart, Trigger};
use crate::diagnostic::Diagnostic;
use crate::read::{BoundNode, MapFields, ValueReader};
use croner::Cron;
use jiff::tz::TimeZone;
use std::str::FromStr;
use std::time::Duration;

const KEYS: [&str; 7] = ["cron", "timezone", "on", "catchup", "catchup_window", "overlap", "jitter"];
/// Keys that are valid only with a cron pattern.
const CRON_KEYS: [&str; 4] = ["timezone", "catchup", "catchup_window", "jitter"];
/// Fixed instant (2024-01-01), so that the check depends on the file alone.
const SOME_DAY: i64 = 1_704_067_200_000;
/// Number of ticks whose distances are compared with `jitter`.
const COMPARED: usize = 50;

/// Reads `schedule: {cron, timezone, on, catchup, catchup_window, overlap, jitter}`.
pub(crate) fn read(bound: &BoundNode, reader: &mut ValueReader<'_>) -> Option<Schedule> {
    let fields = reader.map(bound, "`schedule`", &KEYS)?;
    let catchup = reader.optional(fields.get("catchup"), |r, b| r.word(b, "`catchup`", &["latest", "all", "none"]));
    let window = reader.optional(fields.get("catchup_window"), |r, b| r.duration(b, "`catchup_window`"));
    let words = ["skip", "queue", "cancel", "allow"];
    let overlap = reader.optional(fields.get("overlap"), |r, b| r.word(b, "`overlap`", &words));
    let jitter = reader.optional(fields.get("jitter"), |r, b| r.duration(b, "`jitter`"));
    let start = start(bound, &fields, reader)?;
    let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let schedule = Schedule {
        start,
        catchup: match catchup? {
            Some("all") => Catchup::All,
            Some("none") => Catchup::None,
            _ => Catchup::Latest,
        },
        catchup_window_millis: window?.map_or(CATCHUP_WINDOW_MILLIS, millis),
        overlap: match overlap? {
            Some("queue") => Overlap::Queue,
            Some("cancel") => Overlap::Cancel,
            Some("allow") => Overlap::Allow,
            _ => Overlap::Skip,
        },
        jitter_millis: jitter?.map_or(0, millis),
    };
    possible(&schedule, &fields, reader).then_some(schedule)
}

/// Reads `cron` with `timezone`, or `on`.
fn start(bound: &BoundNode, fields: &MapFields<'_>, reader: &mut ValueReader<'_>) -> Option<ScheduleStart> {
    match (fields.get("cron"), fields.get("on")) {
        (Some(_), Some(_)) => {
            let span = fields.key_span("on").unwrap_or(bound.span);
            let d = Diagnostic::error("schedule", span, "`schedule` has both `cron` and `on`");
            reader.report(d.help("give each a workflow file of its own; one may embed the other by `uses`"));
            None
        }
        (None, None) => {
            let d = Diagnostic::error("missing-key", bound.span, "`schedule` has no `cron`");
            reader.report(d.help("add `cron: \"0 2 * * *\"`"));
            None
        }
        (Some(cron), None) => {
            let timezone = reader.optional(fields.get("timezone"), timezone);
            let cron = pattern(cron, reader)?;
            Some(ScheduleStart::Cron { cron, timezone: timezone?.unwrap_or_else(|| "UTC".to_string()) })
        }
        (None, Some(on)) => {
            for key in CRON_KEYS {
                if let Some(span) = fields.key_span(key) {
                    let d = Diagnostic::error("schedule", span, format!("`{key}` has no meaning with `on`"));
                    reader.report(d.help("remove it: new artifacts and files are never missed"));
                }
            }
            trigger(on, reader).map(|on| ScheduleStart::On { on })
        }
    }
}

fn timezone(reader: &mut ValueReader<'_>, bound: &BoundNode) -> Option<String> {
    let name = reader.string(bound, "`timezone`")?;
    if TimeZone::get(&name).is_ok() {
        return Some(name);
    }
    let d = Diagnostic::error("schedule", bound.span, format!("there is no time zone `{name}`"));
    reader.report(d.help("use an IANA name such as `UTC` or `Europe/Paris`"));
    None
}

fn pattern(bound: &BoundNode, reader: &mut ValueReader<'_>) -> Option<String> {
    let cron = reader.string(bound, "`cron`")?;
    if let Err(e) = Cron::from_str(&cron) {
        let d = Diagnostic::error("schedule", bound.span, format!("`{cron}` is not a cron pattern: {e}"));
        reader.report(d.help("minute, hour, day of month, month, day of week, as in `0 2 * * *`"));
        return None;
    }
    Some(cron)
}

/// Reads `{artifact: WORKFLOW.STAGE.OUTPUT}` or `{files: PLACE}`.
fn trigger(bound: &BoundNode, reader: &mut ValueReader<'_>) -> Option<Trigger> {
    let fields = reader.map(bound, "`on`", &["artifact", "files"])?;
    match (fields.get("artifact"), fields.get("files")) {
        (Some(artifact), None) => {
            let name = reader.string(artifact, "`artifact`")?;
            let trigger = Trigger::Artifact(name.clone());
            if trigger.artifact().is_some() {
                return Some(trigger);
            }
            let d = Diagnostic::error("schedule", artifact.span, format!("`{name}` names no output of a workflow"));
            reader.report(d.help("write WORKFLOW.STAGE.OUTPUT, as in `problems.collect.problems`"));
            None
        }
        (None, Some(files)) => {
            let place = reader.string(files, "`files`")?;
            if place.starts_with('/') || place.contains("://") {
                return Some(Trigger::Files(place));
            }
            let d = Diagnostic::error("schedule", files.span, format!("`{place}` is not an absolute path or a URL"));
            reader.report(d.help("write an absolute folder, or a URL: `/data/new`, `s3://bucket/prefix`"));
            None
        }
        _ => {
            let d = Diagnostic::error("schedule", bound.span, "`on` must name one trigger");
            reader.report(d.help("write `on: {artifact: WORKFLOW.STAGE.OUTPUT}` or `on: {files: /data/new}`"));
            None
        }
    }
}

/// Whether the pattern ever matches, and no delay reaches the next tick.
fn possible(schedule: &Schedule, fields: &MapFields<'_>, reader: &mut ValueReader<'_>) -> bool {
    let (Some(pattern), ScheduleStart::Cron { cron, .. }) = (schedule.pattern(), &schedule.start) else { return true };
    let Some(bound) = fields.get("cron") else { return true };
    let ticks = pattern.between(SOME_DAY, i64::MAX, COMPARED);
    if ticks.is_empty() {
        reader.report(Diagnostic::error("schedule", bound.span, format!("`{cron}` never matches a time")));
        return false;
    }
    let shortest = ticks.windows(2).map(|pair| pair[1].abs_diff(pair[0])).min();
    if let Some(jitter) = fields.get("jitter").filter(|_| shortest.is_some_and(|gap| schedule.jitter_millis >= gap)) {
        let d = Diagnostic::error("schedule", jitter.span, "`jitter` may delay a tick until the next one");
        reader.report(d.help("make it shorter than the time between two ticks"));
        return false;
    }
    true
}
