//! What the log of a schedule adds up to. Like that of a run's journal the fold is a function of the records alone.

use super::event::{BackfillRequest, Definition, Event, Outcome, Record, Skip, Tick};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, VecDeque};
use trainyard_core::{Digest, RunId};

/// Ticks of the clock that are remembered as decided. What is forgotten still has its object.
const REMEMBERED: usize = 4_096;
/// Ended and skipped ticks that are kept for people.
const RECENT: usize = 50;
/// Backfills that are kept for people after their end.
const BACKFILLS: usize = 20;

/// The state of a schedule.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// Number of the next record.
    pub next: u64,
    /// None before the first file was read.
    pub definition: Option<Definition>,
    /// Whether its file is gone.
    pub removed: bool,
    /// Since when nothing fires.
    pub paused: Option<Pause>,
    /// Ticks at or before this time (Unix milliseconds) are of no concern: it is when the schedule was defined or
    /// resumed.
    pub since: i64,
    /// Ticks of the clock about which something was decided.
    pub decided: BTreeSet<i64>,
    /// Names of ticks of things that appeared, in the order of their firing.
    pub appeared: VecDeque<String>,
    /// Digest of the last listing of where files are to appear.
    pub listing: Option<Digest>,
    /// Ticks whose runs are not over, in the order of their firing.
    pub open: Vec<Open>,
    /// Ticks that are over or were skipped, oldest first.
    pub recent: VecDeque<Past>,
    /// The end of the last run.
    pub last: Option<Past>,
    /// Backfills, oldest first.
    pub backfills: Vec<Backfill>,
    /// How many ticks were fired.
    pub fired: u64,
    /// How many ticks passed without a run.
    pub skipped: u64,
}

/// Who paused a schedule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Pause {
    /// Unix milliseconds.
    pub at: i64,
    /// Who did it.
    pub by: String,
    /// What they said about it.
    pub why: Option<String>,
}

/// A tick whose run is not over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Open {
    /// The tick.
    pub tick: Tick,
    /// Its run.
    pub run: RunId,
    /// Who promised the run.
    pub by: String,
    /// When, in Unix milliseconds.
    pub at: i64,
    /// What was in force at that time.
    pub definition: Definition,
    /// The backfill that it belongs to.
    pub backfill: Option<String>,
}

/// A tick that is over or was skipped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Past {
    /// The tick.
    pub tick: Tick,
    /// Its run; none if it was skipped.
    pub run: Option<RunId>,
    /// How the run ended.
    pub outcome: Option<Outcome>,
    /// Why it was skipped.
    pub skip: Option<Skip>,
    /// Why it did not begin.
    pub why: Option<String>,
    /// When that was decided, in Unix milliseconds.
    pub at: i64,
}

/// How far a backfill is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backfill {
    /// What was asked for.
    pub request: BackfillRequest,
    /// When, in Unix milliseconds.
    pub at: i64,
    /// Who asked.
    pub by: String,
    /// The last tick about which something was decided.
    pub reached: Option<i64>,
    /// Whether no more ticks are started.
    pub cancelled: bool,
    /// Runs that succeeded.
    pub succeeded: u64,
    /// Runs that ended otherwise.
    pub failed: u64,
    /// Ticks that had their run before.
    pub skipped: u64,
}

