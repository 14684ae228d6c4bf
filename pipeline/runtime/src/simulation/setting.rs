//! Draws the settings of a simulation from its seed: all but the workflow, mainly kinds and rates of faults.

use std::time::Duration;
use trainyard_core::Chance;
use trainyard_core::chance::PhiloxRng;

/// Component broken on purpose, to check that an auditor detects it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mutant {
    /// No component is broken.
    None,
    /// The store's create-only write overwrites.
    StoreOverwrites,
    /// The store acknowledges some writes and forgets them.
    StoreForgets,
    /// The store reports success to a writer that came second.
    StoreLies,
    /// The executor starts every repeated submission.
    ExecutorDoubles,
    /// Requests to cancel a run do not reach its engine.
    EngineIsDeaf,
    /// A stage's outputs depend on the attempt that made them.
    StagesAreFickle,
}

/// Time in which the store, or the connection to it, is down.
#[derive(Debug, Clone, Copy)]
pub struct Outage {
    pub from: Duration,
    pub to: Duration,
    /// The only host affected; `None` = all.
    pub host: Option<u32>,
}

/// Settings drawn from a seed.
#[derive(Debug, Clone)]
pub struct Setting {
    pub seed: u64,
    pub mutant: Mutant,
    /// Duration of the faults.
    pub chaos: Duration,
    /// Rate of failing store requests, per 1,000.
    pub store_faults: u64,
    /// Rate of failing executor requests, per 1,000.
    pub executor_faults: u64,
    /// Rate of attempts whose machine is lost, preempted or cut off, per 1,000.
    pub lost_machines: u64,
    pub outages: Vec<Outage>,
    pub crashes: bool,
    /// Number of operators who start the command.
    pub operators: u64,
    /// Whether operators are on separate hosts and do not see each other's processes.
    pub apart: bool,
    /// Whether wall clocks are set.
    pub jumps: bool,
    /// Whether operators stop runs.
    pub cancels: bool,
    /// Whether listings are late and incomplete.
    pub stale_lists: bool,
    /// Outage of the store that the site tolerates.
    pub store_outage: Duration,
    /// How long the site lets attempts continue without an engine.
    pub orphan_timeout: Duration,
}

impl Setting {
    /// Draws the settings of a seed. Many seeds lack some kind of fault, so that one kind does not hide another.
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
    /// Returns the settings without faults.
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

fn outage(draw: &mut PhiloxRng, chaos: Duration) -> Outage {
    let from = seconds(draw.between(0, chaos.as_secs() as i64));
    let length = if draw.below(4) == 0 { draw.between(30, 100) } else { draw.between(1, 25) };
    Outage { from, to: from + seconds(length), host: (draw.below(2) == 0).then(|| draw.below(3) as u32) }
}

fn seconds(n: i64) -> Duration {
    Duration::from_secs(n.unsigned_abs())
}
