//! Promises runs for due ticks, for new artifacts and files, and for backfills.

use super::{ReconcileContext, ScheduleReconciler};
use crate::effects::DaemonNotification;
use crate::schedule::decide::{DecisionTime, GRACE, MOST, TickDecision, decide};
use crate::schedule::event::{ScheduleEvent, SkipReason, Tick};
use crate::schedule::state::{Backfill, ScheduleState};
use crate::triggers::{TriggerEvent, TriggerQuery};
use trainyard_core::{Clock, Result, RunId};
use trainyard_spec::schedule::{Overlap, ScheduleStart};
use trainyard_store::layout;

/// Maximum number of ticks of a backfill that are decided in one pass.
const BACKFILLED: usize = 64;

impl ScheduleReconciler {
    /// Records a decision about every due tick in the log.
    pub(super) async fn fire(&mut self, context: ReconcileContext<'_>, now: i64) -> Result<()> {
        let moment = DecisionTime { now, seen: self.last_check };
        let (name, author) = (self.log.name().to_string(), self.daemon_name.clone());
        while let Some(first) = decide(&name, self.log.state(), moment).into_iter().next() {
            let run = self.new_run(context.clock, tick_of(&first));
            let event = |state: &ScheduleState| {
                // Another process may have decided first, about this tick or one that it depends on.
                let decision = decide(&name, state, moment).into_iter().next()?;
                Some(match decision {
                    TickDecision::Fire { tick, passed_over } => {
                        ScheduleEvent::Fired { tick, run: run.clone(), passed_over, backfill: None, listing: None }
                    }
                    TickDecision::Skip { tick, why, passed_over } => {
                        ScheduleEvent::Skipped { tick, why, passed_over, backfill: None }
                    }
                })
            };
            if let Some(event) = self.log.append(now, &author, event).await? {
                self.notify(context, now, event);
            }
        }
        Ok(())
    }
    /// Records new triggers in the log and promises their runs. Triggers that appear during a pause, or during a run
    /// that must not overlap, wait.
    pub(super) async fn fire_triggers(&mut self, context: ReconcileContext<'_>, now: i64) -> Result<()> {
        let state = self.log.state();
        let Some(schedule) = state.active_definition().map(|definition| definition.schedule.clone()) else {
            return Ok(());
        };
        let ScheduleStart::On { on } = &schedule.start else { return Ok(()) };
        let overlap = schedule.overlap;
        let may_fire = move |state: &ScheduleState| {
            let busy = state.own().count();
            state.paused.is_none() && busy < MOST && (overlap != Overlap::Skip || busy == 0)
        };
        if !may_fire(state) {
            return Ok(());
        }
        let query = TriggerQuery {
            schedule: self.log.name().to_string(),
            trigger: on.clone(),
            since: state.since,
            known: state.listing.clone(),
        };
        let found = self.sensor.poll(context.store, query, context.clock.monotonic())?;
        let author = self.daemon_name.clone();
        for TriggerEvent { mark, listing } in found {
            let tick = Tick::from_trigger(now, &mark);
            let run = self.new_run(context.clock, &tick);
            let event = |state: &ScheduleState| match &listing {
                Some((listing, None)) => {
                    state.listing.is_none().then(|| ScheduleEvent::Listed { listing: listing.clone() })
                }
                Some((listing, before)) => {
                    (may_fire(state) && state.listing == *before).then(|| ScheduleEvent::Fired {
                        tick: tick.clone(),
                        run: run.clone(),
                        passed_over: 0,
                        backfill: None,
                        listing: Some(listing.clone()),
                    })
                }
                None => (may_fire(state) && !state.appeared.contains(&tick.id)).then(|| ScheduleEvent::Fired {
                    tick: tick.clone(),
                    run: run.clone(),
                    passed_over: 0,
                    backfill: None,
                    listing: None,
                }),
            };
            if let Some(event) = self.log.append(now, &author, event).await? {
                self.notify(context, now, event);
            }
            if self.log.state().appeared.contains(&tick.id) {
                self.sensor.acknowledge(&mark);
            }
        }
        Ok(())
    }
    /// Notifies users of skipped and late ticks, and logs all decisions.
    fn notify(&self, context: ReconcileContext<'_>, now: i64, event: ScheduleEvent) {
        let schedule = self.log.name().to_string();
        match event {
            ScheduleEvent::Skipped { tick, why, passed_over, .. } => {
                tracing::info!(schedule, tick = tick.id, ?why, passed_over, "tick skipped");
                context.effects.notify(DaemonNotification::Missed { schedule, tick, why: Some(why), passed_over });
            }
            ScheduleEvent::Fired { tick, run, passed_over, .. } => {
                tracing::info!(schedule, tick = tick.id, %run, passed_over, "tick fired");
                let jitter = self.log.state().active_definition().map_or(0, |d| d.schedule.jitter_millis);
                let on_time = u64::try_from(GRACE.as_millis()).unwrap_or(u64::MAX).saturating_add(jitter);
                if passed_over > 0 || now.abs_diff(tick.at) > on_time {
                    context.effects.notify(DaemonNotification::Missed { schedule, tick, why: None, passed_over });
                }
            }
            _ => {}
        }
    }
    /// Promises runs for as many ticks of each backfill as may run at once; skips ticks that already had a run. Does
    /// nothing during a pause.
    pub(super) async fn backfill(&mut self, context: ReconcileContext<'_>, now: i64) -> Result<()> {
        let state = self.log.state();
        if state.paused.is_some() {
            return Ok(());
        }
        let Some(pattern) = state.active_definition().and_then(|definition| definition.schedule.pattern()) else {
            return Ok(());
        };
        let next = |state: &ScheduleState, id: &str| {
            let backfill = state.backfill(id).filter(|backfill| !backfill.cancelled)?;
            let free = state.of_backfill(id).count() < backfill.request.concurrency as usize;
            next_tick(backfill, |at| pattern.next_after(at)).filter(|_| free)
        };
        let ids: Vec<String> = state.backfills.iter().map(|backfill| backfill.request.id.clone()).collect();
        let author = self.daemon_name.clone();
        for id in ids {
            for _ in 0..BACKFILLED {
                let Some(at) = next(self.log.state(), &id) else { break };
                let tick = Tick::scheduled(at);
                let again = self.log.state().backfill(&id).is_some_and(|backfill| backfill.request.again);
                let done = !again && context.store.get(&layout::tick(self.log.name(), &tick.id)).await?.is_some();
                let (run, backfill) = (self.new_run(context.clock, &tick), Some(id.clone()));
                let event = if done {
                    ScheduleEvent::Skipped { tick, why: SkipReason::Done, passed_over: 0, backfill }
                } else {
                    ScheduleEvent::Fired { tick, run, passed_over: 0, backfill, listing: None }
                };
                self.log.append(now, &author, |state| (next(state, &id) == Some(at)).then(|| event.clone())).await?;
            }
        }
        Ok(())
    }
    /// Returns a fresh run id. Run ids alone have few random digits, and many ticks fire at one moment.
    fn new_run(&self, clock: &dyn Clock, tick: &Tick) -> RunId {
        let place = [tick.at.cast_unsigned(), self.log.state().next, clock.monotonic().as_nanos() as u64];
        let chance = self.chance.child(self.log.name(), &[]).child(&tick.id, &place);
        RunId(format!("{}{:08x}", RunId::new(clock, &chance).0, chance.at("tick", &[]).next_u32()))
    }
}

fn tick_of(decision: &TickDecision) -> &Tick {
    match decision {
        TickDecision::Fire { tick, .. } | TickDecision::Skip { tick, .. } => tick,
    }
}

/// Returns the next tick of a backfill; `None` after the last.
pub fn next_tick(backfill: &Backfill, next_after: impl Fn(i64) -> Option<i64>) -> Option<i64> {
    let request = &backfill.request;
    let after = backfill.reached.unwrap_or(request.from.saturating_sub(1));
    next_after(after).filter(|at| *at <= request.to)
}
