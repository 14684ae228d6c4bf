//! One pass of a daemon over one schedule: it reads the log, adds what is to be decided, looks at the runs that were
//! promised, and starts or stops them.
//!
//! A pass may break off anywhere, with its process or its store. What it decided stands in the log, so the next pass of
//! any daemon goes on from there: a promised run is begun by the daemon that promised it or, if that is gone, by any
//! other. Two that begin the same run do no harm, since its journal has one first batch.

use crate::appear::{Appeared, Lookout};
use crate::log::Log;
use crate::outside::{News, Order, Outside, Process};
use crate::schedule::decide::{Decision, GRACE, MOST, Moment, decide, next_due};
use crate::schedule::event::{Event, Outcome, Skip, Tick};
use crate::schedule::state::{Backfill, Open, State};
use crate::schedule::steps::{Run, Step, steps};
use crate::watch::Watch;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;
use trainyard_core::{Chance, Clock, Error, Result, RunId};
use trainyard_runtime::resume::SILENCE;
use trainyard_spec::schedule::{Overlap, Start};
use trainyard_store::{Created, Store, layout};

/// Tries to start a run before it is given up.
const TRIES: u32 = 10;
/// Time between two requests to cancel the same run.
const CANCEL_AGAIN: Duration = Duration::from_secs(30);
/// Promised runs that are looked at in one pass.
const LOOKED_AT: usize = 16;
/// Ticks of a backfill that are decided in one pass.
const BACKFILLED: usize = 64;
/// Longest time between two tries.
const LONGEST: Duration = Duration::from_secs(300);

/// Takes care of one schedule.
pub struct Keeper {
    log: Log,
    me: String,
    chance: Chance,
    /// When this daemon last looked, by the wall clock.
    seen: Option<i64>,
    runs: BTreeMap<RunId, Followed>,
    lookout: Lookout,
}

/// A promised run.
struct Followed {
    watch: Watch,
    /// Whether a process that this daemon started has not been heard of yet.
    started: bool,
    tries: u32,
    /// Not started again before this, by the monotonic clock.
    not_before: Duration,
    cancelled: Option<Duration>,
}

/// What a pass works with.
#[derive(Clone, Copy)]
pub struct Around<'a> {
    /// The store.
    pub store: &'a Store,
    /// Time.
    pub clock: &'a dyn Clock,
    /// Everything else.
    pub outside: &'a dyn Outside,
}

/// The object of a fired tick.
#[derive(Debug, Serialize, Deserialize)]
struct TickObject {
    format: u32,
    schedule: String,
    tick: Tick,
    run: RunId,
    by: String,
    at: i64,
}

impl Keeper {
    /// Takes care of the schedule of this log. `me` is the unique name of this daemon, `chance` its own.
    pub fn new(log: Log, me: &str, chance: Chance) -> Self {
        Self { log, me: me.to_string(), chance, seen: None, runs: BTreeMap::new(), lookout: Lookout::default() }
    }
    /// What the log says of the schedule, as far as it was read.
    pub fn state(&self) -> &State {
        self.log.state()
    }
    /// Its log.
    pub fn log(&mut self) -> &mut Log {
        &mut self.log
    }
    /// One pass. Gives the time (Unix milliseconds) at which the next tick comes due. Errors: those of the store; the
    /// next pass goes on.
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

