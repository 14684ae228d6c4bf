//! Simulates one day of many schedules with two daemons on one store. Daemons and processes of runs are killed between
//! any two requests; every tick must have one run, which began once and ended once.
//!
//! `TRAINYARD_SCHEDULES` sets the number of schedules, and `TRAINYARD_SEED` the seed.

use super::stepping::Stepping;
use super::world::{Host, SimulatedClock, World};
use super::{BEGIN, MINUTE, Task};
use crate::daemon::pass_all;
use crate::log::ScheduleLog;
use crate::reconciler::{ReconcileContext, ScheduleReconciler};
use crate::schedule::event::{Definition, ScheduleEvent, ScheduleRecord};
use futures::poll;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use trainyard_core::chance::PhiloxRng;
use trainyard_core::{Chance, Digest, RunId};
use trainyard_spec::Schedule;
use trainyard_spec::schedule::{Catchup, Overlap};
use trainyard_store::{JournalReader, Store, StoreOptions};

const DAY: i64 = 24 * 60 * MINUTE;
/// Number of ticks of each schedule.
const TICKS: usize = 3;
/// Turns after which a day that does not settle has failed.
const TURNS: usize = 3_000_000;
/// Turns between two looks at whether all ticks have ended.
const LOOK: usize = 5_000;

struct Day {
    draw: PhiloxRng,
    seed: u64,
    names: Arc<Vec<String>>,
    world: Arc<World>,
    stepping: Arc<Stepping>,
    store: Store,
    clock: Arc<SimulatedClock>,
    daemons: [DayDaemon; 2],
    now: i64,
    deaths: usize,
    crashes: usize,
}

#[derive(Default)]
struct DayDaemon {
    /// Number of starts.
    life: u32,
    name: String,
    task: Option<Task>,
}

/// Returns the pattern of a schedule: three ticks, eight hours apart, between 01:00 and 23:59.
fn pattern(number: usize) -> Schedule {
    let (minute, hour) = (number * 7 % 60, 1 + number % 7);
    let mut schedule = Schedule::cron(&format!("{minute} {hour},{},{} * * *", hour + 8, hour + 16), "UTC");
    schedule.catchup = Catchup::All;
    schedule.overlap = Overlap::Queue;
    schedule.catchup_window_millis = DAY.unsigned_abs();
    schedule
}

