//! Makes the passes of a daemon over one schedule. A pass reads the log, adds new decisions, checks the promised runs,
//! and starts or stops them.
//!
//! A pass may be interrupted anywhere, by a crash or an outage. Its decisions are in the log, so the next pass of any
//! daemon continues from there: a promised run is begun by the daemon that promised it or, if that daemon has died, by
//! any other. Two daemons may safely begin the same run, since its journal has one first batch.

mod runs;
#[cfg(test)]
mod tests;
mod ticks;

pub use ticks::next_tick;

use crate::effects::DaemonEffects;
use crate::log::ScheduleLog;
use crate::schedule::decide::next_due;
use crate::schedule::state::ScheduleState;
use crate::sensor::TriggerSensor;
use crate::watch::RunWatcher;
use std::collections::BTreeMap;
use std::time::Duration;
use trainyard_core::{Chance, Clock, Result, RunId};
use trainyard_store::Store;

/// Reconciles one schedule with its log and its runs.
pub struct ScheduleReconciler {
    log: ScheduleLog,
    daemon_name: String,
    chance: Chance,
    /// Time of this daemon's last check, by the wall clock.
    last_check: Option<i64>,
    runs: BTreeMap<RunId, WatchedRun>,
    sensor: TriggerSensor,
}

/// A promised run.
struct WatchedRun {
    watch: RunWatcher,
    /// Whether a process that this daemon started has not been reaped yet.
    started: bool,
    tries: u32,
    /// Earliest time of the next start, by the monotonic clock.
    not_before: Duration,
    cancelled: Option<Duration>,
}

/// Dependencies of a pass.
#[derive(Clone, Copy)]
pub struct ReconcileContext<'a> {
    pub store: &'a Store,
    pub clock: &'a dyn Clock,
    /// All other effects.
    pub effects: &'a dyn DaemonEffects,
}

impl ScheduleReconciler {
    /// Creates the reconciler of the schedule of this log. `daemon_name` is the unique name of this daemon; `chance`
    /// must not be shared with other daemons.
    pub fn new(log: ScheduleLog, daemon_name: &str, chance: Chance) -> Self {
        Self {
            log,
            daemon_name: daemon_name.to_string(),
            chance,
            last_check: None,
            runs: BTreeMap::new(),
            sensor: TriggerSensor::default(),
        }
    }
    /// Returns the state of the schedule, as far as the log was read.
    pub fn state(&self) -> &ScheduleState {
        self.log.state()
    }
    pub fn log(&mut self) -> &mut ScheduleLog {
        &mut self.log
    }
    /// Makes one pass. Returns the time (Unix milliseconds) at which the next tick comes due. Errors: those of the
    /// store, with which the next pass continues; and those of the sensor, after all other work of the pass.
    pub async fn pass(&mut self, context: ReconcileContext<'_>) -> Result<Option<i64>> {
        self.log.refresh().await?;
        let now = context.clock.unix_millis();
        self.fire(context, now).await?;
        let sensed = self.fire_triggers(context, now).await;
        self.backfill(context, now).await?;
        self.last_check = Some(now);
        self.read_journals(context).await?;
        self.record_finished(context).await?;
        self.reap_processes(context).await?;
        self.start_and_cancel(context).await?;
        sensed?;
        Ok(next_due(self.log.name(), self.log.state(), now))
    }
}
