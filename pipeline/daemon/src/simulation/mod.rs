//! Simulates two daemons on one store under a seeded scheduler. At every request to the store, the scheduler chooses
//! the task that continues. It crashes daemons and processes of runs between any two requests, loses requests and
//! responses, and moves clocks.
//!
//! At the end the simulation audits the store: each tick must have one run, and each run one beginning and one end.
//! `TRAINYARD_SEEDS` sets the number of seeds, and `TRAINYARD_SEED` repeats one seed.

mod day;
mod stepping;
mod world;

use crate::log::ScheduleLog;
use crate::reconciler::{ReconcileContext, ScheduleReconciler};
use crate::schedule::event::{BackfillRequest, Definition, ScheduleEvent, ScheduleRecord, TickOutcome};
use crate::schedule::state::ScheduleState;
use futures::poll;
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use stepping::Stepping;
use trainyard_core::chance::PhiloxRng;
use trainyard_core::{Chance, Digest, RunId};
use trainyard_spec::Schedule;
use trainyard_spec::schedule::{Catchup, Overlap};
use trainyard_store::{JournalReader, Store, StoreOptions};
use trainyard_testkit::faults::{FaultyStore, StoreFault};
use world::{Host, SimulatedClock, World};

const NAME: &str = "s";
const MINUTE: i64 = 60_000;
/// 2026-11-21T00:00:00Z.
const BEGIN: i64 = 1_795_219_200_000;
/// Time that a simulation covers.
const SPAN: i64 = 25 * MINUTE;
/// Ticks of the backfill.
const BACKFILLED: i64 = 10;
/// Turns after which a simulation that does not settle has failed.
const TURNS: usize = 2_000_000;

type Task = Pin<Box<dyn Future<Output = ()>>>;

/// Differences between seeds.
#[derive(Debug, Clone)]
struct Setting {
    seed: u64,
    catchup: Catchup,
    overlap: Overlap,
    /// Whether the daemons are on two hosts and cannot see each other's processes.
    apart: bool,
    jumps: bool,
    crashes: bool,
    faults: bool,
    /// Whether a user requests the ticks of the minutes before.
    backfill: bool,
}

/// Counters that show that the simulation exercised faults.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Tally {
    ticks: usize,
    /// Daemons that died.
    deaths: usize,
    /// Processes of runs that died.
    crashes: usize,
    /// Runs that more than one process wrote.
    taken_over: usize,
    /// Times that a daemon started a run that another had started before.
    adopted: usize,
    /// Lost requests, with their responses or without.
    faults: usize,
}

impl Setting {
    fn of(seed: u64) -> Self {
        let mut draw = Chance::new(seed).at("setting", &[]);
        let catchup = [Catchup::All, Catchup::All, Catchup::Latest, Catchup::None][draw.below(4) as usize];
        let overlap = [Overlap::Queue, Overlap::Allow, Overlap::Skip, Overlap::Cancel][draw.below(4) as usize];
        Self {
            seed,
            catchup,
            overlap,
            apart: draw.below(3) == 0,
            jumps: draw.below(2) == 0,
            crashes: draw.below(8) != 0,
            faults: draw.below(4) != 0,
            backfill: draw.below(2) == 0,
        }
    }
}

struct Simulation {
    setting: Setting,
    draw: PhiloxRng,
    world: Arc<World>,
    faulty: Arc<FaultyStore>,
    stepping: Arc<Stepping>,
    store: Store,
    daemons: Vec<Daemon>,
    /// True time in milliseconds; clocks may differ.
    now: i64,
    tally: Tally,
}

struct Daemon {
    clock: Arc<SimulatedClock>,
    host: usize,
    /// Number of starts.
    life: u32,
    name: String,
    task: Option<Task>,
}