    /// Decides about every tick that came due.
    async fn fire(&mut self, around: Around<'_>, now: i64) -> Result<()> {
        let moment = Moment { now, seen: self.seen };
        let (name, me) = (self.log.name().to_string(), self.me.clone());
        while let Some(first) = decide(&name, self.log.state(), moment).into_iter().next() {
            let run = self.new_run(around.clock, tick_of(&first));
            let event = |state: &State| {
                // Somebody else may have been first, with this tick or with what it depends on.
                let decision = decide(&name, state, moment).into_iter().next()?;
                Some(match decision {
                    Decision::Fire { tick, passed_over } => {
                        Event::Fired { tick, run: run.clone(), passed_over, backfill: None, listing: None }
                    }
                    Decision::Skip { tick, why, passed_over } => {
                        Event::Skipped { tick, why, passed_over, backfill: None }
                    }
                })
            };
            if let Some(event) = self.log.append(now, &me, event).await? {
                self.tell(around, now, event);
            }
        }
        Ok(())
    }
    /// Fires what appeared. What appears during a pause, or during a run that must not be overlapped, waits.
    async fn appear(&mut self, around: Around<'_>, now: i64) -> Result<()> {
        let state = self.log.state();
        let Some(schedule) = state.in_force().map(|definition| definition.schedule.clone()) else { return Ok(()) };
        let Start::On { on } = &schedule.start else { return Ok(()) };
        let overlap = schedule.overlap;
        let may = move |state: &State| {
            let busy = state.own().count();
            state.paused.is_none() && busy < MOST && (overlap != Overlap::Skip || busy == 0)
        };
        if !may(state) {
            return Ok(());
        }
        let (name, asked) = (self.log.name().to_string(), (on, state.since, state.listing.as_ref()));
        let found = self.lookout.look(around.store, &name, asked, around.clock.monotonic()).await?;
        let me = self.me.clone();
        for Appeared { mark, listing } in found {
            let tick = Tick::of_thing(now, &mark);
            let run = self.new_run(around.clock, &tick);
            let event = |state: &State| match &listing {
                Some((listing, None)) => state.listing.is_none().then(|| Event::Listed { listing: listing.clone() }),
                Some((listing, before)) => (may(state) && state.listing == *before).then(|| Event::Fired {
                    tick: tick.clone(),
                    run: run.clone(),
                    passed_over: 0,
                    backfill: None,
                    listing: Some(listing.clone()),
                }),
                None => (may(state) && !state.appeared.contains(&tick.id)).then(|| Event::Fired {
                    tick: tick.clone(),
                    run: run.clone(),
                    passed_over: 0,
                    backfill: None,
                    listing: None,
                }),
            };
            if let Some(event) = self.log.append(now, &me, event).await? {
                self.tell(around, now, event);
            }
        }
        Ok(())
    }
    /// Says what passed without a run, and what came late.
    fn tell(&self, around: Around<'_>, now: i64, event: Event) {
        let schedule = self.log.name().to_string();
        match event {
            Event::Skipped { tick, why, passed_over, .. } => {
                tracing::info!(schedule, tick = tick.id, ?why, passed_over, "a tick passes without a run");
                around.outside.tell(News::Missed { schedule, tick, why: Some(why), passed_over });
            }
            Event::Fired { tick, run, passed_over, .. } => {
                tracing::info!(schedule, tick = tick.id, %run, passed_over, "a tick fires");
                let jitter = self.log.state().in_force().map_or(0, |d| d.schedule.jitter_millis);
                let on_time = u64::try_from(GRACE.as_millis()).unwrap_or(u64::MAX).saturating_add(jitter);
                if passed_over > 0 || now.abs_diff(tick.at) > on_time {
                    around.outside.tell(News::Missed { schedule, tick, why: None, passed_over });
                }
            }
            _ => {}
        }
    }
    /// Promises runs for as many ticks of backfills as may run at once.
    async fn backfill(&mut self, around: Around<'_>, now: i64) -> Result<()> {
        let state = self.log.state();
        if state.paused.is_some() {
            return Ok(());
        }
        let Some(pattern) = state.in_force().and_then(|definition| definition.schedule.pattern()) else {
            return Ok(());
        };
        let next = |state: &State, id: &str| {
            let backfill = state.backfill(id).filter(|backfill| !backfill.cancelled)?;
            let free = state.of_backfill(id).count() < backfill.request.concurrency as usize;
            next_tick(backfill, |at| pattern.next_after(at)).filter(|_| free)
        };
        let ids: Vec<String> = state.backfills.iter().map(|backfill| backfill.request.id.clone()).collect();
        let me = self.me.clone();
        for id in ids {
            for _ in 0..BACKFILLED {
                let Some(at) = next(self.log.state(), &id) else { break };
                let tick = Tick::of_clock(at);
                let again = self.log.state().backfill(&id).is_some_and(|backfill| backfill.request.again);
                let done = !again && around.store.get(&layout::tick(self.log.name(), &tick.id)).await?.is_some();
                let (run, backfill) = (self.new_run(around.clock, &tick), Some(id.clone()));
                let event = if done {
                    Event::Skipped { tick, why: Skip::Done, passed_over: 0, backfill }
                } else {
                    Event::Fired { tick, run, passed_over: 0, backfill, listing: None }
                };
                self.log.append(now, &me, |state| (next(state, &id) == Some(at)).then(|| event.clone())).await?;
            }
        }
        Ok(())
    }
    /// A fresh name. That of a run alone has few random digits, and many ticks fire in one moment.
    fn new_run(&self, clock: &dyn Clock, tick: &Tick) -> RunId {
        let place = [tick.at.cast_unsigned(), self.log.state().next, clock.monotonic().as_nanos() as u64];
        let chance = self.chance.child(self.log.name(), &[]).child(&tick.id, &place);
        RunId(format!("{}{:08x}", RunId::new(clock, &chance).0, chance.at("tick", &[]).next_u32()))
    }

