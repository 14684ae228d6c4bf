//! What differs between seeds beside the workflow: which faults there are, and how many.

use std::time::Duration;
use trainyard_core::Chance;
use trainyard_core::chance::Draws;

/// A part of the machinery that is broken on purpose, to see that an auditor notices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mutant {
    /// Everything is as it should be.
    None,
    /// The store's create-only put overwrites.
    StoreOverwrites,
    /// The store acknowledges some puts and forgets them.
    StoreForgets,
    /// The store tells a writer that came second that it came first.
    StoreLies,
    /// The executor starts a submission as often as it is made.
    ExecutorDoubles,
    /// Requests to cancel a run do not reach its engine.
    EngineIsDeaf,
    /// A stage's outputs depend on which attempt made them.
    StagesAreFickle,
}

/// A time in which the store, or the way to it, is away.
#[derive(Debug, Clone, Copy)]
pub struct Outage {
    pub from: Duration,
    pub to: Duration,
    /// The only host that is concerned; none = all.
    pub host: Option<u32>,
}

/// What differs between seeds.
#[derive(Debug, Clone)]
pub struct Setting {
    pub seed: u64,
    pub mutant: Mutant,
    /// How long faults go on.
    pub chaos: Duration,
    /// Requests to the store of 1,000 that go wrong.
    pub store_faults: u64,
    /// Requests to executors of 1,000 that go wrong.
    pub executor_faults: u64,
    /// Attempts of 1,000 whose machine is lost, preempted or cut off.
    pub lost_machines: u64,
    pub outages: Vec<Outage>,
    /// Whether engines die.
    pub crashes: bool,
    /// Number of people who start the command.
    pub operators: u64,
    /// Whether people are on hosts of their own and do not see each other's processes.
    pub apart: bool,
    /// Whether wall clocks are set.
    pub jumps: bool,
    /// Whether people stop runs.
    pub cancels: bool,
    /// Whether listings are late and incomplete.
    pub stale_lists: bool,
    /// How long the site lets its store be away.
    pub store_outage: Duration,
    /// How long it lets attempts go on without an engine.
    pub orphan_timeout: Duration,
}

impl Setting {
    /// That of a seed. A third of them lack each kind of fault, so that one kind does not hide another.
    pub fn of(seed: u64) -> Self {
        let mut draw = Chance::new(seed).at("setting", &[]);
        let chaos = seconds(draw.between(60, 420));
        Self {
            seed,
            mutant: Mutant::None,
            chaos,
            store_faults: [0, 5, 20, 60][draw.below(4) as usize],
            executor_faults: [0, 20, 100][draw.below(3) as usize],
            lost_machines: [0, 60, 250][draw.below(3) as usize],
            outages: (0..draw.below(4)).map(|_| outage(&mut draw, chaos)).collect(),
            crashes: draw.below(4) > 0,
            operators: 1 + draw.below(3),
            apart: draw.below(2) == 0,
            jumps: draw.below(3) > 0,
            cancels: draw.below(3) == 0,
            stale_lists: draw.below(3) > 0,
            store_outage: seconds([20, 60, 600][draw.below(3) as usize]),
            orphan_timeout: seconds(draw.between(120, 600)),
        }
    }
    /// The same without faults.
    pub fn undisturbed(&self) -> Self {
        Self {
            mutant: Mutant::None,
            chaos: Duration::ZERO,
            store_faults: 0,
            executor_faults: 0,
            lost_machines: 0,
            outages: Vec::new(),
            crashes: false,
            operators: 1,
            jumps: false,
            cancels: false,
            stale_lists: false,
            ..self.clone()
        }
    }
}

fn outage(draw: &mut Draws, chaos: Duration) -> Outage {
    let from = seconds(draw.between(0, chaos.as_secs() as i64));
    let length = if draw.below(4) == 0 { draw.between(30, 100) } else { draw.between(1, 25) };
    Outage { from, to: from + seconds(length), host: (draw.below(2) == 0).then(|| draw.below(3) as u32) }
}

fn seconds(n: i64) -> Duration {
    Duration::from_secs(n.unsigned_abs())
}
