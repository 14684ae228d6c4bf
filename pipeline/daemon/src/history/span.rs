//! Reads the records that belong to a span of time: those that were written in it, and those of backfills of its ticks,
//! which may be written long after.

use crate::log::ScheduleLog;
use crate::schedule::event::{ScheduleEvent, ScheduleRecord, Tick};
use crate::schedule::state::{Backfill, ScheduleState};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use trainyard_core::{Result, RunId};

/// Maximum records that a month or a page reads, and that it reads for its backfills.
pub const MAX_RECORDS: u64 = 4_000;
/// Records before a span that are searched for the ticks of its runs.
const LOOK_BACK: u64 = 256;
/// Records of backfills that are read at once.
const CHUNK: u64 = 256;

/// Records of a span of time. A record of a backfill belongs to the span of its tick, any other one to that in which it
/// was written.
pub struct SpanRecords {
    /// Span, in Unix milliseconds.
    span: Range<i64>,
    /// Numbers of the records that were written in the span.
    written: Range<u64>,
    /// Records that were read, by number, also some of other spans.
    records: BTreeMap<u64, ScheduleRecord>,
    /// Whether records of backfills are missing because there are too many after their request.
    pub is_cut: bool,
}

impl SpanRecords {
    /// Reads the records of a span, of which `written` are those that were written in it. Errors: those of
    /// [`ScheduleLog::open`].
    pub async fn read(log: &ScheduleLog, span: Range<i64>, written: Range<u64>) -> Result<Self> {
        let mut part = Self { span, written: written.clone(), records: BTreeMap::new(), is_cut: false };
        part.add(log, written.start.saturating_sub(LOOK_BACK)..written.end).await?;
        part.read_backfills(log).await?;
        Ok(part)
    }
    /// Reads further records. Errors: those of [`ScheduleLog::open`].
    pub async fn add(&mut self, log: &ScheduleLog, numbers: Range<u64>) -> Result<()> {
        let Range { mut start, mut end } = numbers;
        while start < end && self.records.contains_key(&start) {
            start += 1;
        }
        while start < end && self.records.contains_key(&(end - 1)) {
            end -= 1;
        }
        self.records.extend(log.records(start..end).await?);
        Ok(())
    }
    /// Returns all records that were read, in order.
    pub fn all(&self) -> impl Iterator<Item = &ScheduleRecord> {
        self.records.values()
    }
    /// Returns the records of the span in order, each with its number and the time, in Unix milliseconds, to which it
    /// belongs.
    pub fn of_span(&self) -> Vec<(u64, i64, &ScheduleRecord)> {
        let ticks: BTreeMap<&RunId, i64> = self.all().filter_map(backfilled_run).collect();
        let place = |number: &u64, record: &ScheduleRecord| {
            let tick = match &record.event {
                ScheduleEvent::Ended { run, .. } => ticks.get(run).copied(),
                event => decision(event).map(|(_, tick)| tick.at),
            };
            match tick {
                Some(tick) => self.span.contains(&tick).then_some(tick),
                // Clocks of several daemons may differ at the borders.
                None if self.written.contains(number) => Some(record.at.clamp(self.span.start, self.span.end - 1)),
                None => None,
            }
        };
        self.records.iter().filter_map(|(number, record)| Some((*number, place(number, record)?, record))).collect()
    }

    /// Reads the records of the backfills with ticks of the span, from the first request on until all of these ticks
    /// are decided and their runs are over.
    async fn read_backfills(&mut self, log: &ScheduleLog) -> Result<()> {
        let is_of_span =
            |b: &&Backfill| b.request.from < self.span.end && b.reached.is_some_and(|tick| tick >= self.span.start);
        let backfills: Vec<&Backfill> = log.state().backfills.iter().filter(is_of_span).collect();
        let Some(since) = backfills.iter().map(|backfill| backfill.at).min() else { return Ok(()) };
        let first = log.first_at(since).await?;
        let mut next = first;
        while next < log.state().next && !self.has_all(&backfills, first..next, log.state()) {
            if next - first >= MAX_RECORDS {
                self.is_cut = true;
                break;
            }
            self.add(log, next..next.saturating_add(CHUNK)).await?;
            next = next.saturating_add(CHUNK);
        }
        Ok(())
    }
    /// Returns whether these records have all decisions of backfills about ticks of the span, and the ends of their
    /// runs, except of runs that are open.
    fn has_all(&self, backfills: &[&Backfill], numbers: Range<u64>, state: &ScheduleState) -> bool {
        let mut reached: BTreeMap<&str, i64> = BTreeMap::new();
        let mut runs: BTreeSet<&RunId> = BTreeSet::new();
        for (_, record) in self.records.range(numbers) {
            if let Some((id, tick)) = decision(&record.event) {
                let last = reached.entry(id).or_insert(tick.at);
                *last = tick.at.max(*last);
            }
            match &record.event {
                ScheduleEvent::Ended { run, .. } => {
                    runs.remove(run);
                }
                _ => runs.extend(backfilled_run(record).filter(|(_, at)| self.span.contains(at)).map(|(run, _)| run)),
            }
        }
        // A backfill decides its ticks in order.
        let is_decided = |backfill: &&Backfill| {
            let last = backfill.reached.map(|tick| tick.min(self.span.end));
            reached.get(backfill.request.id.as_str()).copied() >= last
        };
        backfills.iter().all(is_decided) && runs.into_iter().all(|run| state.open(run).is_some())
    }
}

/// Returns the backfill and the tick of a decision of a backfill.
fn decision(event: &ScheduleEvent) -> Option<(&str, &Tick)> {
    match event {
        ScheduleEvent::Fired { tick, backfill: Some(id), .. }
        | ScheduleEvent::Skipped { tick, backfill: Some(id), .. } => Some((id, tick)),
        _ => None,
    }
}

/// Returns the run of a backfill that a record promises, with the time of its tick.
fn backfilled_run(record: &ScheduleRecord) -> Option<(&RunId, i64)> {
    match &record.event {
        ScheduleEvent::Fired { tick, run, backfill: Some(_), .. } => Some((run, tick.at)),
        _ => None,
    }
}
