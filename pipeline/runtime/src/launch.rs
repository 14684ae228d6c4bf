//! Carrying one attempt from its command to its end.

use crate::executors::{Ended, Executor, Reports, Task, Wish};
use crate::logs::Sink;
use crate::lookup;
use crate::world::World;
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
    world: &World,
    spec: Arc<AttemptSpec>,
    grant: Grant,
    wish: watch::Receiver<Wish>,
    engine: (UnboundedSender<Input>, NodeId),
) -> Finished {
    if grant.is_in_process() {
        return in_process(world, spec).await;
    }
    let prepared = async {
        let executor = world.executors.get(&grant.executor)?;
        world.store.put_spec(&spec).await.at("storing the attempt's spec")?;
        Ok::<_, Error>(executor)
    };
    match prepared.await {
        Ok(executor) => {
            let (sink, emptying) = Sink::open(world, &spec, Some(engine));
            let reports: Arc<dyn Reports> = sink.clone();
            let ended = executor.run(task(world, &spec, grant), wish, reports).await;
            sink.close();
            // The task only puts what is left; if it panicked, the log is short.
            let _ = emptying.await;
            conclude(world, &spec, ended).await
        }
        Err(error) => Finished::failed(AttemptOutcome::Failed, error),
    }
}

/// Finds what an earlier engine left; `None` if nothing is.
pub(crate) async fn recover(
    world: &World,
    spec: Arc<AttemptSpec>,
    pool: &str,
    wish: watch::Receiver<Wish>,
) -> Option<Finished> {
    let executor = executor_of(world, pool).ok()?;
    let (sink, emptying) = Sink::open(world, &spec, None);
    let reports: Arc<dyn Reports> = sink.clone();
    let grant = Grant { pool: pool.to_string(), executor: executor.name().to_string(), shares: Vec::new() };
    let ended = executor.reattach(task(world, &spec, grant), wish, reports).await;
    sink.close();
    let _ = emptying.await;
    match ended {
        Some(ended) => Some(conclude(world, &spec, ended).await),
        None => None,
    }
}

fn executor_of(world: &World, pool: &str) -> Result<Arc<dyn Executor>> {
    let found = world.pools.iter().find(|p| p.name == pool);
    world.executors.get(&found.ok_or_else(|| Error::invalid(format!("no pool `{pool}`")))?.executor)
}

fn task(world: &World, spec: &Arc<AttemptSpec>, grant: Grant) -> Task {
    Task {
        grant,
        store: world.store.clone(),
        folder: layout::attempt(&spec.run, &spec.stage, spec.attempt),
        timeout: spec.timeout_millis.map(Duration::from_millis),
        spec: spec.clone(),
    }
}

/// A success is one only with its result in the store.
async fn conclude(world: &World, spec: &AttemptSpec, ended: Ended) -> Finished {
    match ended {
        Ended { outcome: AttemptOutcome::Succeeded, .. } => match lookup::result(&world.store, spec).await {
            Ok(Some(result)) => Finished::succeeded(result),
            Ok(None) => Finished::failed(AttemptOutcome::Lost, Error::lost("the attempt ended without a result")),
            Err(error) => Finished::failed(AttemptOutcome::Failed, error.at("reading the attempt's result")),
        },
        Ended { outcome, error } => {
            Finished::failed(outcome, error.unwrap_or_else(|| Error::lost("the attempt ended for an unknown reason")))
        }
    }
}

async fn in_process(world: &World, spec: Arc<AttemptSpec>) -> Finished {
    let kind = world.in_process.clone();
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
