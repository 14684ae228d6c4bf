//! The entry: open or resume the run, set the engine up, and carry it to its end.

use crate::dispatch::Dispatch;
use crate::options::{RunOptions, RunSummary};
use crate::resume::{Opened, open};
use crate::world::World;
use trainyard_core::event::{EVENT_FORMAT, Event, PlannedStage, Record};
use trainyard_core::{Result, RunId};
use trainyard_engine::{Engine, Resumed, Setup};
use trainyard_spec::plan::Plan;

/// Runs a plan to its end, or to the point where another writer takes it over. Must be called inside a multi-threaded tokio
/// runtime (processes are tied to the threads that start them).
///
/// Errors: invalid (the selection names no stage, a stage can never be placed, the run to resume does not fit the plan),
/// retryable (the store cannot be reached; another writer of this plan is alive), data (a damaged journal). A failed stage is no
/// error: see [`RunSummary::ending`].
pub async fn run(options: RunOptions, plan: Plan, world: World) -> Result<RunSummary> {
    // What can be refused without a trace in the store is refused first.
    Engine::new(&plan, setup(&options, &world, RunId(String::new()), Resumed::default()))?;
    for pool in &world.pools {
        world.executors.get(&pool.executor)?;
    }
    let Opened { run, writer, mut view, resumed } = open(&options, &plan, &world).await?;
    let engine = Engine::new(&plan, setup(&options, &world, run.clone(), Resumed::from_view(&view)))?;
    let mut first = Vec::new();
    if view.plan_digest.is_none() {
        first.push(created(&options, &plan, &world));
    }
    view.cancel_requested = None;
    let epoch = writer.epoch();
    let dispatch = Dispatch::new(world.clone(), engine, view, writer, options.interrupt.clone());
    let watching = tokio::spawn(crate::cancel::watch(world, run.clone(), epoch, dispatch.sender()));
    let ended = dispatch.run(first).await;
    watching.abort();
    let (ending, view) = ended?;
    Ok(RunSummary { run, ending, resumed, view })
}

pub(crate) fn setup(options: &RunOptions, world: &World, run: RunId, resumed: Resumed) -> Setup {
    Setup {
        run,
        selection: options.selection.clone(),
        fail_fast: options.fail_fast,
        pools: world.pools.clone(),
        catalogue: world.catalogue.clone(),
        secrets: world.secrets.clone(),
        fsync: world.store.options().durability_fsync,
        resumed,
    }
}

fn created(options: &RunOptions, plan: &Plan, world: &World) -> Record {
    let planned = |node: &trainyard_spec::plan::Node| PlannedStage {
        stage: node.key.clone(),
        kind: node.kind.clone(),
        main_metric: node.main_metric.clone(),
        after: node.after.clone(),
    };
    let event = Event::RunCreated {
        format: EVENT_FORMAT,
        workflow: plan.workflow.clone(),
        source: plan.source.display().to_string(),
        plan_digest: plan.digest.clone(),
        params: plan.params.clone(),
        selection: options.selection.clone(),
        stages: plan.nodes.iter().map(planned).collect(),
    };
    Record { at: world.clock.unix_millis(), event }
}
