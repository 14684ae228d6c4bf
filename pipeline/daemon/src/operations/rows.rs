//! Schedules, ticks and backfills as users see them.

use crate::reconciler::next_tick;
use crate::schedule::decide::next_due;
use crate::schedule::event::{SkipReason, TickOutcome, time};
use crate::schedule::state::{Backfill, ClosedTick, Pause, PendingTick, ScheduleState};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_core::RunId;
use trainyard_spec::Schedule;
use trainyard_spec::schedule::ScheduleStart;

/// Maximum ticks of one backfill.
pub(super) const MAX_TICKS: usize = 10_000;

/// Whether a schedule starts runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ScheduleStatus {
    /// The schedule starts runs.
    Active,
    /// A user paused the schedule.
    Paused,
    /// The workflow file was removed.
    Removed,
}

/// Schedule, in short.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ScheduleRow {
    /// Name of the schedule and its workflow.
    pub name: String,
    /// Whether the schedule starts runs.
    pub status: ScheduleStatus,
    /// Trigger of runs.
    #[serde(flatten)]
    pub start: ScheduleStart,
    /// Next tick; RFC 3339, UTC; null if the clock starts no runs.
    pub next: Option<String>,
    /// Next tick in local time of the schedule's zone.
    pub next_local: Option<String>,
    /// Last finished tick.
    pub last: Option<PastTick>,
    /// Last skipped tick, if no run has ended since.
    pub last_skipped: Option<PastTick>,
    /// Number of ticks with unfinished runs.
    pub open: usize,
    /// Workflow file, as named by the daemon.
    pub file: String,
}

/// Schedule, with all details.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SchedulePage {
    /// Summary.
    #[serde(flatten)]
    pub row: ScheduleRow,
    /// Schedule as declared in the file.
    pub schedule: Schedule,
    /// Pause in force.
    pub paused: Option<PauseInfo>,
    /// Ticks with unfinished runs, oldest first.
    pub waiting: Vec<OpenTick>,
    /// Last finished or skipped ticks, newest first.
    pub recent: Vec<PastTick>,
    /// Backfills, newest first.
    pub backfills: Vec<BackfillRow>,
    /// Number of fired ticks.
    pub fired: u64,
    /// Number of skipped ticks.
    pub skipped: u64,
}

/// Pause of a schedule.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PauseInfo {
    /// Time; RFC 3339, UTC.
    pub at: String,
    /// User or process that paused the schedule.
    pub by: String,
    /// Reason given by the user.
    pub why: Option<String>,
}

/// Tick with an unfinished run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OpenTick {
    /// Tick name.
    pub tick: String,
    /// Run id; the run may not have begun.
    pub run: RunId,
    /// Backfill of the tick.
    pub backfill: Option<String>,
}

/// Finished or skipped tick.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PastTick {
    /// Tick name.
    pub tick: String,
    /// Run id; null if the tick was skipped.
    pub run: Option<RunId>,
    /// Outcome of the run; null if the tick was skipped.
    pub outcome: Option<TickOutcome>,
    /// Reason for skipping; null if the tick had a run.
    pub skipped: Option<SkipReason>,
    /// Reason why the run did not begin.
    pub why: Option<String>,
    /// Time of the decision; RFC 3339, UTC.
    pub at: String,
}

/// Backfill.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BackfillRow {
    /// Backfill id.
    pub id: String,
    /// `running`, `done` or `cancelled`.
    pub status: BackfillStatus,
    /// Earliest tick; RFC 3339, UTC.
    pub from: String,
    /// Latest tick; RFC 3339, UTC.
    pub to: String,
    /// Maximum concurrent runs.
    pub concurrency: u32,
    /// Whether ticks that had a run are run again.
    pub again: bool,
    /// Number of remaining ticks.
    pub left: usize,
    /// Number of unfinished runs.
    pub open: usize,
    /// Number of succeeded runs.
    pub succeeded: u64,
    /// Number of other finished runs.
    pub failed: u64,
    /// Number of ticks that had a run before.
    pub skipped: u64,
}

/// Progress of a backfill.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BackfillStatus {
    /// Ticks remain, or runs are unfinished.
    Running,
    /// All runs are finished.
    Done,
    /// No more ticks are started.
    Cancelled,
}

pub(super) fn row(name: &str, state: &ScheduleState, now: i64) -> Option<ScheduleRow> {
    let definition = state.definition.as_ref()?;
    let next = next_due(name, state, now);
    let pattern = definition.schedule.pattern();
    Some(ScheduleRow {
        name: name.to_string(),
        status: match (&state.paused, state.removed) {
            (_, true) => ScheduleStatus::Removed,
            (Some(_), false) => ScheduleStatus::Paused,
            (None, false) => ScheduleStatus::Active,
        },
        start: definition.schedule.start.clone(),
        next: next.map(time),
        next_local: next.and_then(|at| pattern.as_ref()?.local(at)),
        last: state.last.as_ref().map(past),
        last_skipped: state.recent.back().filter(|closed| closed.skip.is_some()).map(past),
        open: state.open.len(),
        file: definition.file.clone(),
    })
}

pub(super) fn page(name: &str, state: &ScheduleState, now: i64) -> Option<SchedulePage> {
    let paused = |p: &Pause| PauseInfo { at: time(p.at), by: p.by.clone(), why: p.why.clone() };
    let waiting =
        |o: &PendingTick| OpenTick { tick: o.tick.id.clone(), run: o.run.clone(), backfill: o.backfill.clone() };
    Some(SchedulePage {
        row: row(name, state, now)?,
        schedule: state.definition.as_ref()?.schedule.clone(),
        paused: state.paused.as_ref().map(paused),
        waiting: state.open.iter().map(waiting).collect(),
        recent: state.recent.iter().rev().map(past).collect(),
        backfills: state.backfills.iter().rev().map(|backfill| backfill_row(backfill, state)).collect(),
        fired: state.fired,
        skipped: state.skipped,
    })
}

fn past(past: &ClosedTick) -> PastTick {
    PastTick {
        tick: past.tick.id.clone(),
        run: past.run.clone(),
        outcome: past.outcome,
        skipped: past.skip.clone(),
        why: past.why.clone(),
        at: time(past.at),
    }
}

pub(super) fn backfill_row(backfill: &Backfill, state: &ScheduleState) -> BackfillRow {
    let request = &backfill.request;
    let open = state.of_backfill(&request.id).count();
    let pattern = state.definition.as_ref().and_then(|definition| definition.schedule.pattern());
    let remaining = pattern.map_or(0, |pattern| match next_tick(backfill, |at| pattern.next_after(at)) {
        Some(next) => pattern.between(next - 1, request.to, MAX_TICKS).len(),
        None => 0,
    });
    BackfillRow {
        id: request.id.clone(),
        status: match (backfill.cancelled, remaining + open) {
            (true, _) => BackfillStatus::Cancelled,
            (false, 0) => BackfillStatus::Done,
            (false, _) => BackfillStatus::Running,
        },
        from: time(request.from),
        to: time(request.to),
        concurrency: request.concurrency,
        again: request.again,
        left: remaining,
        open,
        succeeded: backfill.succeeded,
        failed: backfill.failed,
        skipped: backfill.skipped,
    }
}