impl State {
    /// Adds one more record.
    pub fn apply(&mut self, record: &Record) {
        self.next += 1;
        let at = record.at;
        match &record.event {
            Event::Defined { definition } => {
                let same = !self.removed && self.definition.as_ref().is_some_and(|d| d.schedule == definition.schedule);
                // Another text with the same times does not forget what was missed.
                if !same {
                    self.since = at;
                    self.listing = None;
                }
                self.removed = false;
                self.definition = Some(definition.clone());
            }
            Event::Removed {} => self.removed = true,
            Event::Paused { why } => {
                self.paused.get_or_insert(Pause { at, by: record.by.clone(), why: why.clone() });
            }
            Event::Resumed {} => {
                if self.paused.take().is_some() {
                    self.since = at;
                }
            }
            Event::Fired { tick, run, backfill, listing, .. } => {
                self.listing = listing.clone().or(self.listing.take());
                self.fire(record, tick, run, backfill.as_ref());
            }
            Event::Listed { listing } => self.listing = Some(listing.clone()),
            Event::Skipped { tick, why, passed_over, backfill } => {
                let past =
                    Past { tick: tick.clone(), run: None, outcome: None, skip: Some(why.clone()), why: None, at };
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
            Event::Ended { run, outcome, why } => self.end(run, *outcome, why.as_ref(), at),
            Event::BackfillRequested { backfill } => self.backfills.push(Backfill {
                request: backfill.clone(),
                at,
                by: record.by.clone(),
                reached: None,
                cancelled: false,
                succeeded: 0,
                failed: 0,
                skipped: 0,
            }),
            Event::BackfillCancelled { id } => {
                if let Some(backfill) = self.backfill_mut(id) {
                    backfill.cancelled = true;
                }
            }
            Event::Unknown => {}
        }
    }
    /// The open tick of a run.
    pub fn open(&self, run: &RunId) -> Option<&Open> {
        self.open.iter().find(|open| open.run == *run)
    }
    /// The open ticks of the schedule itself.
    pub fn own(&self) -> impl Iterator<Item = &Open> {
        self.open.iter().filter(|open| open.backfill.is_none())
    }
    /// The open ticks of a backfill.
    pub fn of_backfill<'a>(&'a self, id: &'a str) -> impl Iterator<Item = &'a Open> {
        self.open.iter().filter(move |open| open.backfill.as_deref() == Some(id))
    }
    /// The backfill of this id.
    pub fn backfill(&self, id: &str) -> Option<&Backfill> {
        self.backfills.iter().find(|backfill| backfill.request.id == id)
    }
    /// What is in force, unless its file is gone.
    pub fn in_force(&self) -> Option<&Definition> {
        self.definition.as_ref().filter(|_| !self.removed)
    }

    fn fire(&mut self, record: &Record, tick: &Tick, run: &RunId, backfill: Option<&String>) {
        // Whoever fires has read a definition.
        let Some(definition) = self.definition.clone() else { return };
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
        self.open.push(Open {
            tick: tick.clone(),
            run: run.clone(),
            by: record.by.clone(),
            at: record.at,
            definition,
            backfill: backfill.cloned(),
        });
    }
    fn end(&mut self, run: &RunId, outcome: Outcome, why: Option<&String>, at: i64) {
        let Some(index) = self.open.iter().position(|open| open.run == *run) else { return };
        let open = self.open.remove(index);
        if let Some(backfill) = open.backfill.as_ref().and_then(|id| self.backfill_mut(id)) {
            match outcome {
                Outcome::Succeeded => backfill.succeeded += 1,
                _ => backfill.failed += 1,
            }
        }
        let past =
            Past { tick: open.tick, run: Some(open.run), outcome: Some(outcome), skip: None, why: why.cloned(), at };
        self.last = Some(past.clone());
        self.remember(past);
        self.forget_backfills();
    }
    /// Remembers that something was decided about a tick.
    fn decide(&mut self, tick: &Tick) {
        if tick.id == Tick::of_clock(tick.at).id {
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
    fn remember(&mut self, past: Past) {
        self.recent.push_back(past);
        if self.recent.len() > RECENT {
            self.recent.pop_front();
        }
    }
    fn backfill_mut(&mut self, id: &str) -> Option<&mut Backfill> {
        self.backfills.iter_mut().find(|backfill| backfill.request.id == id)
    }
    /// Drops the oldest backfills that start nothing more and have no open tick.
    fn forget_backfills(&mut self) {
        while self.backfills.len() > BACKFILLS {
            let open = &self.open;
            let over = |b: &Backfill| {
                b.cancelled && !open.iter().any(|o| o.backfill.as_deref() == Some(b.request.id.as_str()))
            };
            let Some(index) = self.backfills.iter().position(over) else { return };
            self.backfills.remove(index);
        }
    }
}
