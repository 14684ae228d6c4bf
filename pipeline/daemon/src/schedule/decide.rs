//! Decides which ticks fire now, as a pure function of the schedule, the state of its log, and the time.
//!
//! A tick that comes due while a daemon watches is on time. Any other tick was missed, and `catchup` determines whether
//! it still fires. The newest tick counts as on time if it was missed by less than a minute, so that a restart loses no
//! tick. Setting the clock forward causes missed ticks. Setting it back never fires a tick again, since decisions are
//! final. `docs/design/0013-schedules.md` explains the design.

use super::event::{SkipReason, Tick};
use super::state::ScheduleState;
use std::time::Duration;
use trainyard_core::Chance;
use trainyard_spec::Schedule;
use trainyard_spec::schedule::{Catchup, CronPattern, Overlap};

/// A daemon that checked no longer ago than this has seen all ticks since, and a tick no later than this may still
/// count as on time.
pub const GRACE: Duration = Duration::from_secs(60);
/// Maximum ticks that are caught up at once, and that may wait for each other.
pub const MOST: usize = 1_000;
/// Maximum ticks counted to report how many were skipped.
const COUNTED: usize = 10_000;

/// Time of a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecisionTime {
    /// Current time in Unix milliseconds.
    pub now: i64,
    /// Time of this daemon's last check of the schedule, by the same clock.
    pub seen: Option<i64>,
}

/// Decision about a tick. Later decisions build on earlier ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TickDecision {
    /// Gives the tick a run.
    Fire {
        /// Tick.
        tick: Tick,
        /// Earlier ticks that this one replaces.
        passed_over: u64,
    },
    /// Skips the tick.
    Skip {
        /// Tick.
        tick: Tick,
        /// Reason.
        why: SkipReason,
        /// Earlier ticks skipped with this one.
        passed_over: u64,
    },
}

/// Decides about the ticks that came due, oldest first. `name` is the name of the schedule. Decides nothing for a
/// schedule that is paused, removed, or not started by the clock.
pub fn decide(name: &str, state: &ScheduleState, moment: DecisionTime) -> Vec<TickDecision> {
    let Some(definition) = state.active_definition().filter(|_| state.paused.is_none()) else { return Vec::new() };
    let Some(pattern) = definition.schedule.pattern() else { return Vec::new() };
    let due = DueTicks { name, schedule: &definition.schedule, pattern: &pattern, state, moment };
    let candidates = due.candidates();
    let mut busy = state.own().count();
    let mut decisions = Vec::new();
    for TickCandidate { at, late, passed_over, missed } in candidates {
        let tick = Tick::scheduled(at);
        let skip = match definition.schedule.overlap {
            _ if missed => Some(SkipReason::Missed),
            _ if busy >= MOST => Some(SkipReason::Full),
            Overlap::Skip if busy > 0 && !late => Some(SkipReason::Overlap),
            Overlap::Skip | Overlap::Queue | Overlap::Cancel | Overlap::Allow => None,
        };
        decisions.push(match skip {
            Some(why) => TickDecision::Skip { tick, why, passed_over },
            None => {
                busy += 1;
                TickDecision::Fire { tick, passed_over }
            }
        });
    }
    decisions
}

/// Returns when the next tick comes due, in Unix milliseconds; `None` for a schedule that does not start by the clock,
/// is paused or removed.
pub fn next_due(name: &str, state: &ScheduleState, now: i64) -> Option<i64> {
    let definition = state.active_definition().filter(|_| state.paused.is_none())?;
    let pattern = definition.schedule.pattern()?;
    // A tick whose delay is not over is in the past.
    let from = now.saturating_sub_unsigned(definition.schedule.jitter_millis);
    let due = |tick: &i64| tick.saturating_add_unsigned(delay(name, &definition.schedule, *tick));
    pattern.between(from, i64::MAX, 3).iter().map(due).find(|at| *at > now)
}

/// Returns the delay of a tick in milliseconds: a random time below the schedule's jitter, equal for every daemon.
pub fn delay(name: &str, schedule: &Schedule, tick: i64) -> u64 {
    match schedule.jitter_millis {
        0 => 0,
        max => Chance::new(0).child(name, &[]).at("jitter", &[tick.cast_unsigned()]).below(max),
    }
}

/// An undecided tick.
struct TickCandidate {
    at: i64,
    /// Whether the tick is caught up; such a tick is not skipped because of an overlap.
    late: bool,
    passed_over: u64,
    missed: bool,
}

struct DueTicks<'a> {
    name: &'a str,
    schedule: &'a Schedule,
    pattern: &'a CronPattern,
    state: &'a ScheduleState,
    moment: DecisionTime,
}

