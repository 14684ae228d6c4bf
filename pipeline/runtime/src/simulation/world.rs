//! Holds the shared state of a simulation: the store, the cluster, time, and randomness.

use super::cluster::Cluster;
use super::connection::SimulatedConnection;
use super::process::{Population, Process, Time};
use super::server::Server;
use super::setting::{Mutant, Setting};
use super::trace::Trace;
use super::workflow;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use trainyard_core::Chance;
use trainyard_core::chance::PhiloxRng;
use trainyard_engine::MachinePool;
use trainyard_spec::plan::Plan;
use trainyard_store::{Store, StoreOptions};

const URL: &str = "memory://simulation";

pub struct World {
    pub setting: Setting,
    pub time: Time,
    pub trace: Trace,
    pub population: Arc<Population>,
    pub server: Server,
    pub cluster: Cluster,
    pub plan: Plan,
    pub pools: Vec<MachinePool>,
    chance: Chance,
    draws: AtomicU64,
    /// Whether faults are disabled.
    calm: AtomicBool,
    complaints: Mutex<Vec<String>>,
}

impl World {
    pub fn new(setting: Setting) -> Arc<Self> {
        let time = Time::begin();
        Arc::new(Self {
            time,
            trace: Trace::new(time),
            population: Arc::new(Population::new(time)),
            server: Server::default(),
            cluster: Cluster::default(),
            plan: workflow::random(setting.seed),
            pools: workflow::pools(setting.seed),
            chance: Chance::new(setting.seed),
            draws: AtomicU64::new(0),
            calm: AtomicBool::new(setting.chaos.is_zero()),
            complaints: Mutex::default(),
            setting,
        })
    }
    /// Returns the next draws; their order is the order of events.
    pub fn draw(&self, purpose: &str) -> PhiloxRng {
        self.chance.at(purpose, &[self.draws.fetch_add(1, Ordering::SeqCst)])
    }
    /// Returns a source of randomness for one process.
    pub fn chance_of(&self, process: &Process) -> Chance {
        self.chance.child("process", &[u64::from(process.id)])
    }
    pub fn is(&self, mutant: Mutant) -> bool {
        self.setting.mutant == mutant
    }
    /// Draws whether a fault with a rate of `of_1000` per 1,000 occurs; never while calm.
    pub fn goes_wrong(&self, draw: &mut PhiloxRng, of_1000: u64) -> bool {
        !self.is_calm() && draw.below(1_000) < of_1000
    }
    pub fn is_calm(&self) -> bool {
        self.calm.load(Ordering::SeqCst)
    }
    /// Ends all faults.
    pub fn heal(&self) {
        self.calm.store(true, Ordering::SeqCst);
        for process in self.population.living() {
            process.clock.set_wrong(0);
        }
        self.trace.record("world", "is healed");
    }
    /// Records a violation found by an auditor.
    pub fn complain(&self, what: impl fmt::Display) {
        self.trace.record("auditor", format_args!("COMPLAINS: {what}"));
        let mut complaints = self.complaints.lock().unwrap();
        if complaints.len() < 20 {
            complaints.push(format!("at {:?}: {what}", self.time.now()));
        }
    }
    pub fn complaints(&self) -> Vec<String> {
        self.complaints.lock().unwrap().clone()
    }
    /// Opens the store through the connection of this process.
    pub async fn store_of(self: &Arc<Self>, process: &Arc<Process>, outage: Duration) -> Store {
        let wire = SimulatedConnection::new(self, process);
        self.open(Arc::new(wire), process, outage).await
    }
    /// Opens the store directly, for auditors.
    pub async fn store_itself(self: &Arc<Self>) -> Store {
        let auditor = self.population.born(u32::MAX);
        let store = self.open(self.server.objects(), &auditor, Duration::ZERO).await;
        auditor.end();
        store
    }
    async fn open(&self, objects: Arc<dyn object_store::ObjectStore>, process: &Process, outage: Duration) -> Store {
        let options = StoreOptions {
            probe: false,
            outage,
            clock: process.clock.clone(),
            chance: self.chance_of(process),
            ..StoreOptions::default()
        };
        // Without a probe no request is sent, so this cannot fail.
        Store::from_object_store(objects, URL, options).await.unwrap()
    }
}
