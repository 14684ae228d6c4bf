//! Runs one simulation from its beginning to the final audit. After the chaos all faults end, and the same command is
//! started until its run ends like an undisturbed run; then every other run of the plan likewise.

use super::audit::{Outcome, at_the_end, outcome_of};
use super::engine::{Engine, EngineEnd};
use super::operators::{EngineObservations, operate, stop, stop_runs};
use super::setting::Setting;
use super::world::World;
use crate::resume::read_run;
use crate::{RunEnding, RunOptions};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use trainyard_core::event::RunOutcome;
use trainyard_core::{Digest, ErrorKind, RunId};

/// Maximum number of starts until the run ends well.
const STARTS: u32 = 8;
/// Maximum time of one engine without faults.
const LONGEST: Duration = Duration::from_secs(45 * 60);

#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    pub complaints: Vec<String>,
    /// Digest of all events, in order.
    pub trace: Digest,
    pub counts: BTreeMap<&'static str, u64>,
    pub outcome: Outcome,
}

/// Simulates a seed, and its undisturbed run for comparison.
pub fn simulate(setting: &Setting) -> Report {
    let quiet = in_a_world(setting.undisturbed(), None);
    let mut report = in_a_world(setting.clone(), Some(quiet.outcome));
    report.complaints.extend(quiet.complaints.into_iter().map(|what| format!("undisturbed, {what}")));
    report
}

fn in_a_world(setting: Setting, expected: Option<Outcome>) -> Report {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(async {
        let world = World::new(setting);
        let witness = Arc::new(EngineObservations::default());
        let outcome = live(&world, &witness, expected.as_ref()).await;
        at_the_end(&world, &witness).await;
        Report {
            complaints: world.complaints(),
            trace: world.trace.digest(),
            counts: world.trace.counts(),
            outcome: outcome.unwrap_or_default(),
        }
    })
}

async fn live(world: &Arc<World>, witness: &Arc<EngineObservations>, expected: Option<&Outcome>) -> Option<Outcome> {
    if !world.is_calm() {
        chaos(world, witness).await;
    }
    let outcome = carry_to_the_end(world, witness, None, expected).await;
    let store = world.store_itself().await;
    for run in store.list_runs().await.unwrap_or_default() {
        let unfinished = match read_run(&store, &run).await {
            Ok(view) => {
                view.plan_digest.is_some() && !view.finished.is_some_and(|(_, how)| how == RunOutcome::Succeeded)
            }
            Err(_) => false,
        };
        if unfinished && expected.is_some() {
            carry_to_the_end(world, witness, Some(run), expected).await;
        }
    }
    tokio::time::sleep(world.setting.orphan_timeout + Duration::from_secs(900)).await;
    for process in world.population.living() {
        world.complain(format_args!("{} lives although all runs are over", process.name()));
    }
    outcome
}

async fn chaos(world: &Arc<World>, witness: &Arc<EngineObservations>) {
    let people: Vec<_> =
        (0..world.setting.operators).map(|n| tokio::spawn(operate(world.clone(), witness.clone(), n))).collect();
    let stopping = tokio::spawn(stop_runs(world.clone()));
    tokio::time::sleep(world.setting.chaos).await;
    let everybody_dies = world.draw("end").below(2) == 0;
    world.heal();
    if world.setting.cancels
        && let Some(run) = world.store_itself().await.list_runs().await.unwrap_or_default().last()
    {
        stop(world, run, 0).await;
    }
    if everybody_dies {
        let engines: Vec<_> = witness.collectors.lock().unwrap().iter().map(|ear| ear.process.clone()).collect();
        engines.iter().for_each(|process| process.end());
    }
    for person in people {
        if tokio::time::timeout(LONGEST, person).await.is_err() {
            world.complain("an engine does not end although everything is healed");
        }
    }
    if tokio::time::timeout(LONGEST, stopping).await.is_err() {
        world.complain("a request to stop a run gets no response although everything is healed");
    }
}

/// Starts the command until the run has the expected outcome.
async fn carry_to_the_end(
    world: &Arc<World>,
    witness: &EngineObservations,
    run: Option<RunId>,
    expected: Option<&Outcome>,
) -> Option<Outcome> {
    let mut options = RunOptions { resume: run, ..RunOptions::default() };
    let mut last = String::new();
    for _ in 0..STARTS {
        let engine = Engine::start(world, 0, options.clone()).await;
        let process = engine.process.clone();
        let Ok(left) = tokio::time::timeout(LONGEST, witness.collect(world, engine)).await else {
            process.end();
            world.complain("a run does not end although everything is healed");
            return None;
        };
        match left {
            EngineEnd::Ended(summary) => {
                let outcome = outcome_of(&summary.view);
                last = format!("{:?}: {outcome:?}", summary.ending);
                if matches!(summary.ending, RunEnding::Finished(_))
                    && expected.is_none_or(|expected| *expected == outcome)
                {
                    return Some(outcome);
                }
                options.resume = Some(summary.run.clone());
            }
            EngineEnd::Failed(error) if error.kind == ErrorKind::Retryable => last = error.to_string(),
            EngineEnd::Failed(error) => {
                world.complain(format_args!("a healthy engine fails: {error}"));
                return None;
            }
            EngineEnd::Died => last = "it died".into(),
        }
        tokio::time::sleep(Duration::from_secs(40)).await;
    }
    world.complain(format_args!(
        "after healing, {:?} does not end as it should: {last}; expected {expected:?}",
        options.resume
    ));
    None
}
