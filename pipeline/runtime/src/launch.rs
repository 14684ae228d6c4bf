//! Carries one attempt from its command to its end.

use crate::context::RunContext;
use crate::executors::{Control, Ended, Executor, Reports, Task};
use crate::logs::Sink;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::watch;
use trainyard_core::attempt::AttemptSpec;
use trainyard_core::error::Context;
use trainyard_core::event::AttemptOutcome;
use trainyard_core::{Error, ErrorKind, Result};
use trainyard_engine::{Finished, Grant, Input, NodeId};
use trainyard_store::layout;

/// Runs the attempt where its grant says.
pub(crate) async fn launch(
    context: &RunContext,
    spec: Arc<AttemptSpec>,
    grant: Grant,
    control: watch::Receiver<Control>,
    engine: (UnboundedSender<Input>, NodeId),
) -> Finished {
    if grant.is_in_process() {
        return in_process(context, spec).await;
    }
    let prepared = async {
        let executor = context.executors.get(&grant.executor)?;
        context.store.put_spec(&spec).await.at("storing the attempt's spec")?;
        Ok::<_, Error>(executor)
    };
    match prepared.await {
        Ok(executor) => {
            let (sink, emptying) = Sink::open(context, &spec, Some(engine));
            let reports: Arc<dyn Reports> = sink.clone();
            let ended = executor.run(task(context, &spec, grant), control, reports).await;
            sink.close();
            // The task only puts what is left; if it panicked, the log is short.
            let _ = emptying.await;
            conclude(ended)
        }
        Err(error) => Finished::failed(AttemptOutcome::Failed, error),
    }
}

/// Finds an attempt that an earlier engine left; `None` if nothing of it is left.
pub(crate) async fn recover(
    context: &RunContext,
    spec: Arc<AttemptSpec>,
    pool: &str,
    control: watch::Receiver<Control>,
) -> Option<Finished> {
    let executor = executor_of(context, pool).ok()?;
    let (sink, emptying) = Sink::open(context, &spec, None);
    let reports: Arc<dyn Reports> = sink.clone();
    let grant = Grant { pool: pool.to_string(), executor: executor.name().to_string(), shares: Vec::new() };
    let ended = executor.reattach(task(context, &spec, grant), control, reports).await;
    sink.close();
    let _ = emptying.await;
    ended.map(conclude)
}

fn executor_of(context: &RunContext, pool: &str) -> Result<Arc<dyn Executor>> {
    let found = context.pools.iter().find(|p| p.name == pool);
    context.executors.get(&found.ok_or_else(|| Error::invalid(format!("no pool `{pool}`")))?.executor)
}

fn task(context: &RunContext, spec: &Arc<AttemptSpec>, grant: Grant) -> Task {
    Task {
        grant,
        store: context.store.clone(),
        folder: layout::attempt(&spec.run, &spec.stage, spec.attempt),
        timeout: spec.timeout_millis.map(Duration::from_millis),
        spec: spec.clone(),
    }
}

/// A success must come with its result.
fn conclude(ended: Ended) -> Finished {
    match ended {
        Ended { outcome: AttemptOutcome::Succeeded, result: Some(result), .. } => Finished::succeeded(*result),
        Ended { outcome: AttemptOutcome::Succeeded, .. } => {
            Finished::failed(AttemptOutcome::Lost, Error::lost("the attempt ended without a result"))
        }
        Ended { outcome, error, .. } => {
            Finished::failed(outcome, error.unwrap_or_else(|| Error::lost("the attempt ended for an unknown reason")))
        }
    }
}

async fn in_process(context: &RunContext, spec: Arc<AttemptSpec>) -> Finished {
    let kind = context.in_process.clone();
    let own = spec.as_ref().clone();
    let ran = tokio::task::spawn_blocking(move || catch_unwind(AssertUnwindSafe(|| kind.run(own)))).await;
    match ran {
        Ok(Ok(Ok(result))) => Finished::succeeded(result),
        Ok(Ok(Err(error))) => {
            let outcome =
                if error.kind == ErrorKind::Cancelled { AttemptOutcome::Cancelled } else { AttemptOutcome::Failed };
            Finished::failed(outcome, error)
        }
        Ok(Err(_)) | Err(_) => {
            Finished::failed(AttemptOutcome::Failed, Error::bug(format!("stage kind `{}` panicked", spec.kind)))
        }
    }
}
