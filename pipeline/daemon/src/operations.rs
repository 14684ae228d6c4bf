//! Shows schedules to users and executes their actions on schedules. All functions use only the store, in which a
//! daemon finds the changes.

use crate::log::ScheduleLog;
use crate::reconciler::next_tick;
use crate::schedule::decide::next_due;
use crate::schedule::event::{BackfillRequest, ScheduleEvent, SkipReason, Tick, TickOutcome, time};
use crate::schedule::state::{Backfill, ClosedTick, Pause, PendingTick, ScheduleState};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_core::{Chance, Clock, Error, Result, RunId};
use trainyard_spec::Schedule;
use trainyard_spec::schedule::ScheduleStart;
use trainyard_store::{Store, layout};

/// Maximum ticks of one backfill.
const MAX_TICKS: usize = 10_000;
/// Maximum concurrent runs of one backfill.
const MAX_CONCURRENCY: u32 = 1_000;

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

/// Range of ticks to run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BackfillRange {
    /// Earliest tick: RFC 3339, or a day such as `2026-11-01` in the schedule's zone.
    pub from: String,
    /// Latest tick: RFC 3339, or a day, including all its ticks.
    pub to: String,
    /// Maximum concurrent runs.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 1000))]
    pub concurrency: u32,
    /// Whether ticks that had a run are run again.
    #[serde(default)]
    pub again: bool,
}

fn one() -> u32 {
    1
}

/// Author of a change to a schedule.
#[derive(Clone, Copy)]
pub struct Actor<'a> {
    pub clock: &'a dyn Clock,
    /// Source of ids.
    pub chance: Chance,
    /// Unique name; it ends in a mark of the process.
    pub name: &'a str,
}

/// Returns the names of all schedules of a store, sorted.
pub async fn names(store: &Store) -> Result<Vec<String>> {
    let folders = store.list_folders(layout::SCHEDULES).await?;
    // A leading dot is the only character of workflow names that is escaped.
    let name = |folder: String| folder.strip_prefix("@2e").map_or_else(|| folder.clone(), |rest| format!(".{rest}"));
    Ok(folders.into_iter().map(name).collect())
}

/// Returns whether a schedule with this name was ever defined.
pub async fn exists(store: &Store, name: &str) -> Result<bool> {
    Ok(ScheduleLog::open(store, name).await?.state().definition.is_some())
}

/// Returns all schedules that were ever defined, by name.
pub async fn list(store: &Store, now: i64) -> Result<Vec<ScheduleRow>> {
    let mut rows = Vec::new();
    for name in names(store).await? {
        rows.extend(row(&name, ScheduleLog::open(store, &name).await?.state(), now));
    }
    Ok(rows)
}

/// Returns one schedule. Errors: invalid (no such schedule).
pub async fn show(store: &Store, name: &str, now: i64) -> Result<SchedulePage> {
    let log = open(store, name).await?;
    page(name, log.state(), now).ok_or_else(|| Error::bug(format!("schedule `{name}` has no definition")))
}

/// Pauses a schedule; returns whether it was active before. Errors: invalid (no such schedule).
pub async fn pause(store: &Store, name: &str, actor: Actor<'_>, why: Option<String>) -> Result<bool> {
    let mut log = open(store, name).await?;
    let event = |state: &ScheduleState| state.paused.is_none().then(|| ScheduleEvent::Paused { why: why.clone() });
    Ok(log.append(actor.clock.unix_millis(), actor.name, event).await?.is_some())
}

/// Resumes a schedule; returns whether it was paused. Errors: invalid (no such schedule).
pub async fn resume(store: &Store, name: &str, actor: Actor<'_>) -> Result<bool> {
    let mut log = open(store, name).await?;
    let event = |state: &ScheduleState| state.paused.as_ref().map(|_| ScheduleEvent::Resumed {});
    Ok(log.append(actor.clock.unix_millis(), actor.name, event).await?.is_some())
}

/// Promises a run now, independently of the clock and of a pause. `overlap` determines when the run begins. Errors:
/// invalid (no such schedule, its file was removed).
pub async fn trigger(store: &Store, name: &str, actor: Actor<'_>) -> Result<OpenTick> {
    let mut log = open(store, name).await?;
    let now = actor.clock.unix_millis();
    let chance = actor.chance.child(name, &[now.cast_unsigned(), log.state().next]);
    let mark = chance.at("trigger", &[]).next_u32();
    let tick = Tick::manual(now, mark);
    let run = RunId(format!("{}{mark:08x}", RunId::new(actor.clock, &chance).0));
    let event = |state: &ScheduleState| {
        state.active_definition()?;
        Some(ScheduleEvent::Fired {
            tick: tick.clone(),
            run: run.clone(),
            passed_over: 0,
            backfill: None,
            listing: None,
        })
    };
    match log.append(now, actor.name, event).await? {
        Some(_) => Ok(OpenTick { tick: tick.id, run, backfill: None }),
        None => Err(no_schedule_error(name)),
    }
}

