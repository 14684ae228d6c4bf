//! Runs a plan: opens or resumes a run, sets up the engine, and dispatches to the end.

use crate::context::{OpenedRun, RunContext};
use crate::dispatcher::{DispatchResult, Dispatcher};
use crate::options::{RunOptions, RunSummary};
use crate::resume::{WritableRun, open};
use crate::summary;
use tokio::task::JoinSet;
use tracing::Instrument as _;
use trainyard_core::event::{EVENT_FORMAT, Event, EventRecord, PlannedStage};
use trainyard_core::{Error, Result, RunId};
use trainyard_engine::{EngineSetup, ResumeState, RunEngine};
use trainyard_spec::plan::Plan;

/// Runs a plan to its end, or until another writer takes over the run. Must be called in a multi-threaded tokio
/// runtime, because child processes are tied to the thread that starts them.
///
/// A failed stage is not an error: see [`RunSummary::ending`]. Errors: invalid (the selection names an unknown stage, a
/// stage can never be placed, the run to resume has another plan), retryable (the store is unreachable, another writer
/// of this plan is alive), data (a damaged journal), lost (the store was unavailable for longer than allowed),
/// cancelled (interrupted while the store was unavailable).
pub async fn run(options: RunOptions, mut plan: Plan, context: RunContext) -> Result<RunSummary> {
    let created = created(&options, &plan);
    // Built before the store is used, to detect invalid plans before anything is written. The engine takes ownership of
    // the plan, which may use much memory.
    let setup = setup(&options, &context, RunId(String::new()), ResumeState::default());
    let mut engine = RunEngine::from_nodes(plan.workflow.clone(), std::mem::take(&mut plan.nodes), setup)?;
    for pool in &context.pools {
        context.executors.get(&pool.name)?;
    }
    let WritableRun { run, writer, mut view, resumed } = tokio::select! {
        biased;
        opened = open(&options, &plan, &context) => opened?,
        // Opening waits for an unavailable store, and for a writer on another host to write or stay silent.
        () = options.interrupt.beyond(0) => return Err(Error::cancelled("interrupted before the run was opened")),
    };
    engine.set_run(run.clone(), ResumeState::from_view(&view));
    let span = tracing::info_span!("run", %run, workflow = %plan.workflow);
    let mut first = Vec::new();
    if view.plan_digest.is_none() {
        first.push(EventRecord { at: context.clock.unix_millis(), event: created });
    }
    context.observer.opened(&OpenedRun { run: &run, workflow: &plan.workflow, params: &plan.params, resumed });
    drop(plan);
    view.cancel_requested = None;
    let epoch = writer.epoch();
    tracing::info!(parent: &span, resumed, epoch, "run opened");
    let store = context.store.clone();
    let dispatch = Dispatcher::new(context.clone(), engine, view, writer, &options);
    let cancel_watch = crate::cancel::watch(context, run.clone(), epoch, dispatch.sender());
    let cancel_watch = tokio::spawn(cancel_watch.instrument(span.clone()));
    // A task is resumed on the thread that woke it. A future in `block_on` has a dedicated thread, and switching
    // between threads takes longer than most inputs.
    let mut tasks = JoinSet::new();
    tasks.spawn(dispatch.run(first).instrument(span));
    let result = tasks.join_next().await;
    cancel_watch.abort();
    let DispatchResult { ending, view, end } = match result {
        Some(Ok(result)) => result?,
        Some(Err(e)) => return Err(Error::bug(format!("the run's loop ended: {e}"))),
        None => return Err(Error::bug("the run's loop was not started")),
    };
    if let Some(end) = end {
        summary::store_summary(&store, &run, end, &view).await;
    }
    Ok(RunSummary { run, ending, resumed, view })
}

pub(crate) fn setup(options: &RunOptions, context: &RunContext, run: RunId, resumed: ResumeState) -> EngineSetup {
    EngineSetup {
        run,
        selection: options.selection.clone(),
        fail_fast: options.fail_fast,
        pools: context.pools.clone(),
        catalogue: context.catalogue.clone(),
        secrets: context.secrets.clone(),
        fsync: context.store.options().durability_fsync,
        store_outage: context.store.options().outage,
        orphan_timeout: context.orphan_timeout,
        resumed,
    }
}

fn created(options: &RunOptions, plan: &Plan) -> Event {
    let planned = |node: &trainyard_spec::plan::PlanNode| PlannedStage {
        stage: node.key.clone(),
        kind: node.kind.clone(),
        main_metric: node.main_metric.clone(),
        after: node.after.clone(),
    };
    Event::RunCreated {
        format: EVENT_FORMAT,
        workflow: plan.workflow.clone(),
        source: plan.source.display().to_string(),
        plan_digest: plan.digest.clone(),
        params: plan.params.clone(),
        selection: options.selection.clone(),
        stages: plan.nodes.iter().map(planned).collect(),
    }
}
