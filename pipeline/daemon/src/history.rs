//! Shows the ticks of a schedule from its log: a page of them, newest first, and the counts of each day of a month.
//!
//! A record belongs to the day, in the zone of the schedule, on which it was written: a tick that was missed for a week
//! counts on the day on which a daemon found out, and a run on the day of its end. Records of a backfill belong to the
//! day of their tick.

mod span;

use crate::log::ScheduleLog;
use crate::schedule::event::{ScheduleEvent, ScheduleRecord, SkipReason, Tick, TickOutcome, time};
use crate::schedule::state::ScheduleState;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use span::{MAX_RECORDS, SpanRecords};
use std::collections::BTreeMap;
use trainyard_core::{Error, Result, RunId};
use trainyard_spec::Schedule;
use trainyard_spec::schedule::ScheduleStart;
use trainyard_store::Store;

/// Records after a page that are searched for the ends of its runs.
const LOOK_AHEAD: u64 = 256;
/// Maximum ticks of the future that a month counts.
const MAX_DUE: usize = 2_000;

/// Page of ticks.
#[derive(Debug, Clone, PartialEq)]
pub struct TickList {
    /// Ticks, the last decided first.
    pub ticks: Vec<TickRow>,
    /// Number of the record before which older ticks are; `None` at the beginning of the log.
    pub next: Option<u64>,
}

/// Decided tick.
#[derive(Debug, Clone, PartialEq)]
pub struct TickRow {
    /// Number of its record.
    pub record: u64,
    /// Tick name.
    pub tick: String,
    /// Time of the decision, in RFC 3339.
    pub at: String,
    /// Milliseconds from the tick to the decision.
    pub late_millis: i64,
    /// Daemon or user that decided.
    pub by: String,
    /// Number of earlier ticks that were decided with it.
    pub passed_over: u64,
    /// Backfill of the tick.
    pub backfill: Option<String>,
    /// Result of the decision.
    pub decision: TickDecisionRow,
}

/// Result of the decision about a tick.
#[derive(Debug, Clone, PartialEq)]
pub enum TickDecisionRow {
    /// The tick has no run.
    Skipped(SkipReason),
    /// The tick has a run.
    Fired {
        /// Run id.
        run: RunId,
        /// Outcome of the run; `None` if it is open, or ended long after.
        outcome: Option<TickOutcome>,
        /// Whether the run is waiting or in progress.
        is_open: bool,
        /// Reason why the run did not begin, or was given up.
        why: Option<String>,
    },
}

/// Counts of the days of a month.
#[derive(Debug, Clone, PartialEq)]
pub struct TickMonth {
    /// First day.
    pub first: Date,
    /// Name of the zone of its days.
    pub zone: String,
    /// Counts by day of the month, from 1 on; days without ticks are missing.
    pub days: BTreeMap<i8, DayCounts>,
    /// Current day, in the zone.
    pub today: Date,
    /// Whether the month has more records than are counted.
    pub is_cut: bool,
}

/// Counts of a day.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DayCounts {
    /// Runs that ended, by outcome.
    pub ended: BTreeMap<TickOutcome, u64>,
    /// Skipped ticks, with those that were passed over, without those of backfills.
    pub skipped: u64,
    /// Ticks that come due.
    pub due: u64,
}

/// Returns a page of at most `limit` ticks whose records are before `before`, or the last ones; with `day`, only those
/// decided on it and, of backfills, the ticks of that day. Errors: invalid (no day), those of [`ScheduleLog::open`].
pub async fn ticks(
    store: &Store,
    name: &str,
    (before, day): (Option<u64>, Option<&str>),
    limit: usize,
) -> Result<TickList> {
    let log = ScheduleLog::open(store, name).await?;
    if let Some(day) = day {
        return ticks_of_day(&log, (before, day), limit).await;
    }
    let end = before.unwrap_or(u64::MAX).min(log.state().next);
    let mut outcomes = Outcomes::default();
    for (_, record) in log.records(end..end.saturating_add(LOOK_AHEAD)).await? {
        outcomes.take(&record);
    }
    let (mut found, mut number) = (Vec::new(), end);
    let floor = end.saturating_sub(MAX_RECORDS);
    while number > floor && found.len() < limit {
        let chunk = log.records(number.saturating_sub(limit as u64).max(floor)..number).await?;
        number = number.saturating_sub(limit as u64).max(floor);
        for (at, record) in chunk.into_iter().rev() {
            outcomes.take(&record);
            found.extend(tick_row(at, &record, &outcomes, log.state()));
        }
    }
    let is_cut = found.len() > limit;
    found.truncate(limit);
    let last = if is_cut { found.last().map_or(number, |row| row.record) } else { number };
    Ok(TickList { ticks: found, next: (last > 0).then_some(last) })
}

