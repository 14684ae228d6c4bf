//! Runs one attempt from the engine's command to its end.

use crate::attempts::{AttemptSupervisor, PoolClient, PoolClients, wait_for_control};
use crate::context::RunContext;
use crate::executors::{AttemptReporter, AttemptTask, Control, Handle};
use crate::logs::LogSink;
use crate::notifier::AttemptNotifier;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use trainyard_core::attempt::{AttemptSpec, CancelRequest};
use trainyard_core::error::Context;
use trainyard_core::event::AttemptOutcome;
use trainyard_core::{Error, ErrorKind, Result};
use trainyard_engine::{AttemptCompletion, Grant, Input, NodeId};
use trainyard_store::layout;

/// Stores the attempt's spec and sources, then runs the attempt in the pool of its grant.
pub(crate) async fn launch(
    context: &RunContext,
    clients: &PoolClients,
    spec: Arc<AttemptSpec>,
    grant: Grant,
    mut control: watch::Receiver<Control>,
    engine: (UnboundedSender<Input>, NodeId),
) -> AttemptCompletion {
    let prepared = tokio::select! {
        biased;
        () = wait_for_control(&mut control, Control::Cancel) => Err(Error::cancelled("stopped before it was started")),
        prepared = prepare(context, clients, spec, &grant.pool) => prepared,
    };
    let (client, spec) = match prepared {
        Ok(prepared) => prepared,
        Err(error) => return AttemptCompletion::failed(outcome_of(&error), error),
    };
    let notifier = AttemptNotifier::new(context, &spec, Some(engine));
    let log = AttemptLogTarget::open(&client, &notifier);
    let finished =
        AttemptSupervisor::new(client, task(context, &spec, grant, log.reports()), notifier, control).launch().await;
    log.close().await;
    finished
}

/// Finds an attempt that an earlier engine left, and follows it to its end. Returns `None` if the attempt must be
/// started again: it left no result or failure, stopped because it seemed unwanted, or its pool was removed.
pub(crate) async fn recover(
    context: &RunContext,
    clients: &PoolClients,
    spec: Arc<AttemptSpec>,
    (pool, handle): (&str, Option<String>),
    control: watch::Receiver<Control>,
    engine: (UnboundedSender<Input>, NodeId),
) -> Option<AttemptCompletion> {
    let Ok(client) = clients.get(pool) else {
        // The pool was removed from the site file. If the attempt still runs, it must stop.
        let cancel_request = context.store.request_cancel(&spec, CancelRequest { format: 1, timed_out: false }).await;
        tracing::info!(pool, ?cancel_request, "the pool of an attempt of an earlier engine was removed");
        return None;
    };
    let spec = if client.capabilities.shares_files { spec } else { stored_spec(context, spec).await };
    let notifier = AttemptNotifier::new(context, &spec, Some(engine));
    let log = AttemptLogTarget::open(&client, &notifier);
    let found = context.pools.iter().find(|p| p.name == pool);
    let executor = found.map(|p| p.executor.clone()).unwrap_or_default();
    let grant = Grant::new(pool, executor, Vec::new());
    let supervisor = AttemptSupervisor::new(client, task(context, &spec, grant, log.reports()), notifier, control);
    let finished = supervisor.recover(handle.map(Handle)).await;
    log.close().await;
    finished
}

/// Stores all objects that must exist before the attempt is submitted.
async fn prepare(
    context: &RunContext,
    clients: &PoolClients,
    spec: Arc<AttemptSpec>,
    pool: &str,
) -> Result<(PoolClient, Arc<AttemptSpec>)> {
    let client = clients.get(pool)?;
    let spec = if client.capabilities.shares_files || spec.sources.is_empty() {
        spec
    } else {
        Arc::new(clients.uploads.upload(&context.store, &spec).await.at("storing the stage's sources")?)
    };
    context.store.put_spec(&spec).await.at("storing the attempt's spec")?;
    Ok((client, spec))
}

/// Returns the spec that an earlier engine stored, which lists the uploaded sources, or `spec` if it cannot be read.
async fn stored_spec(context: &RunContext, spec: Arc<AttemptSpec>) -> Arc<AttemptSpec> {
    match context.store.spec(&spec.run, &spec.stage, spec.attempt).await {
        Ok(Some(stored)) => Arc::new(stored),
        Ok(None) | Err(_) => spec,
    }
}

fn task(context: &RunContext, spec: &Arc<AttemptSpec>, grant: Grant, reports: Arc<dyn AttemptReporter>) -> AttemptTask {
    AttemptTask {
        grant,
        store: context.store.clone(),
        folder: layout::attempt(&spec.run, &spec.stage, spec.attempt),
        timeout: spec.timeout_millis.map(Duration::from_millis),
        spec: spec.clone(),
        reports,
    }
}

/// Destination of an attempt's messages.
enum AttemptLogTarget {
    /// Stored by this process, for an attempt on pipes.
    Relayed(Arc<LogSink>, JoinHandle<()>),
    /// Stored by the attempt.
    Stored(Arc<AttemptNotifier>),
}

impl AttemptLogTarget {
    fn open(client: &PoolClient, notifier: &Arc<AttemptNotifier>) -> Self {
        if client.capabilities.relays {
            let (sink, writer_task) = LogSink::open(notifier);
            Self::Relayed(sink, writer_task)
        } else {
            Self::Stored(notifier.clone())
        }
    }
    fn reports(&self) -> Arc<dyn AttemptReporter> {
        match self {
            Self::Relayed(sink, _) => sink.clone(),
            Self::Stored(notifier) => notifier.clone(),
        }
    }
    async fn close(self) {
        if let Self::Relayed(sink, writer_task) = self {
            sink.close();
            // The task only writes the remaining messages; if it panicked, the log is truncated.
            let _ = writer_task.await;
        }
    }
}

/// Returns the outcome of an attempt that could not start with this error.
pub(crate) fn outcome_of(error: &Error) -> AttemptOutcome {
    if error.kind == ErrorKind::Cancelled { AttemptOutcome::Cancelled } else { AttemptOutcome::Failed }
}
