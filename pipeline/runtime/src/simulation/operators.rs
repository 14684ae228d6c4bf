//! Simulates operators during the faults: they start the command, kill it, interrupt it, stop runs, and set clocks.

use super::engine::{Engine, EngineEnd, RecordCollector};
use super::process::{CrashPoint, Process, SimulatedProcesses};
use super::world::World;
use crate::cancel::{CancelOutcome, cancel_run_from};
use crate::options::Interrupt;
use crate::{RunEnding, RunOptions};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use trainyard_core::chance::PhiloxRng;
use trainyard_core::event::RunOutcome;
use trainyard_core::{ErrorKind, RunId};
use trainyard_engine::fold::RunView;

/// Maximum number of journal writes of an engine before it dies.
const WRITES: u64 = 24;

/// Observations of all engines, for the auditors.
#[derive(Default)]
pub struct EngineObservations {
    pub collectors: Mutex<Vec<Arc<RecordCollector>>>,
    /// Final views of runs that engines completed.
    pub views: Mutex<Vec<(Arc<Process>, RunId, RunView)>>,
}

impl EngineObservations {
    /// Waits for the end of an engine, and keeps its results.
    pub async fn collect(&self, world: &World, engine: Engine) -> EngineEnd {
        let process = engine.process.clone();
        self.collectors.lock().unwrap().push(engine.collector.clone());
        let left = engine.end(world).await;
        if let EngineEnd::Failed(error) = &left
            && matches!(error.kind, ErrorKind::Data | ErrorKind::Bug)
        {
            world.complain(format_args!("{} takes something for damaged: {error}", process.name()));
        }
        world.trace.count(match &left {
            EngineEnd::Ended(summary) => match summary.ending {
                RunEnding::Finished(RunOutcome::Succeeded) => "engines whose run succeeded",
                RunEnding::Finished(RunOutcome::Failed) => "engines whose run failed",
                RunEnding::Finished(RunOutcome::Cancelled) => "engines whose run was cancelled",
                RunEnding::Fenced { .. } => "engines fenced",
            },
            EngineEnd::Failed(error) if error.message.contains("is being written by") => {
                "engines that left a run alone"
            }
            EngineEnd::Failed(_) => "engines that gave up",
            EngineEnd::Died => "engines that died",
        });
        if let EngineEnd::Ended(summary) = &left
            && matches!(summary.ending, RunEnding::Finished(_))
        {
            self.views.lock().unwrap().push((process, summary.run.clone(), summary.view.clone()));
        }
        left
    }
}

/// Starts the command repeatedly until the chaos ends.
pub async fn operate(world: Arc<World>, witness: Arc<EngineObservations>, number: u64) {
    let mut draw = world.draw("operator");
    let host = if world.setting.apart { number as u32 } else { 0 };
    while !world.is_calm() {
        tokio::time::sleep(Duration::from_millis(draw.below(8_000))).await;
        let options = options(&world, &mut draw).await;
        let interrupt = options.interrupt.clone();
        let engine = Engine::start(&world, host, options).await;
        let process = engine.process.clone();
        if world.setting.crashes && draw.below(2) == 0 {
            process.crashes_at(CrashPoint { write: draw.below(WRITES), after: draw.below(2) == 0 });
        }
        let disturbing = tokio::spawn(disturb(world.clone(), process, interrupt));
        witness.collect(&world, engine).await;
        disturbing.abort();
    }
}

async fn options(world: &Arc<World>, draw: &mut PhiloxRng) -> RunOptions {
    let mut options = RunOptions {
        take_over: draw.below(4) == 0,
        new: draw.below(10) == 0,
        fail_fast: draw.below(12) == 0,
        ..RunOptions::default()
    };
    if draw.below(6) == 0 {
        let store = world.store_itself().await;
        options.resume = store.list_runs().await.unwrap_or_default().pop();
    }
    options
}

/// Kills or interrupts an engine, or sets its wall clock to an incorrect time.
async fn disturb(world: Arc<World>, process: Arc<Process>, interrupt: Interrupt) {
    let mut draw = world.draw("disturb");
    loop {
        tokio::time::sleep(Duration::from_millis(draw.below(60_000))).await;
        if world.is_calm() {
            return;
        }
        match draw.below(10) {
            0..3 if world.setting.crashes => {
                world.trace.record(process.name(), "is killed");
                world.trace.count("engines killed at another moment");
                process.end();
            }
            3 if world.setting.cancels => {
                world.trace.record(process.name(), "is interrupted");
                world.trace.count("engines interrupted");
                interrupt.raise();
            }
            4..8 if world.setting.jumps => {
                let wrong = if draw.below(3) == 0 { 0 } else { draw.between(-3_600_000, 3_600_000) };
                world.trace.record(process.name(), format_args!("has its clock set wrong by {wrong} ms"));
                world.trace.count("clocks set");
                process.clock.set_wrong(wrong);
            }
            _ => {}
        }
    }
}

/// Stops runs from outside, if the seed enables this.
pub async fn stop_runs(world: Arc<World>) {
    let mut draw = world.draw("stopper");
    while !world.is_calm() && world.setting.cancels {
        tokio::time::sleep(Duration::from_millis(draw.below(150_000))).await;
        if world.is_calm() {
            return;
        }
        let runs = world.store_itself().await.list_runs().await.unwrap_or_default();
        if let Some(run) = runs.last() {
            stop(&world, run, draw.below(3) as u32).await;
        }
    }
}

/// Stops a run from a process of this host, and checks that the run stops if [`cancel_run_from`] reports so.
pub async fn stop(world: &Arc<World>, run: &RunId, host: u32) {
    let process = world.population.born(host);
    let store = world.store_of(&process, Duration::ZERO).await;
    let sight = SimulatedProcesses { population: world.population.clone(), process: process.clone() };
    let around = (&sight as _, process.clock.as_ref() as _, &world.chance_of(&process));
    let answer = cancel_run_from(&store, run, around, |_| ()).await;
    world.trace.record(process.name(), format_args!("stops run {run}: {answer:?}"));
    process.end();
    if let Ok(answer) = answer {
        world.trace.count("runs stopped from outside");
        if answer == CancelOutcome::Requested {
            tokio::spawn(see_that_it_stops(world.clone(), run.clone()));
        }
    }
}

/// Checks that a live engine finds the cancel request within 40 s of calm. An engine that has died or was fenced need
/// not find it.
async fn see_that_it_stops(world: Arc<World>, run: RunId) {
    while !world.is_calm() {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    tokio::time::sleep(Duration::from_secs(40)).await;
    let Some(writer) = world.server.ledger.lock().unwrap().ignores_its_cancel(&run) else { return };
    let lives = world.population.living().iter().any(|process| writer.starts_with(&format!("{}:", process.name())));
    if lives {
        world.complain(format_args!("run {run} continues under {writer}, which was requested to stop"));
    }
}
