//! One pass of a daemon over one schedule: it reads the log, adds new decisions, checks the promised runs, and starts
//! or stops them.
//!
//! A pass may be interrupted anywhere, by a crash or an outage. Its decisions are in the log, so the next pass of any
//! daemon continues from there: a promised run is begun by the daemon that promised it or, if that is gone, by any
//! other. Two daemons may safely begin the same run, since its journal has one first batch.

mod promises;
mod runs;
#[cfg(test)]
mod tests;

pub use promises::next_tick;

use crate::appear::Lookout;
use crate::log::Log;
use crate::outside::Outside;
use crate::schedule::decide::next_due;
use crate::schedule::state::State;
use crate::watch::Watch;
use std::collections::BTreeMap;
use std::time::Duration;
use trainyard_core::{Chance, Clock, Result, RunId};
use trainyard_store::Store;

/// Takes care of one schedule.
pub struct Keeper {
    log: Log,
    me: String,
    chance: Chance,
    /// Time of this daemon's last check, by the wall clock.
    seen: Option<i64>,
    runs: BTreeMap<RunId, Followed>,
    lookout: Lookout,
}

/// A promised run.
struct Followed {
    watch: Watch,
    /// Whether a process that this daemon started has not been reaped yet.
    started: bool,
    tries: u32,
    /// Earliest time of the next start, by the monotonic clock.
    not_before: Duration,
    cancelled: Option<Duration>,
}

/// Dependencies of a pass.
#[derive(Clone, Copy)]
pub struct Around<'a> {
    pub store: &'a Store,
    pub clock: &'a dyn Clock,
    /// All other effects.
    pub outside: &'a dyn Outside,
}

impl Keeper {
    /// Creates the keeper of the schedule of this log. `me` is the unique name of this daemon; `chance` is not shared.
    pub fn new(log: Log, me: &str, chance: Chance) -> Self {
        Self { log, me: me.to_string(), chance, seen: None, runs: BTreeMap::new(), lookout: Lookout::default() }
    }
    /// Returns the state of the schedule, as far as the log was read.
    pub fn state(&self) -> &State {
        self.log.state()
    }
    pub fn log(&mut self) -> &mut Log {
        &mut self.log
    }
    /// Makes one pass. Returns the time (Unix milliseconds) at which the next tick comes due. Errors: those of the
    /// store; the next pass continues.
    pub async fn pass(&mut self, around: Around<'_>) -> Result<Option<i64>> {
        self.log.refresh().await?;
        let now = around.clock.unix_millis();
        self.fire(around, now).await?;
        self.appear(around, now).await?;
        self.backfill(around, now).await?;
        self.seen = Some(now);
        self.look(around).await?;
        self.close(around).await?;
        self.hear_of_processes(around).await?;
        self.act(around).await?;
        Ok(next_due(self.log.name(), self.log.state(), now))
    }
}
