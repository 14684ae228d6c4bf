//! Folds the records of a schedule's log into the state of the schedule. Like the view of a run, the state is a
//! function of the records alone.

use super::event::{
    BackfillRequest, Definition, ScheduleEvent, ScheduleRecord, SkipReason, Tick, TickOutcome, WorkflowFile,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, VecDeque};
use trainyard_core::{Digest, RunId};

/// Maximum number of ticks that are remembered as decided, separately for the clock and for triggers. Fired ticks that
/// are forgotten still have their objects in the store.
const REMEMBERED: usize = 4_096;
/// Finished and skipped ticks that are kept for display.
const RECENT: usize = 50;
/// Number of backfills above which cancelled ones are dropped.
const BACKFILLS: usize = 20;

/// State of a schedule.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScheduleState {
    /// Number of the next record.
    pub next: u64,
    /// Current definition; `None` before the first file was read.
    pub definition: Option<Definition>,
    /// Whether the file was removed.
    pub removed: bool,
    /// Current pause; `None` if the schedule is not paused.
    pub paused: Option<Pause>,
    /// Time of definition or resumption (Unix milliseconds); ticks up to it are ignored.
    pub since: i64,
    /// Decided ticks of the clock.
    pub decided: BTreeSet<i64>,
    /// Names of ticks of triggers, in the order of firing.
    pub appeared: VecDeque<String>,
    /// Digest of the last listing of the watched files.
    pub listing: Option<Digest>,
    /// Ticks with unfinished runs, in the order of firing.
    pub open: Vec<PendingTick>,
    /// Finished or skipped ticks, oldest first.
    pub recent: VecDeque<ClosedTick>,
    /// Last finished tick.
    pub last: Option<ClosedTick>,
    /// Backfills, oldest first.
    pub backfills: Vec<Backfill>,
    /// Number of fired ticks.
    pub fired: u64,
    /// Number of skipped ticks.
    pub skipped: u64,
}

/// Pause of a schedule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Pause {
    /// Unix milliseconds.
    pub at: i64,
    /// User or process that paused the schedule.
    pub by: String,
    /// Reason given by the user.
    pub why: Option<String>,
}

/// Tick with an unfinished run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingTick {
    /// Tick.
    pub tick: Tick,
    /// Run id.
    pub run: RunId,
    /// Process that promised the run.
    pub by: String,
    /// Time of the promise, in Unix milliseconds.
    pub at: i64,
    /// File and texts of the definition that was current at that time, or of the request.
    pub definition: WorkflowFile,
    /// Backfill of the tick.
    pub backfill: Option<String>,
    /// Arguments of `-p` of a run that a user requested; `None` for all other runs.
    #[serde(default)]
    pub requested: Option<Vec<String>>,
}

impl PendingTick {
    /// Returns whether the run comes in addition to those of the schedule, so that it waits for none of them.
    pub fn is_additional(&self) -> bool {
        self.backfill.is_some() || self.requested.is_some()
    }
}

/// Finished or skipped tick.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClosedTick {
    /// Tick.
    pub tick: Tick,
    /// Run id; `None` if the tick was skipped.
    pub run: Option<RunId>,
    /// Outcome of the run.
    pub outcome: Option<TickOutcome>,
    /// Reason for skipping.
    pub skip: Option<SkipReason>,
    /// Reason why the run did not begin.
    pub why: Option<String>,
    /// Time of the decision, in Unix milliseconds.
    pub at: i64,
}

/// Progress of a backfill.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backfill {
    /// Requested range.
    pub request: BackfillRequest,
    /// Time of the request, in Unix milliseconds.
    pub at: i64,
    /// User or process that requested it.
    pub by: String,
    /// Last decided tick.
    pub reached: Option<i64>,
    /// Whether no more ticks are started.
    pub cancelled: bool,
    /// Number of succeeded runs.
    pub succeeded: u64,
    /// Number of other finished runs.
    pub failed: u64,
    /// Number of ticks that had a run before.
    pub skipped: u64,
}

