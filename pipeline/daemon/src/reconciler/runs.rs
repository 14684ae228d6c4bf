//! Completes promised runs: starts them, resumes abandoned runs, cancels runs, and gives up on runs that cannot begin.

use super::{ReconcileContext, ScheduleReconciler, WatchedRun};
use crate::effects::{DaemonNotification, RunProcessState, StartRunRequest};
use crate::schedule::event::{ScheduleEvent, Tick, TickOutcome};
use crate::schedule::state::PendingTick;
use crate::schedule::steps::{ScheduleStep, TickRunState, steps};
use crate::watch::RunWatcher;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use trainyard_core::{Error, Result, RunId};
use trainyard_runtime::cancel::cancel_unstarted;
use trainyard_runtime::resume::SILENCE;
use trainyard_spec::schedule::Overlap;
use trainyard_store::CreateOutcome;

/// Attempts to start a run before it is given up.
const TRIES: u32 = 10;
/// Time between two requests to cancel the same run.
const CANCEL_AGAIN: Duration = Duration::from_secs(30);
/// Maximum number of runs that have not begun and are checked in one pass.
const RUNS_PER_PASS: usize = 16;
/// Longest time between two attempts.
const LONGEST: Duration = Duration::from_secs(300);

/// Stored object of a fired tick.
#[derive(Debug, Serialize, Deserialize)]
struct TickObject {
    format: u32,
    schedule: String,
    tick: Tick,
    run: RunId,
    by: String,
    at: i64,
}