impl Simulation {
    async fn new(setting: Setting) -> Self {
        let stepping = Stepping::new();
        let faulty = FaultyStore::new(stepping.clone());
        let options = StoreOptions { probe: false, ..StoreOptions::default() };
        let store = Store::from_object_store(faulty.clone(), "memory://simulation", options).await.unwrap();
        let mut schedule = Schedule::cron("* * * * *", "UTC");
        schedule.catchup = setting.catchup;
        schedule.overlap = setting.overlap;
        let definition = Definition { schedule, file: "f.yaml".into(), home: String::new(), texts: Digest::of(b"") };
        let mut log = ScheduleLog::open(&store, NAME).await.unwrap();
        log.append(BEGIN, "test", |_| Some(ScheduleEvent::Defined { definition: definition.clone() })).await.unwrap();
        if setting.backfill {
            let (from, to) = (BEGIN - BACKFILLED * MINUTE, BEGIN - MINUTE);
            let backfill = BackfillRequest { id: "b".into(), from, to, concurrency: 2, again: true };
            let event = ScheduleEvent::BackfillRequested { backfill };
            log.append(BEGIN, "test", |_| Some(event.clone())).await.unwrap();
        }
        let daemons = (0..2)
            .map(|i| Daemon {
                clock: Arc::new(SimulatedClock::at(BEGIN)),
                host: if setting.apart { i } else { 0 },
                life: 0,
                name: String::new(),
                task: None,
            })
            .collect();
        stepping.run_through(false);
        let draw = Chance::new(setting.seed).at("simulation", &[]);
        let world = Arc::new(World::new(store.clone()));
        Self { setting, draw, world, faulty, stepping, store, daemons, now: BEGIN, tally: Tally::default() }
    }
    fn one_in(&mut self, n: u64) -> bool {
        self.draw.below(n) == 0
    }