impl ScheduleState {
    /// Applies the next record.
    pub fn apply(&mut self, record: &ScheduleRecord) {
        self.next += 1;
        let at = record.at;
        match &record.event {
            ScheduleEvent::Defined { definition } => {
                let same = !self.removed && self.definition.as_ref().is_some_and(|d| d.schedule == definition.schedule);
                // A new text of the file with the same schedule must not forget missed ticks.
                if !same {
                    self.since = at;
                    self.listing = None;
                }
                self.removed = false;
                self.definition = Some(definition.clone());
            }
            ScheduleEvent::Removed {} => self.removed = true,
            ScheduleEvent::Paused { why } => {
                self.paused.get_or_insert(Pause { at, by: record.by.clone(), why: why.clone() });
            }
            ScheduleEvent::Resumed {} => {
                if self.paused.take().is_some() {
                    self.since = at;
                }
            }
            ScheduleEvent::Fired { tick, run, passed_over, backfill, listing } => {
                self.listing = listing.clone().or(self.listing.take());
                self.skipped += passed_over;
                self.fire(record, tick, run, backfill.as_ref());
            }
            ScheduleEvent::Requested { tick, run, workflow, params } => self.open.push(PendingTick {
                tick: tick.clone(),
                run: run.clone(),
                by: record.by.clone(),
                at,
                definition: workflow.clone(),
                backfill: None,
                requested: Some(params.clone()),
            }),
            ScheduleEvent::Listed { listing } => self.listing = Some(listing.clone()),
            ScheduleEvent::Skipped { tick, why, passed_over, backfill } => {
                let past =
                    ClosedTick { tick: tick.clone(), run: None, outcome: None, skip: Some(why.clone()), why: None, at };
                match backfill.as_ref().and_then(|id| self.backfill_mut(id)) {
                    Some(backfill) => {
                        backfill.reached = Some(tick.at);
                        backfill.skipped += 1;
                    }
                    None => {
                        self.decide(tick);
                        self.skipped += 1 + passed_over;
                        self.remember(past);
                    }
                }
            }
            ScheduleEvent::Ended { run, outcome, why } => self.end(run, *outcome, why.as_ref(), at),
            ScheduleEvent::BackfillRequested { backfill } => self.backfills.push(Backfill {
                request: backfill.clone(),
                at,
                by: record.by.clone(),
                reached: None,
                cancelled: false,
                succeeded: 0,
                failed: 0,
                skipped: 0,
            }),
            ScheduleEvent::BackfillCancelled { id } => {
                if let Some(backfill) = self.backfill_mut(id) {
                    backfill.cancelled = true;
                }
            }
            ScheduleEvent::Unknown => {}
        }
    }
    /// Returns the open tick of a run.
    pub fn open(&self, run: &RunId) -> Option<&PendingTick> {
        self.open.iter().find(|open| open.run == *run)
    }
    /// Returns the open ticks of the schedule itself.
    pub fn own(&self) -> impl Iterator<Item = &PendingTick> {
        self.open.iter().filter(|open| !open.is_additional())
    }
    /// Returns the open ticks of a backfill.
    pub fn of_backfill<'a>(&'a self, id: &'a str) -> impl Iterator<Item = &'a PendingTick> {
        self.open.iter().filter(move |open| open.backfill.as_deref() == Some(id))
    }
    /// Returns the backfill of this id.
    pub fn backfill(&self, id: &str) -> Option<&Backfill> {
        self.backfills.iter().find(|backfill| backfill.request.id == id)
    }
    /// Returns the current definition; `None` before the first one, and after its file was removed.
    pub fn active_definition(&self) -> Option<&Definition> {
        self.definition.as_ref().filter(|_| !self.removed)
    }

    fn fire(&mut self, record: &ScheduleRecord, tick: &Tick, run: &RunId, backfill: Option<&String>) {
        // A process fires a tick only after it has read a definition.
        let Some(definition) = self.definition.as_ref().map(WorkflowFile::from) else { return };
        match backfill {
            None => {
                self.decide(tick);
                self.fired += 1;
            }
            Some(id) => {
                if let Some(backfill) = self.backfill_mut(id) {
                    backfill.reached = Some(tick.at);
                }
            }
        }
        self.open.push(PendingTick {
            tick: tick.clone(),
            run: run.clone(),
            by: record.by.clone(),
            at: record.at,
            definition,
            backfill: backfill.cloned(),
            requested: None,
        });
    }
    fn end(&mut self, run: &RunId, outcome: TickOutcome, why: Option<&String>, at: i64) {
        let Some(index) = self.open.iter().position(|open| open.run == *run) else { return };
        let open = self.open.remove(index);
        if let Some(backfill) = open.backfill.as_ref().and_then(|id| self.backfill_mut(id)) {
            match outcome {
                TickOutcome::Succeeded => backfill.succeeded += 1,
                _ => backfill.failed += 1,
            }
        }
        let past = ClosedTick {
            tick: open.tick,
            run: Some(open.run),
            outcome: Some(outcome),
            skip: None,
            why: why.cloned(),
            at,
        };
        self.last = Some(past.clone());
        self.remember(past);
        self.forget_backfills();
    }
    /// Marks a tick as decided.
    fn decide(&mut self, tick: &Tick) {
        if tick.id == Tick::scheduled(tick.at).id {
            self.decided.insert(tick.at);
            if self.decided.len() > REMEMBERED {
                self.decided.pop_first();
            }
        } else {
            self.appeared.push_back(tick.id.clone());
            if self.appeared.len() > REMEMBERED {
                self.appeared.pop_front();
            }
        }
    }
    fn remember(&mut self, past: ClosedTick) {
        self.recent.push_back(past);
        if self.recent.len() > RECENT {
            self.recent.pop_front();
        }
    }
    fn backfill_mut(&mut self, id: &str) -> Option<&mut Backfill> {
        self.backfills.iter_mut().find(|backfill| backfill.request.id == id)
    }
    /// Drops the oldest cancelled backfills without open ticks while there are more than [`BACKFILLS`] backfills.
    fn forget_backfills(&mut self) {
        while self.backfills.len() > BACKFILLS {
            let open = &self.open;
            let finished = |b: &Backfill| {
                b.cancelled && !open.iter().any(|o| o.backfill.as_deref() == Some(b.request.id.as_str()))
            };
            let Some(index) = self.backfills.iter().position(finished) else { return };
            self.backfills.remove(index);
        }
    }
}
