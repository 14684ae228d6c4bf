//! Runs the real runtime as an engine in a simulated process.

use super::cluster_executor::ClusterExecutor;
use super::in_process_executor::InProcessExecutor;
use super::process::{Process, SimulatedProcesses};
use super::workflow::{FAR, NEAR};
use super::world::World;
use crate::executors::{Executor, Executors};
use crate::tests::{Empty, NoKinds};
use crate::{Observer, RunContext, RunOptions, RunSummary, run};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use tokio::task::JoinHandle;
use trainyard_core::attempt::AttemptMessage;
use trainyard_core::event::{Event, EventRecord};
use trainyard_core::{AttemptNumber, Error, Result, StageKey};

/// Running engine.
pub struct Engine {
    pub process: Arc<Process>,
    /// Records that the engine knows to be journaled.
    pub collector: Arc<RecordCollector>,
    running: JoinHandle<Result<RunSummary>>,
}

/// How an engine's process ended.
pub enum EngineEnd {
    Ended(Box<RunSummary>),
    Failed(Error),
    Died,
}

impl Engine {
    /// Starts the command on a host.
    pub async fn start(world: &Arc<World>, host: u32, options: RunOptions) -> Self {
        let process = world.population.born(host);
        let ear =
            Arc::new(RecordCollector { world: world.clone(), process: process.clone(), records: Mutex::default() });
        let context = context(world, &process, &ear).await;
        world.trace.record(process.name(), "starts the command");
        world.trace.count("engines started");
        let running = tokio::spawn(run(options, world.plan.clone(), context));
        Self { process, collector: ear, running }
    }
    /// Waits until the engine has ended or died.
    pub async fn end(mut self, world: &World) -> EngineEnd {
        let left = tokio::select! {
            biased;
            () = self.process.until_it_ends() => {
                self.running.abort();
                EngineEnd::Died
            }
            left = &mut self.running => match left {
                Ok(Ok(summary)) => EngineEnd::Ended(Box::new(summary)),
                Ok(Err(error)) => EngineEnd::Failed(error),
                Err(panic) => {
                    world.complain(format_args!("an engine panicked: {panic}"));
                    EngineEnd::Died
                }
            },
        };
        self.process.end();
        let name = self.process.name();
        match &left {
            EngineEnd::Ended(summary) => world.trace.record(name, format_args!("ends: {:?}", summary.ending)),
            EngineEnd::Failed(error) => world.trace.record(name, format_args!("ends: {error}")),
            EngineEnd::Died => {}
        }
        left
    }
}

async fn context(world: &Arc<World>, process: &Arc<Process>, ear: &Arc<RecordCollector>) -> RunContext {
    let far: Arc<dyn Executor> = Arc::new(ClusterExecutor { world: world.clone(), process: process.clone() });
    let near: Arc<dyn Executor> = Arc::new(InProcessExecutor::new(world, process));
    RunContext {
        store: world.store_of(process, world.setting.store_outage).await,
        pools: world.pools.clone(),
        executors: Executors::new([(FAR.to_string(), far), (NEAR.to_string(), near)]),
        catalogue: Arc::new(NoKinds),
        in_process: Arc::new(Empty),
        rows: Arc::new(Empty),
        secrets: BTreeMap::new(),
        orphan_timeout: world.setting.orphan_timeout,
        processes: Arc::new(SimulatedProcesses { population: world.population.clone(), process: process.clone() }),
        clock: process.clock.clone(),
        chance: world.chance_of(process),
        observer: ear.clone(),
    }
}

/// Observer that keeps the records acknowledged to an engine.
pub struct RecordCollector {
    world: Arc<World>,
    pub process: Arc<Process>,
    records: Mutex<Vec<EventRecord>>,
}

impl RecordCollector {
    pub fn records(&self) -> Vec<EventRecord> {
        self.records.lock().unwrap().clone()
    }
}

impl Observer for RecordCollector {
    fn event(&self, record: &EventRecord) {
        if self.process.is_alive() {
            if !matches!(record.event, Event::Heartbeat {}) {
                self.world.trace.record(self.process.name(), format_args!("journaled {:?}", record.event));
            }
            self.records.lock().unwrap().push(record.clone());
        }
    }
    fn message(&self, _: &StageKey, _: AttemptNumber, _: &AttemptMessage) {}
    fn note(&self, text: &str) {
        if self.process.is_alive() {
            self.world.trace.record(self.process.name(), format_args!("notes: {text}"));
            if text.contains("cannot be resumed") {
                self.world.complain(format_args!("{} gives a run up: {text}", self.process.name()));
            }
        }
    }
}