impl Day {
    async fn new(seed: u64, schedules: usize) -> Self {
        let stepping = Stepping::new();
        let options = StoreOptions { probe: false, ..StoreOptions::default() };
        let store = Store::from_object_store(stepping.clone(), "memory://day", options).await.unwrap();
        let names: Vec<String> = (0..schedules).map(|number| format!("s{number:04}")).collect();
        for (number, name) in names.iter().enumerate() {
            let schedule = pattern(number);
            let definition =
                Definition { schedule, file: "f.yaml".into(), home: String::new(), texts: Digest::of(b"") };
            let mut log = ScheduleLog::open(&store, name).await.unwrap();
            let event = ScheduleEvent::Defined { definition };
            log.append(BEGIN, "test", |_| Some(event.clone())).await.unwrap();
        }
        stepping.run_through(false);
        Self {
            draw: Chance::new(seed).at("day", &[]),
            seed,
            names: Arc::new(names),
            world: Arc::new(World::new(store.clone())),
            stepping,
            store,
            clock: Arc::new(SimulatedClock::at(BEGIN)),
            daemons: Default::default(),
            now: BEGIN,
            deaths: 0,
            crashes: 0,
        }
    }
    fn one_in(&mut self, n: u64) -> bool {
        self.draw.below(n) == 0
    }
    fn advance(&mut self, most: u64) {
        let by = 1 + self.draw.below(most).cast_signed();
        self.now += by;
        self.clock.advance(by);
    }
    /// Runs the day with kills, then without them until every tick has ended.
    async fn run(&mut self) {
        while self.now < BEGIN + DAY {
            if self.one_in(100) {
                self.advance(72_000);
            }
            self.kill();
            self.turn().await;
        }
        for turn in 0..TURNS {
            if self.one_in(100) {
                self.advance(1_000);
            }
            self.turn().await;
            if turn % LOOK == 0 && self.is_settled().await {
                return;
            }
        }
        panic!("seed {}: the day does not settle", self.seed);
    }
    /// Kills a daemon or a process of a run now and then.
    fn kill(&mut self) {
        if self.one_in(30_000) {
            let which = self.draw.below(2) as usize;
            self.world.die(&self.daemons[which].name);
            self.daemons[which].task = None;
            self.deaths += 1;
        }
        if self.one_in(1_000) {
            self.crashes += usize::from(self.world.crash_a_process(self.draw.next_u64()));
        }
    }
    async fn turn(&mut self) {
        let actor = self.draw.below(4) as usize;
        if actor >= 2 {
            self.world.step_a_process(self.draw.next_u64()).await;
            return;
        }
        if self.daemons[actor].task.is_none() {
            self.start(actor);
        }
        let Some(task) = &mut self.daemons[actor].task else { return };
        if poll!(task.as_mut()).is_ready() {
            self.world.die(&self.daemons[actor].name);
            self.daemons[actor].task = None;
        }
    }
    fn start(&mut self, which: usize) {
        let daemon = &mut self.daemons[which];
        daemon.life += 1;
        daemon.name = format!("h0/d{which}.{}", daemon.life);
        self.world.live(&daemon.name);
        let effects = Host::new(&self.world, 0, &daemon.name);
        let (store, clock, name) = (self.store.clone(), self.clock.clone(), daemon.name.clone());
        let chance = Chance::new(self.seed).child("daemon", &[which as u64, u64::from(daemon.life)]);
        let names = self.names.clone();
        daemon.task = Some(Box::pin(async move {
            let mut reconcilers = BTreeMap::new();
            for schedule in names.iter() {
                let Ok(log) = ScheduleLog::open(&store, schedule).await else { return };
                reconcilers.insert(schedule.clone(), ScheduleReconciler::new(log, &name, chance));
            }
            loop {
                let context = ReconcileContext { store: &store, clock: clock.as_ref(), effects: &effects };
                pass_all(&mut reconcilers, context, &mut BTreeMap::new()).await;
                effects.pause().await;
            }
        }));
    }
    async fn is_settled(&self) -> bool {
        self.stepping.run_through(true);
        let mut settled = true;
        for (number, name) in self.names.iter().enumerate() {
            let log = ScheduleLog::open(&self.store, name).await.unwrap();
            let all_decided = expected(number).iter().all(|tick| log.state().decided.contains(tick));
            settled &= log.state().open.is_empty() && all_decided;
        }
        self.stepping.run_through(false);
        settled
    }
    /// Checks that each tick has exactly one run, and each run one beginning and one end; returns the number of ticks.
    async fn audit(&self) -> usize {
        self.stepping.run_through(true);
        let mut runs: BTreeSet<RunId> = BTreeSet::new();
        for (number, name) in self.names.iter().enumerate() {
            let mut fired = Vec::new();
            for path in self.store.list(&format!("schedules/{name}/log")).await.unwrap() {
                let bytes = self.store.get(&path).await.unwrap().unwrap();
                let record: ScheduleRecord = serde_json::from_slice(&bytes).unwrap();
                match record.event {
                    ScheduleEvent::Fired { tick, run, .. } => {
                        fired.push(tick.at);
                        assert!(runs.insert(run), "{name}: a run has two ticks");
                    }
                    ScheduleEvent::Skipped { tick, .. } => panic!("{name}: tick {} was skipped", tick.id),
                    _ => {}
                }
            }
            fired.sort_unstable();
            assert_eq!(fired, expected(number), "seed {}, {name}: every tick fires once", self.seed);
        }
        assert_eq!(self.store.list_runs().await.unwrap().into_iter().collect::<BTreeSet<_>>(), runs);
        for run in &runs {
            let batches = JournalReader::read_all(&self.store, run).await.unwrap();
            let count = |name: &str| batches.iter().flat_map(|b| &b.events).filter(|e| e["type"] == name).count();
            assert_eq!((count("run_created"), count("run_finished")), (1, 1), "seed {}, run {run}", self.seed);
        }
        runs.len()
    }
}

/// Returns the ticks of a schedule within the day.
fn expected(number: usize) -> Vec<i64> {
    pattern(number).pattern().unwrap().between(BEGIN, BEGIN + DAY, 100)
}

#[tokio::test]
async fn every_tick_of_a_day_has_one_run() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let schedules = number("TRAINYARD_SCHEDULES").unwrap_or(1_000) as usize;
    let mut day = Day::new(number("TRAINYARD_SEED").unwrap_or(0), schedules).await;
    day.run().await;
    let ticks = day.audit().await;
    println!("{schedules} schedules, {ticks} ticks, {} kills of daemons, {} of runs", day.deaths, day.crashes);
    assert_eq!(ticks, TICKS * schedules);
    assert!(schedules < 1_000 || (day.deaths >= 2 && day.crashes >= 20), "too little happened");
}