async fn ticks_of_day(log: &ScheduleLog, (before, day): (Option<u64>, &str), limit: usize) -> Result<TickList> {
    let (begin, after) = day_bounds(&zone(log.state()), day)?;
    let before = before.unwrap_or(u64::MAX);
    let first = log.first_at(begin).await?;
    let end = log.first_at(after).await?.min(before).max(first);
    let floor = first.max(end.saturating_sub(MAX_RECORDS));
    let mut part = SpanRecords::read(log, begin..after, floor..end).await?;
    part.add(log, end..end.saturating_add(LOOK_AHEAD)).await?;
    let mut outcomes = Outcomes::default();
    part.all().for_each(|record| outcomes.take(record));
    let records = part.of_span().into_iter().rev().filter(|(number, ..)| *number < before);
    let rows = records.filter_map(|(number, _, record)| tick_row(number, record, &outcomes, log.state()));
    let mut found: Vec<TickRow> = rows.take(limit + 1).collect();
    let is_cut = found.len() > limit;
    found.truncate(limit);
    let next = if is_cut { found.last().map(|row| row.record) } else { (floor > first).then_some(floor) };
    Ok(TickList { ticks: found, next })
}

/// Returns the counts of a month, written `2026-11`; of the current one without a name. Errors: invalid (no month),
/// those of [`ScheduleLog::open`].
pub async fn month(store: &Store, name: &str, month: Option<&str>, now: i64) -> Result<TickMonth> {
    let log = ScheduleLog::open(store, name).await?;
    let zone = zone(log.state());
    let today = date_of(&zone, now)?;
    let first = match month {
        Some(month) => parse_day(&format!("{month}-01"), "month, such as 2026-11")?,
        None => today.first_of_month(),
    };
    let begin = begin_of(&zone, first)?;
    let end = begin_of(&zone, first.last_of_month().tomorrow().map_err(|e| not_a_day(&first, &e))?)?;
    let (from, to) = (log.first_at(begin).await?, log.first_at(end).await?);
    let mut days: BTreeMap<i8, DayCounts> = BTreeMap::new();
    let part = SpanRecords::read(&log, begin..end, from..to.min(from.saturating_add(MAX_RECORDS))).await?;
    for (_, at, record) in part.of_span() {
        count(record, days.entry(date_of(&zone, at)?.day()).or_default());
    }
    for at in due(name, log.state(), now.max(begin - 1), end - 1) {
        days.entry(date_of(&zone, at)?.day()).or_default().due += 1;
    }
    days.retain(|_, counts| *counts != DayCounts::default());
    let zone = zone.iana_name().unwrap_or("UTC").to_string();
    Ok(TickMonth { first, zone, days, today, is_cut: part.is_cut || to.saturating_sub(from) > MAX_RECORDS })
}

/// Ends of runs in the records that were read.
#[derive(Default)]
struct Outcomes(BTreeMap<RunId, (TickOutcome, Option<String>)>);

impl Outcomes {
    fn take(&mut self, record: &ScheduleRecord) {
        if let ScheduleEvent::Ended { run, outcome, why } = &record.event {
            self.0.insert(run.clone(), (*outcome, why.clone()));
        }
    }
    fn decision(&self, run: &RunId, state: &ScheduleState) -> TickDecisionRow {
        let ended = self.0.get(run).cloned();
        let is_open = ended.is_none() && state.open(run).is_some();
        let (outcome, why) = ended.map_or((None, None), |(outcome, why)| (Some(outcome), why));
        TickDecisionRow::Fired { run: run.clone(), outcome, is_open, why }
    }
}