/// Requests the runs of a range of ticks. Errors: invalid (no such schedule, no ticks, too many, a range in the future
/// or reversed).
pub async fn backfill(store: &Store, name: &str, actor: Actor<'_>, range: &BackfillRange) -> Result<BackfillRow> {
    let mut log = open(store, name).await?;
    let now = actor.clock.unix_millis();
    let request = request(log.state(), name, range, now)?;
    let chance = actor.chance.child(name, &[now.cast_unsigned(), log.state().next]);
    let id = format!("{:08x}", chance.at("backfill", &[]).next_u32());
    let request = BackfillRequest { id: id.clone(), ..request };
    let event = |state: &ScheduleState| {
        state.active_definition()?;
        Some(ScheduleEvent::BackfillRequested { backfill: request.clone() })
    };
    log.append(now, actor.name, event).await?;
    let state = log.state();
    state.backfill(&id).map(|backfill| backfill_row(backfill, state)).ok_or_else(|| no_schedule_error(name))
}

/// Cancels the remaining ticks of a backfill; its runs continue. Returns whether it was running. Errors: invalid (no
/// such schedule or backfill).
pub async fn cancel_backfill(store: &Store, name: &str, id: &str, actor: Actor<'_>) -> Result<bool> {
    let mut log = open(store, name).await?;
    if log.state().backfill(id).is_none() {
        let ids: Vec<&str> = log.state().backfills.iter().map(|b| b.request.id.as_str()).collect();
        let help = if ids.is_empty() {
            "the schedule has no backfills".to_string()
        } else {
            format!("its backfills are {}", ids.join(", "))
        };
        return Err(Error::invalid(format!("schedule `{name}` has no backfill `{id}`")).help(help));
    }
    let event = |state: &ScheduleState| {
        let running = state.backfill(id).is_some_and(|backfill| !backfill.cancelled);
        running.then(|| ScheduleEvent::BackfillCancelled { id: id.to_string() })
    };
    Ok(log.append(actor.clock.unix_millis(), actor.name, event).await?.is_some())
}

async fn open(store: &Store, name: &str) -> Result<ScheduleLog> {
    let log = ScheduleLog::open(store, name).await?;
    if log.state().definition.is_some() {
        return Ok(log);
    }
    let known = names(store).await?;
    let help = match trainyard_spec::diagnostic::suggest(name, known.iter().map(String::as_str)) {
        Some(help) => help,
        None => "`trainyard schedules list` lists the schedules; `trainyard serve` creates them".to_string(),
    };
    Err(Error::invalid(format!("there is no schedule `{name}` in {}", store.url())).help(help))
}

fn no_schedule_error(name: &str) -> Error {
    Error::invalid(format!("the file of schedule `{name}` was removed"))
        .help("restore it in the folder of `trainyard serve`")
}

fn request(state: &ScheduleState, name: &str, range: &BackfillRange, now: i64) -> Result<BackfillRequest> {
    let schedule = &state.active_definition().ok_or_else(|| no_schedule_error(name))?.schedule;
    let pattern = schedule.pattern().ok_or_else(|| {
        Error::invalid(format!("schedule `{name}` does not start by the clock, so it has no ticks to backfill"))
    })?;
    let instant = |text: &str, last: bool| {
        let day = pattern.day(text).map(|(first, end)| if last { end } else { first });
        let parsed = day.or_else(|| text.parse::<jiff::Timestamp>().ok().map(|at| at.as_millisecond()));
        parsed.ok_or_else(|| {
            Error::invalid(format!("`{text}` is not a time"))
                .help("write a day, `2026-11-01`, or an instant, `2026-11-01T02:00:00Z`")
        })
    };
    let (from, to) = (instant(&range.from, false)?, instant(&range.to, true)?.min(now));
    let ticks = pattern.between(from.saturating_sub(1), to, MAX_TICKS + 1).len();
    match ticks {
        0 => Err(Error::invalid(format!("schedule `{name}` has no tick from {} to {}", time(from), time(to)))
            .help("give a range in the past, with its start first")),
        n if n > MAX_TICKS => {
            Err(Error::invalid(format!("the range has more than {MAX_TICKS} ticks")).help("use several shorter ranges"))
        }
        _ if range.concurrency == 0 || range.concurrency > MAX_CONCURRENCY => Err(Error::invalid(format!(
            "concurrency is {}, but must be from 1 to {MAX_CONCURRENCY}",
            range.concurrency
        ))),
        _ => Ok(BackfillRequest { id: String::new(), from, to, concurrency: range.concurrency, again: range.again }),
    }
}

fn row(name: &str, state: &ScheduleState, now: i64) -> Option<ScheduleRow> {
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
        open: state.open.len(),
        file: definition.file.clone(),
    })
}

fn page(name: &str, state: &ScheduleState, now: i64) -> Option<SchedulePage> {
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

fn backfill_row(backfill: &Backfill, state: &ScheduleState) -> BackfillRow {
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