    /// Reads the journals of promised runs.
    async fn look(&mut self, around: Around<'_>) -> Result<()> {
        let now = around.clock.monotonic();
        let state = self.log.state();
        self.runs.retain(|run, _| state.open(run).is_some());
        let mut promised = 0;
        for open in &state.open {
            let followed = self.runs.entry(open.run.clone()).or_insert_with(|| Followed {
                watch: Watch::new(around.store, &open.run, now),
                started: false,
                tries: 0,
                not_before: Duration::ZERO,
                cancelled: None,
            });
            let began = followed.watch.writer().is_some() || followed.started;
            if began || promised < LOOKED_AT {
                promised += usize::from(!began);
                followed.watch.look(now).await?;
            }
        }
        Ok(())
    }
    /// Writes down which runs are over.
    async fn close(&mut self, around: Around<'_>) -> Result<()> {
        let over: Vec<(RunId, Outcome)> =
            self.runs.iter().filter_map(|(run, f)| Some((run.clone(), f.watch.finished()?))).collect();
        for (run, outcome) in over {
            self.end(around, run, outcome, None).await?;
        }
        Ok(())
    }
    async fn end(&mut self, around: Around<'_>, run: RunId, outcome: Outcome, why: Option<String>) -> Result<()> {
        let open = self.log.state().open(&run).cloned();
        let event = Event::Ended { run: run.clone(), outcome, why: why.clone() };
        let now = around.clock.unix_millis();
        let ended = self.log.append(now, &self.me, |state| state.open(&run).map(|_| event.clone())).await?;
        self.runs.remove(&run);
        if let (Some(_), Some(open), Outcome::NotStarted) = (ended, open, outcome) {
            let (schedule, tick) = (self.log.name().to_string(), open.tick);
            around.outside.tell(News::NotStarted { schedule, tick, run, why: why.unwrap_or_default() });
        }
        Ok(())
    }
    /// What became of the processes that were started and left their runs unfinished.
    async fn hear_of_processes(&mut self, around: Around<'_>) -> Result<()> {
        let now = around.clock.monotonic();
        let mut given_up = Vec::new();
        for (run, followed) in self.runs.iter_mut().filter(|(_, followed)| followed.started) {
            let Process::Ended { code, said } = around.outside.process(run) else { continue };
            followed.started = false;
            followed.tries += 1;
            followed.not_before = now + Duration::from_secs(1 << followed.tries.min(9)).min(LONGEST);
            // Exit 2: the file or its parameters are wrong. 3: the store is away, which passes.
            let hopeless = code == Some(2) || (followed.tries >= TRIES && code != Some(3));
            tracing::warn!(%run, ?code, tries = followed.tries, said, "the process of a run left it unfinished");
            if hopeless && followed.watch.writer().is_some() {
                followed.cancelled = Some(now);
                around.outside.cancel(run);
            } else if hopeless {
                given_up.push((run.clone(), said));
            }
        }
        for (run, said) in given_up {
            // Somebody else may have begun it since the last look.
            let Some(followed) = self.runs.get_mut(&run) else { continue };
            followed.watch.look(now).await?;
            if followed.watch.writer().is_some() {
                continue;
            }
            self.end(around, run, Outcome::NotStarted, Some(said)).await?;
        }
        Ok(())
    }
    /// Starts, cancels and forgets runs.
    async fn act(&mut self, around: Around<'_>) -> Result<()> {
        let overlap = self.log.state().definition.as_ref().map_or(Overlap::Queue, |d| d.schedule.overlap);
        let open: Vec<Open> = self.log.state().open.clone();
        let runs: Vec<(&Open, Run)> = open.iter().map(|open| (open, self.run_of(around, open))).collect();
        for step in steps(overlap, &runs) {
            match step {
                Step::Start(i) => self.start(around, &open[i]).await?,
                Step::Cancel(i) => self.cancel(around, &open[i].run),
                Step::Supersede(i) => {
                    let why = Some("a newer tick takes its place".to_string());
                    self.end(around, open[i].run.clone(), Outcome::Superseded, why).await?;
                }
            }
        }
        Ok(())
    }
    fn run_of(&self, around: Around<'_>, open: &Open) -> Run {
        let Some(followed) = self.runs.get(&open.run) else { return Run::Over };
        let watch = &followed.watch;
        let ours = around.outside.process(&open.run) == Process::Alive;
        match watch.writer() {
            _ if watch.finished().is_some() => Run::Over,
            _ if ours => Run::Going,
            None => Run::Promised,
            Some(writer) => match around.outside.is_alive(writer) {
                Some(true) => Run::Going,
                Some(false) => Run::Abandoned,
                None if watch.still(around.clock.monotonic()) >= SILENCE => Run::Abandoned,
                None => Run::Going,
            },
        }
    }
    fn cancel(&mut self, around: Around<'_>, run: &RunId) {
        let now = around.clock.monotonic();
        let Some(followed) = self.runs.get_mut(run) else { return };
        if followed.cancelled.is_none_or(|at| now.saturating_sub(at) >= CANCEL_AGAIN) {
            followed.cancelled = Some(now);
            around.outside.cancel(run);
        }
    }
    /// Starts a process for the run of a tick, if that is for this daemon to do.
    async fn start(&mut self, around: Around<'_>, open: &Open) -> Result<()> {
        let now = around.clock.monotonic();
        let Some(followed) = self.runs.get(&open.run) else { return Ok(()) };
        if followed.cancelled.is_some() {
            self.cancel(around, &open.run);
            return Ok(());
        }
        if followed.not_before > now || !self.is_mine(around, open, followed) {
            return Ok(());
        }
        if open.backfill.is_none() && !self.put_tick(around, open).await? {
            let why = Some("the tick had its run before".to_string());
            return self.end(around, open.run.clone(), Outcome::Superseded, why).await;
        }
        let order = Order {
            schedule: self.log.name().to_string(),
            run: open.run.clone(),
            file: open.definition.file.clone(),
            texts: open.definition.texts.clone(),
            tick: open.tick.clone(),
        };
        let started = around.outside.start(&order).await;
        let Some(followed) = self.runs.get_mut(&open.run) else { return Ok(()) };
        match started {
            Ok(()) => followed.started = true,
            Err(error) => {
                followed.tries += 1;
                followed.not_before = now + Duration::from_secs(1 << followed.tries.min(9)).min(LONGEST);
                tracing::warn!(run = %open.run, %error, "no process could be started for a run");
            }
        }
        Ok(())
    }
    /// Whether this daemon may begin or go on with a run: its own, and those of daemons that are gone. Whose run has
    /// begun is told by its journal.
    fn is_mine(&self, around: Around<'_>, open: &Open, followed: &Followed) -> bool {
        if followed.watch.writer().is_some() || open.by == self.me {
            return true;
        }
        match around.outside.is_alive(&open.by) {
            Some(alive) => !alive,
            None => followed.watch.still(around.clock.monotonic()) >= SILENCE,
        }
    }
    /// Fires the tick in the store; whether it belongs to this run.
    async fn put_tick(&self, around: Around<'_>, open: &Open) -> Result<bool> {
        let object = TickObject {
            format: 1,
            schedule: self.log.name().to_string(),
            tick: open.tick.clone(),
            run: open.run.clone(),
            by: open.by.clone(),
            at: open.at,
        };
        let bytes = serde_json::to_vec(&object).map_err(|e| Error::bug(format!("a tick has no JSON form: {e}")))?;
        match around.store.fire_tick(self.log.name(), &open.tick.id, Bytes::from(bytes)).await? {
            Created::Ours => Ok(true),
            Created::Theirs(bytes) => {
                Ok(serde_json::from_slice::<TickObject>(&bytes).is_ok_and(|theirs| theirs.run == open.run))
            }
        }
    }
}

fn tick_of(decision: &Decision) -> &Tick {
    match decision {
        Decision::Fire { tick, .. } | Decision::Skip { tick, .. } => tick,
    }
}

/// The next tick of a backfill; none if all were reached.
pub fn next_tick(backfill: &Backfill, next_after: impl Fn(i64) -> Option<i64>) -> Option<i64> {
    let request = &backfill.request;
    let after = backfill.reached.unwrap_or(request.from.saturating_sub(1));
    next_after(after).filter(|at| *at <= request.to)
}