    /// Runs the simulated time with faults, then without faults until all ticks are settled. Panics if they do not
    /// settle within [`TURNS`].
    async fn run(&mut self) {
        while self.now < BEGIN + SPAN {
            self.turn(true).await;
        }
        self.faulty.heal();
        for daemon in &mut self.daemons {
            daemon.clock.set(self.now, self.now - BEGIN);
        }
        for turn in 0..TURNS {
            self.turn(false).await;
            if turn % 500 == 0 && self.is_settled().await {
                return;
            }
        }
        panic!("{:?} does not settle: {:?}", self.setting, self.state().await.open);
    }
    async fn turn(&mut self, chaos: bool) {
        if self.one_in(30) {
            self.advance(chaos);
        }
        if chaos && self.setting.crashes && self.one_in(400) {
            let which = self.draw.below(2) as usize;
            self.world.die(&self.daemons[which].name);
            self.daemons[which].task = None;
            self.tally.deaths += 1;
        }
        if chaos && self.setting.crashes && self.one_in(600) {
            self.tally.crashes += usize::from(self.world.crash_a_process(self.draw.next_u64()));
        }
        if chaos && self.setting.faults && self.one_in(100) {
            let fault =
                [StoreFault::LostAnswer, StoreFault::ExistsAfterRetry, StoreFault::LostAnswer, StoreFault::LostRequest];
            let fault = fault[self.draw.below(4) as usize];
            // Lost requests are repeated after a real pause, so they are rare.
            if fault != StoreFault::LostRequest || self.one_in(10) {
                self.faulty.inject(fault, "", 1);
                self.tally.faults += 1;
            }
        }
        let actor = self.draw.below(4) as usize;
        if actor < 2 {
            if self.daemons[actor].task.is_none() {
                self.start(actor);
            }
            self.go_on(actor).await;
        } else {
            let pending = self.world.step_a_process(self.draw.next_u64()).await;
            self.wait_if_asleep(pending).await;
        }
    }
    /// Advances time. During chaos, also sets a clock to an incorrect or the correct time now and then.
    fn advance(&mut self, chaos: bool) {
        let by = 200 + self.draw.below(4_000) as i64;
        self.now += by;
        for i in 0..2 {
            self.daemons[i].clock.advance(by);
            if chaos && self.setting.jumps && self.one_in(60) {
                let wrong = if self.one_in(2) { 0 } else { self.draw.below(20 * MINUTE as u64) as i64 - 10 * MINUTE };
                self.daemons[i].clock.set(self.now + wrong, self.now - BEGIN);
            }
        }
    }
    fn start(&mut self, which: usize) {
        let daemon = &mut self.daemons[which];
        daemon.life += 1;
        daemon.name = format!("h{}/d{which}.{}", daemon.host, daemon.life);
        self.world.live(&daemon.name);
        let outside = Host::new(&self.world, daemon.host, &daemon.name);
        let (store, clock, name) = (self.store.clone(), daemon.clock.clone(), daemon.name.clone());
        let chance = Chance::new(self.setting.seed).child("daemon", &[which as u64, u64::from(daemon.life)]);
        daemon.task = Some(Box::pin(async move {
            // A daemon that cannot read its log ends, and is started again.
            let Ok(log) = ScheduleLog::open(&store, NAME).await else { return };
            let mut reconciler = ScheduleReconciler::new(log, &name, chance);
            loop {
                let context = ReconcileContext { store: &store, clock: clock.as_ref(), effects: &outside };
                // Errors are those of the store, and the next pass continues.
                let _ = reconciler.pass(context).await;
                outside.pause().await;
            }
        }));
    }
    async fn go_on(&mut self, which: usize) {
        let Some(task) = &mut self.daemons[which].task else { return };
        let pending = poll!(task.as_mut()).is_pending();
        if !pending {
            self.world.die(&self.daemons[which].name);
            self.daemons[which].task = None;
        }
        self.wait_if_asleep(pending).await;
    }
    /// Sleeps if a pending task waits for a timer of the store rather than for its turn.
    async fn wait_if_asleep(&self, pending: bool) {
        if pending && !self.stepping.took_a_turn() && !self.world.took_a_turn() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
    async fn state(&self) -> ScheduleState {
        self.stepping.run_through(true);
        let state = ScheduleLog::open(&self.store, NAME).await.unwrap().state().clone();
        self.stepping.run_through(false);
        state
    }
    async fn is_settled(&self) -> bool {
        let state = self.state().await;
        let behind = self.setting.catchup == Catchup::All
            && !matches!(self.setting.overlap, Overlap::Skip)
            && self.expected().iter().any(|tick| !state.decided.contains(tick));
        let filled = state.backfills.iter().all(|backfill| backfill.reached == Some(backfill.request.to));
        state.open.is_empty() && !behind && filled
    }
    /// Returns the ticks of the simulated time.
    fn expected(&self) -> Vec<i64> {
        Schedule::cron("* * * * *", "UTC").pattern().unwrap().between(BEGIN, BEGIN + SPAN, 10_000)
    }

    async fn audit(&mut self) -> Tally {
        let setting = &self.setting;
        self.stepping.run_through(true);
        let mut runs: BTreeMap<RunId, bool> = BTreeMap::new();
        let records = self.store.list(&format!("schedules/{NAME}/log")).await.unwrap();
        let (mut fired, mut filled, mut given_up) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        let mut superseded = BTreeSet::new();
        for path in records {
            let bytes = self.store.get(&path).await.unwrap().unwrap();
            let record: ScheduleRecord = serde_json::from_slice(&bytes).unwrap();
            match record.event {
                ScheduleEvent::Fired { tick, run, backfill, .. } => {
                    let own = backfill.is_none();
                    let ticks = if own { &mut fired } else { &mut filled };
                    assert!(ticks.insert(tick.at), "{setting:?}: {} was fired twice", tick.id);
                    assert!(runs.insert(run, own).is_none(), "{setting:?}: a run has two ticks");
                }
                ScheduleEvent::Ended {
                    run,
                    outcome: outcome @ (TickOutcome::Superseded | TickOutcome::NotStarted),
                    ..
                } => {
                    if outcome == TickOutcome::Superseded {
                        superseded.insert(run.clone());
                    }
                    given_up.insert(run);
                }
                _ => {}
            }
        }
        let mut begun = BTreeSet::new();
        for run in &self.store.list_runs().await.unwrap() {
            assert!(runs.contains_key(run), "{setting:?}: run {run} belongs to no tick");
            let batches = JournalReader::read_all(&self.store, run).await.unwrap();
            let count = |name: &str| batches.iter().flat_map(|b| &b.events).filter(|e| e["type"] == name).count();
            let writers: BTreeSet<&String> = batches.iter().map(|batch| &batch.header.writer).collect();
            self.tally.taken_over += usize::from(writers.len() > 1);
            assert!(count("run_created") <= 1, "{setting:?}: run {run} began more than once");
            assert!(count("run_finished") == 1 || given_up.contains(run), "{setting:?}: run {run} did not end once");
            let superseded = superseded.contains(run);
            assert!(!superseded || count("run_created") == 0, "{setting:?}: run {run} began beside the newer one");
            // A daemon that died between writing the end and the record leaves a canceled run.
            if count("run_created") == 0 && count("run_finished") == 1 {
                given_up.insert(run.clone());
            } else {
                begun.insert(run.clone());
            }
        }
        for run in runs.keys().filter(|run| !given_up.contains(*run)) {
            assert!(begun.contains(run), "{setting:?}: the tick of run {run} never ran");
        }
        let names = self.store.list(&format!("schedules/{NAME}")).await.unwrap();
        let objects = names.iter().filter(|name| name.matches('/').count() == 2).count();
        let own = begun.iter().filter(|run| runs[*run]).count();
        assert!(objects >= own, "{setting:?}: {objects} ticks have objects, {own} have runs");
        assert_eq!(filled.len() as i64, if setting.backfill { BACKFILLED } else { 0 }, "{setting:?}: the backfill");
        if setting.catchup == Catchup::All && setting.overlap != Overlap::Skip {
            let missing: Vec<i64> = self.expected().into_iter().filter(|tick| !fired.contains(tick)).collect();
            assert!(missing.is_empty(), "{setting:?}: {missing:?} never fired");
        }
        self.tally.ticks = fired.len() + filled.len();
        self.tally.adopted = self.world.adopted();
        self.stepping.run_through(false);
        self.tally
    }
}

async fn simulate(seed: u64) -> Tally {
    let mut simulation = Simulation::new(Setting::of(seed)).await;
    simulation.run().await;
    simulation.audit().await
}

fn seeds() -> Vec<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    match number("TRAINYARD_SEED") {
        Some(seed) => vec![seed],
        None => (0..number("TRAINYARD_SEEDS").unwrap_or(40)).collect(),
    }
}

#[tokio::test]
async fn each_tick_has_one_run_under_faults() {
    let seeds = seeds();
    let mut all = Tally::default();
    for seed in &seeds {
        let Tally { ticks, deaths, crashes, taken_over, adopted, faults } = simulate(*seed).await;
        all.ticks += ticks;
        all.deaths += deaths;
        all.crashes += crashes;
        all.taken_over += taken_over;
        all.adopted += adopted;
        all.faults += faults;
    }
    println!("{} seeds: {all:?}", seeds.len());
    if seeds.len() >= 40 {
        let least = [all.ticks / 20, all.deaths, all.crashes, all.taken_over, all.adopted, all.faults];
        assert!(least.iter().all(|count| *count >= 20), "too little happened: {all:?}");
    }
}

/// The same seed must take the same path, or failures could not be reproduced.
#[tokio::test]
async fn seed_is_reproducible() {
    let mut states = Vec::new();
    for _ in 0..2 {
        let mut simulation = Simulation::new(Setting { faults: false, ..Setting::of(3) }).await;
        simulation.run().await;
        let state = simulation.state().await;
        states.push((state.next, state.fired, state.skipped, state.recent));
    }
    assert_eq!(states[0], states[1]);
}