impl DueTicks<'_> {
    fn candidates(&self) -> Vec<TickCandidate> {
        let now = self.moment.now;
        let Some(newest) = self.newest() else { return Vec::new() };
        let on_time = self.undecided(self.looked(), now);
        if self.schedule.catchup == Catchup::All {
            return self.all(newest, &on_time);
        }
        let mut found: Vec<TickCandidate> = on_time.iter().map(|at| self.candidate(*at, false)).collect();
        if on_time.last() != Some(&newest) && self.is_open_question(newest) {
            let tolerance = match self.schedule.catchup {
                Catchup::None => grace(),
                Catchup::Latest | Catchup::All => self.schedule.catchup_window_millis.max(grace()),
            };
            found.push(self.candidate(newest, self.lateness(newest) > tolerance));
        }
        if let Some(first) = found.first_mut() {
            first.passed_over = self.passed_before(first.at);
        }
        found
    }
    /// Returns every undecided tick of the catch-up window; the first one counts the older ticks as passed over. If
    /// only ticks older than the window are undecided, returns the newest of them as missed.
    fn all(&self, newest: i64, on_time: &[i64]) -> Vec<TickCandidate> {
        let (now, looked) = (self.moment.now, self.looked());
        let window = self.schedule.catchup_window_millis.max(grace());
        // A daemon that checked a moment ago has settled all earlier ticks.
        let from = if looked < now { looked } else { now.saturating_sub_unsigned(window) };
        let mut ticks = self.undecided(from, now);
        let extra = ticks.len().saturating_sub(MOST);
        ticks.drain(..extra);
        if ticks.is_empty() && self.lateness(newest) > window && self.is_open_question(newest) {
            let mut skipped = self.candidate(newest, true);
            skipped.passed_over = self.passed_before(newest);
            return vec![skipped];
        }
        let mut found: Vec<TickCandidate> = ticks
            .into_iter()
            .map(|at| TickCandidate {
                late: self.lateness(at) > grace() && !on_time.contains(&at),
                ..self.candidate(at, false)
            })
            .collect();
        if let Some(first) = found.first_mut() {
            first.passed_over = self.passed_before(first.at);
        }
        found
    }
    fn candidate(&self, at: i64, missed: bool) -> TickCandidate {
        TickCandidate { at, late: false, passed_over: 0, missed }
    }
    /// Returns the time since which this daemon has seen every due tick.
    fn looked(&self) -> i64 {
        let now = self.moment.now;
        let seen = self.moment.seen.filter(|seen| *seen <= now && now.abs_diff(*seen) <= grace());
        seen.unwrap_or(now)
    }
    /// Returns the time from which on ticks count. The clock may have been ahead when it was recorded.
    fn begin(&self) -> i64 {
        if self.state.since <= self.moment.now { self.state.since } else { self.looked() }
    }
    fn due(&self, tick: i64) -> i64 {
        tick.saturating_add_unsigned(delay(self.name, self.schedule, tick))
    }
    fn lateness(&self, tick: i64) -> u64 {
        self.moment.now.abs_diff(self.due(tick))
    }
    fn is_open_question(&self, tick: i64) -> bool {
        tick > self.begin() && !self.state.decided.contains(&tick)
    }
    /// Returns the newest due tick.
    fn newest(&self) -> Option<i64> {
        let mut tick = self.pattern.last_until(self.moment.now)?;
        while self.due(tick) > self.moment.now {
            tick = self.pattern.last_until(tick - 1)?;
        }
        Some(tick)
    }
    /// Returns the undecided ticks that came due after `after` and up to `until`; only the newest if there are more
    /// than [`COUNTED`].
    fn undecided(&self, after: i64, until: i64) -> Vec<i64> {
        let from = after.saturating_sub_unsigned(self.schedule.jitter_millis).max(self.begin());
        let came_due = |tick: &i64| (after + 1..=until).contains(&self.due(*tick));
        let mut ticks = Vec::new();
        let mut tick = self.pattern.last_until(until);
        while let Some(at) = tick.filter(|at| *at > from && ticks.len() <= COUNTED) {
            if came_due(&at) && self.is_open_question(at) {
                ticks.push(at);
            }
            tick = self.pattern.last_until(at - 1);
        }
        ticks.reverse();
        ticks
    }
    /// Counts the ticks that came due between the last decided tick before `tick`, or [`Self::begin`], and `tick`.
    fn passed_before(&self, tick: i64) -> u64 {
        let decided = self.state.decided.range(..tick).next_back().copied();
        let from = decided.unwrap_or(i64::MIN).max(self.begin());
        let came_due = |tick: &&i64| self.due(**tick) <= self.moment.now;
        self.pattern.between(from, tick - 1, COUNTED).iter().filter(came_due).count() as u64
    }
}

fn grace() -> u64 {
    GRACE.as_millis() as u64
}