fn tick_row(number: u64, record: &ScheduleRecord, outcomes: &Outcomes, state: &ScheduleState) -> Option<TickRow> {
    let row = |tick: &Tick, passed_over: u64, backfill: &Option<String>, decision| TickRow {
        record: number,
        tick: tick.id.clone(),
        at: time(record.at),
        late_millis: record.at - tick.at,
        by: record.by.clone(),
        passed_over,
        backfill: backfill.clone(),
        decision,
    };
    match &record.event {
        ScheduleEvent::Fired { tick, run, passed_over, backfill, .. } => {
            Some(row(tick, *passed_over, backfill, outcomes.decision(run, state)))
        }
        ScheduleEvent::Requested { tick, run, .. } => Some(row(tick, 0, &None, outcomes.decision(run, state))),
        ScheduleEvent::Skipped { tick, why, passed_over, backfill } => {
            Some(row(tick, *passed_over, backfill, TickDecisionRow::Skipped(why.clone())))
        }
        _ => None,
    }
}

fn count(record: &ScheduleRecord, counts: &mut DayCounts) {
    match &record.event {
        ScheduleEvent::Ended { outcome, .. } => *counts.ended.entry(*outcome).or_default() += 1,
        ScheduleEvent::Skipped { why: SkipReason::Done, .. } => {}
        ScheduleEvent::Skipped { passed_over, .. } => counts.skipped += 1 + passed_over,
        ScheduleEvent::Fired { passed_over, .. } => counts.skipped += passed_over,
        _ => {}
    }
}

/// Returns the ticks after a time that will fire; none for a schedule that is paused, removed, or without a clock.
fn due(name: &str, state: &ScheduleState, after: i64, until: i64) -> Vec<i64> {
    let is_active = crate::schedule::decide::next_due(name, state, after).is_some();
    let definition = state.active_definition().filter(|_| is_active);
    let pattern = definition.and_then(|definition| definition.schedule.pattern());
    pattern.map_or_else(Vec::new, |pattern| pattern.between(after, until, MAX_DUE))
}

/// Returns the zone of a schedule; UTC if it does not start by the clock.
fn zone(state: &ScheduleState) -> TimeZone {
    let name = state.definition.as_ref().and_then(|definition| match &definition.schedule {
        Schedule { start: ScheduleStart::Cron { timezone, .. }, .. } => Some(timezone.as_str()),
        Schedule { start: ScheduleStart::On { .. }, .. } => None,
    });
    name.and_then(|name| TimeZone::get(name).ok()).unwrap_or(TimeZone::UTC)
}

fn day_bounds(zone: &TimeZone, day: &str) -> Result<(i64, i64)> {
    let day = parse_day(day, "day, such as 2026-11-21")?;
    Ok((begin_of(zone, day)?, begin_of(zone, day.tomorrow().map_err(|e| not_a_day(&day, &e))?)?))
}

fn parse_day(text: &str, what: &str) -> Result<Date> {
    text.parse().map_err(|_| Error::invalid(format!("{text:?} is not in the calendar")).help(format!("give a {what}")))
}

fn begin_of(zone: &TimeZone, day: Date) -> Result<i64> {
    let begin = day.to_zoned(zone.clone()).map_err(|e| not_a_day(&day, &e))?;
    Ok(begin.timestamp().as_millisecond())
}

fn date_of(zone: &TimeZone, unix_millis: i64) -> Result<Date> {
    let at = jiff::Timestamp::from_millisecond(unix_millis);
    Ok(at.map_err(|e| not_a_day(&unix_millis, &e))?.to_zoned(zone.clone()).date())
}

fn not_a_day(day: &dyn std::fmt::Display, error: &jiff::Error) -> Error {
    Error::invalid(format!("{day} is outside of the calendar: {error}")).help("give a day of this century")
}

#[cfg(test)]
#[path = "history_tests.rs"]
mod tests;