impl ScheduleReconciler {
    /// Reads new batches of the journals of open runs, and forgets runs that are no longer open. Reads at most
    /// [`RUNS_PER_PASS`] journals of runs that have not begun.
    pub(super) async fn read_journals(&mut self, context: ReconcileContext<'_>) -> Result<()> {
        let now = context.clock.monotonic();
        let state = self.log.state();
        self.runs.retain(|run, _| state.open(run).is_some());
        let mut promised = 0;
        for open in &state.open {
            let watched = self.runs.entry(open.run.clone()).or_insert_with(|| WatchedRun {
                watch: RunWatcher::new(context.store, &open.run, now),
                started: false,
                tries: 0,
                not_before: Duration::ZERO,
                cancelled: None,
            });
            let began = watched.watch.writer().is_some() || watched.started;
            if began || promised < RUNS_PER_PASS {
                promised += usize::from(!began);
                watched.watch.poll(now).await?;
            }
        }
        Ok(())
    }
    /// Records the end of finished runs in the log.
    pub(super) async fn record_finished(&mut self, context: ReconcileContext<'_>) -> Result<()> {
        let finished: Vec<(RunId, TickOutcome)> =
            self.runs.iter().filter_map(|(run, f)| Some((run.clone(), f.watch.finished()?))).collect();
        for (run, outcome) in finished {
            self.end(context, run, outcome, None).await?;
        }
        Ok(())
    }
    async fn end(
        &mut self,
        context: ReconcileContext<'_>,
        run: RunId,
        outcome: TickOutcome,
        why: Option<String>,
    ) -> Result<()> {
        let open = self.log.state().open(&run).cloned();
        let event = ScheduleEvent::Ended { run: run.clone(), outcome, why: why.clone() };
        let now = context.clock.unix_millis();
        let ended = self.log.append(now, &self.daemon_name, |state| state.open(&run).map(|_| event.clone())).await?;
        self.runs.remove(&run);
        context.effects.forget(&run);
        if let (Some(_), Some(open), TickOutcome::NotStarted) = (ended, open, outcome) {
            let (schedule, tick) = (self.log.name().to_string(), open.tick);
            context.effects.notify(DaemonNotification::NotStarted {
                schedule,
                tick,
                run,
                why: why.unwrap_or_default(),
            });
        }
        Ok(())
    }
    /// Handles processes that ended and left their runs unfinished: schedules another try, or gives up and cancels the
    /// run if it has begun.
    pub(super) async fn reap_processes(&mut self, context: ReconcileContext<'_>) -> Result<()> {
        let now = context.clock.monotonic();
        let mut given_up = Vec::new();
        for (run, watched) in self.runs.iter_mut().filter(|(_, watched)| watched.started) {
            let RunProcessState::Ended { code, stderr } = context.effects.process(run) else { continue };
            // The process may have written the end of the run just before, or another process the beginning.
            watched.watch.poll(now).await?;
            watched.started = false;
            if watched.watch.finished().is_some() {
                continue;
            }
            watched.tries += 1;
            watched.not_before = now + backoff(watched.tries);
            // Exit code 2 means that the file or its parameters are invalid, 3 that the store is unavailable, which is
            // temporary.
            let hopeless = code == Some(2) || (watched.tries >= TRIES && code != Some(3));
            tracing::warn!(%run, ?code, tries = watched.tries, stderr, "the process of a run left it unfinished");
            if hopeless && watched.watch.writer().is_some() {
                watched.cancelled = Some(now);
                context.effects.cancel(run);
            } else if hopeless {
                given_up.push((run.clone(), stderr));
            }
        }
        for (run, stderr) in given_up {
            self.end(context, run, TickOutcome::NotStarted, Some(stderr)).await?;
        }
        Ok(())
    }
    /// Starts, cancels and supersedes runs, as [`steps`] decides.
    pub(super) async fn start_and_cancel(&mut self, context: ReconcileContext<'_>) -> Result<()> {
        let overlap = self.log.state().definition.as_ref().map_or(Overlap::Queue, |d| d.schedule.overlap);
        let open: Vec<PendingTick> = self.log.state().open.clone();
        let runs: Vec<(&PendingTick, TickRunState)> =
            open.iter().map(|open| (open, self.run_of(context, open))).collect();
        for step in steps(overlap, &runs) {
            match step {
                ScheduleStep::Start(i) => self.start(context, &open[i]).await?,
                ScheduleStep::Cancel(i) => self.cancel(context, &open[i].run),
                ScheduleStep::Supersede(i) => {
                    let (run, why) = (&open[i].run, "replaced by a newer tick");
                    // The daemon that promised the run may have died just as its process began. From now on either the
                    // run has begun, and the next pass cancels it, or no process can begin it.
                    if cancel_unstarted(context.store, run, context.clock, &self.daemon_name, why).await? {
                        self.end(context, run.clone(), TickOutcome::Superseded, Some(why.into())).await?;
                    }
                }
            }
        }
        Ok(())
    }
    fn run_of(&self, context: ReconcileContext<'_>, open: &PendingTick) -> TickRunState {
        let Some(watched) = self.runs.get(&open.run) else { return TickRunState::Finished };
        let watch = &watched.watch;
        let alive = context.effects.process(&open.run) == RunProcessState::Alive;
        match watch.writer() {
            _ if watch.finished().is_some() => TickRunState::Finished,
            _ if alive => TickRunState::InProgress,
            None => TickRunState::Promised,
            Some(writer) => match context.effects.is_alive(writer) {
                Some(true) => TickRunState::InProgress,
                Some(false) => TickRunState::Abandoned,
                None if watch.idle_time(context.clock.monotonic()) >= SILENCE => TickRunState::Abandoned,
                None => TickRunState::InProgress,
            },
        }
    }
    fn cancel(&mut self, context: ReconcileContext<'_>, run: &RunId) {
        let now = context.clock.monotonic();
        let Some(watched) = self.runs.get_mut(run) else { return };
        if watched.cancelled.is_none_or(|at| now.saturating_sub(at) >= CANCEL_AGAIN) {
            watched.cancelled = Some(now);
            context.effects.cancel(run);
        }
    }
    /// Starts a process for the run of a tick, if this daemon may start it now and the tick has no other run. Repeats
    /// the cancel request instead if the run is being cancelled.
    async fn start(&mut self, context: ReconcileContext<'_>, open: &PendingTick) -> Result<()> {
        let now = context.clock.monotonic();
        let Some(watched) = self.runs.get(&open.run) else { return Ok(()) };
        if watched.cancelled.is_some() {
            self.cancel(context, &open.run);
            return Ok(());
        }
        if watched.not_before > now || !self.may_start(context, open, watched) {
            return Ok(());
        }
        if open.backfill.is_none() && !self.put_tick(context, open).await? {
            let why = Some("the tick already had a run".to_string());
            return self.end(context, open.run.clone(), TickOutcome::Superseded, why).await;
        }
        let request = StartRunRequest {
            schedule: self.log.name().to_string(),
            run: open.run.clone(),
            file: open.definition.file.clone(),
            texts: open.definition.texts.clone(),
            tick: open.tick.clone(),
            params: open.requested.clone().unwrap_or_default(),
        };
        let started = context.effects.start(&request).await;
        let Some(watched) = self.runs.get_mut(&open.run) else { return Ok(()) };
        match started {
            Ok(()) => watched.started = true,
            Err(error) => {
                watched.tries += 1;
                watched.not_before = now + backoff(watched.tries);
                tracing::warn!(run = %open.run, %error, "cannot start a process for a run");
            }
        }
        Ok(())
    }
    /// Returns whether this daemon may begin or resume a run: one that it promised itself, one whose daemon has died,
    /// or one that has begun, whose journal names its owner.
    fn may_start(&self, context: ReconcileContext<'_>, open: &PendingTick, watched: &WatchedRun) -> bool {
        if watched.watch.writer().is_some() || open.by == self.daemon_name {
            return true;
        }
        match context.effects.is_alive(&open.by) {
            Some(alive) => !alive,
            None => watched.watch.idle_time(context.clock.monotonic()) >= SILENCE,
        }
    }
    /// Creates the object of the tick in the store; returns false if the tick belongs to another run.
    async fn put_tick(&self, context: ReconcileContext<'_>, open: &PendingTick) -> Result<bool> {
        let object = TickObject {
            format: 1,
            schedule: self.log.name().to_string(),
            tick: open.tick.clone(),
            run: open.run.clone(),
            by: open.by.clone(),
            at: open.at,
        };
        let bytes = serde_json::to_vec(&object).map_err(|e| Error::bug(format!("a tick has no JSON form: {e}")))?;
        match context.store.fire_tick(self.log.name(), &open.tick.id, Bytes::from(bytes)).await? {
            CreateOutcome::Ours => Ok(true),
            CreateOutcome::Theirs(bytes) => {
                Ok(serde_json::from_slice::<TickObject>(&bytes).is_ok_and(|theirs| theirs.run == open.run))
            }
        }
    }
}

fn backoff(tries: u32) -> Duration {
    Duration::from_secs(1 << tries.min(9)).min(LONGEST)
}
