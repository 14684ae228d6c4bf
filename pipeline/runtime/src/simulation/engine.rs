//! Engine: the real runtime in a simulated process.

use super::far::Far;
use super::near::Near;
use super::process::{Process, Sight};
use super::workflow::{FAR, NEAR};
use super::world::World;
use crate::executors::{Executor, Executors};
use crate::tests::{Empty, NoKinds};
use crate::{Observer, RunContext, RunOptions, RunSummary, run};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use tokio::task::JoinHandle;
use trainyard_core::attempt::AttemptMessage;
use trainyard_core::event::{Event, Record};
use trainyard_core::{AttemptNumber, Error, Result, StageKey};

/// Running engine.
pub struct Engine {
    pub process: Arc<Process>,
    /// Records that the engine knows to be journaled.
    pub ear: Arc<Ear>,
    running: JoinHandle<Result<RunSummary>>,
}

/// How an engine's process ended.
pub enum Left {
    Ended(Box<RunSummary>),
    Failed(Error),
    Died,
}

impl Engine {
    /// Starts the command on a host.
    pub async fn start(world: &Arc<World>, host: u32, options: RunOptions) -> Self {
        let process = world.population.born(host);
        let ear = Arc::new(Ear { world: world.clone(), process: process.clone(), heard: Mutex::default() });
        let context = context(world, &process, &ear).await;
        world.trace.tell(process.name(), "starts the command");
        world.trace.count("engines started");
        let running = tokio::spawn(run(options, world.plan.clone(), context));
        Self { process, ear, running }
    }
    /// Waits until the engine has ended or died.
    pub async fn end(mut self, world: &World) -> Left {
        let left = tokio::select! {
            biased;
            () = self.process.until_it_ends() => {
                self.running.abort();
                Left::Died
            }
            left = &mut self.running => match left {
                Ok(Ok(summary)) => Left::Ended(Box::new(summary)),
                Ok(Err(error)) => Left::Failed(error),
                Err(panic) => {
                    world.complain(format_args!("an engine panicked: {panic}"));
                    Left::Died
                }
            },
        };
        self.process.end();
        let name = self.process.name();
        match &left {
            Left::Ended(summary) => world.trace.tell(name, format_args!("ends: {:?}", summary.ending)),
            Left::Failed(error) => world.trace.tell(name, format_args!("ends: {error}")),
            Left::Died => {}
        }
        left
    }
}

async fn context(world: &Arc<World>, process: &Arc<Process>, ear: &Arc<Ear>) -> RunContext {
    let far: Arc<dyn Executor> = Arc::new(Far { world: world.clone(), process: process.clone() });
    let near: Arc<dyn Executor> = Arc::new(Near::new(world, process));
    RunContext {
        store: world.store_of(process, world.setting.store_outage).await,
        pools: world.pools.clone(),
        executors: Executors::new([(FAR.to_string(), far), (NEAR.to_string(), near)]),
        catalogue: Arc::new(NoKinds),
        in_process: Arc::new(Empty),
        rows: Arc::new(Empty),
        secrets: BTreeMap::new(),
        orphan_timeout: world.setting.orphan_timeout,
        processes: Arc::new(Sight { population: world.population.clone(), process: process.clone() }),
        clock: process.clock.clone(),
        chance: world.chance_of(process),
        observer: ear.clone(),
    }
}

/// Observer that keeps the records acknowledged to an engine.
pub struct Ear {
    world: Arc<World>,
    pub process: Arc<Process>,
    heard: Mutex<Vec<Record>>,
}

impl Ear {
    pub fn heard(&self) -> Vec<Record> {
        self.heard.lock().unwrap().clone()
    }
}

impl Observer for Ear {
    fn event(&self, record: &Record) {
        if self.process.is_alive() {
            if !matches!(record.event, Event::Heartbeat {}) {
                self.world.trace.tell(self.process.name(), format_args!("journaled {:?}", record.event));
            }
            self.heard.lock().unwrap().push(record.clone());
        }
    }
    fn message(&self, _: &StageKey, _: AttemptNumber, _: &AttemptMessage) {}
    fn note(&self, text: &str) {
        if self.process.is_alive() {
            self.world.trace.tell(self.process.name(), format_args!("notes: {text}"));
            if text.contains("cannot go on") {
                self.world.complain(format_args!("{} gives a run up: {text}", self.process.name()));
            }
        }
    }
}
