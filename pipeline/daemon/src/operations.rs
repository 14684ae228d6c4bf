//! Shows schedules to users and executes their actions on schedules. All functions use only the store, in which a
//! daemon finds the changes.

mod rows;

pub use rows::{BackfillRow, BackfillStatus, OpenTick, PastTick, PauseInfo, SchedulePage, ScheduleRow, ScheduleStatus};

use crate::log::ScheduleLog;
use crate::schedule::event::{BackfillRequest, ScheduleEvent, Tick, time};
use crate::schedule::state::ScheduleState;
use rows::{MAX_TICKS, backfill_row, page, row};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_core::{Chance, Clock, Error, Result, RunId};
use trainyard_store::{Store, layout};

/// Maximum concurrent runs of one backfill.
const MAX_CONCURRENCY: u32 = 1_000;

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
    list_of(store, &names(store).await?, now).await
}

/// Returns the schedules with these names that were ever defined.
pub async fn list_of(store: &Store, names: &[String], now: i64) -> Result<Vec<ScheduleRow>> {
    let mut rows = Vec::new();
    for name in names {
        rows.extend(row(name, ScheduleLog::open(store, name).await?.state(), now));
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
