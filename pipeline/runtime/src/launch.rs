//! Carries one attempt from its command to its end.

use crate::carrier::{Carried, Carrier, Carriers, reaches};
use crate::context::RunContext;
use crate::executors::{Control, Handle, Reports, Task};
use crate::logs::Sink;
use crate::news::News;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use trainyard_core::attempt::{AttemptSpec, CancelRequest};
use trainyard_core::error::Context;
use trainyard_core::event::AttemptOutcome;
use trainyard_core::{Error, ErrorKind, Result};
use trainyard_engine::{Finished, Grant, Input, NodeId};
use trainyard_store::layout;

/// Runs the attempt in the pool of its grant.
pub(crate) async fn launch(
    context: &RunContext,
    carriers: &Carriers,
    spec: Arc<AttemptSpec>,
    grant: Grant,
    mut control: watch::Receiver<Control>,
    engine: (UnboundedSender<Input>, NodeId),
) -> Finished {
    let prepared = tokio::select! {
        biased;
        () = reaches(&mut control, Control::Cancel) => Err(Error::cancelled("stopped before it was started")),
        prepared = prepare(context, carriers, spec, &grant.pool) => prepared,
    };
    let (carrier, spec) = match prepared {
        Ok(prepared) => prepared,
        Err(error) => return Finished::failed(outcome_of(&error), error),
    };
    let news = News::new(context, &spec, Some(engine));
    let log = Log::open(&carrier, &news);
    let finished = Carried::new(carrier, task(context, &spec, grant, log.reports()), news, control).launch().await;
    log.close().await;
    finished
}

/// Finds an attempt that an earlier engine left, and follows it to its end; returns `None` if it is gone without a
/// trace.
pub(crate) async fn recover(
    context: &RunContext,
    carriers: &Carriers,
    spec: Arc<AttemptSpec>,
    (pool, handle): (&str, Option<String>),
    control: watch::Receiver<Control>,
    engine: (UnboundedSender<Input>, NodeId),
) -> Option<Finished> {
    let Ok(carrier) = carriers.of(pool) else {
        // The pool was removed from the site file. If the attempt still runs, it must stop.
        let asked = context.store.request_cancel(&spec, CancelRequest { format: 1, timed_out: false }).await;
        tracing::info!(pool, ?asked, "an attempt of an earlier engine has no pool any more");
        return None;
    };
    let spec = if carrier.can.shares_files { spec } else { as_it_was_told(context, spec).await };
    let news = News::new(context, &spec, Some(engine));
    let log = Log::open(&carrier, &news);
    let found = context.pools.iter().find(|p| p.name == pool);
    let executor = found.map(|p| p.executor.clone()).unwrap_or_default();
    let grant = Grant::new(pool, executor, Vec::new());
    let carried = Carried::new(carrier, task(context, &spec, grant, log.reports()), news, control);
    let finished = carried.recover(handle.map(Handle)).await;
    log.close().await;
    finished
}

/// Stores all objects that must exist before the attempt is submitted.
async fn prepare(
    context: &RunContext,
    carriers: &Carriers,
    spec: Arc<AttemptSpec>,
    pool: &str,
) -> Result<(Carrier, Arc<AttemptSpec>)> {
    let carrier = carriers.of(pool)?;
    let spec = if carrier.can.shares_files || spec.sources.is_empty() {
        spec
    } else {
        Arc::new(carriers.uploads.upload(&context.store, &spec).await.at("storing the stage's sources")?)
    };
    context.store.put_spec(&spec).await.at("storing the attempt's spec")?;
    Ok((carrier, spec))
}

/// Returns the spec that an earlier engine stored, which lists the uploaded sources.
async fn as_it_was_told(context: &RunContext, spec: Arc<AttemptSpec>) -> Arc<AttemptSpec> {
    match context.store.spec(&spec.run, &spec.stage, spec.attempt).await {
        Ok(Some(stored)) => Arc::new(stored),
        Ok(None) | Err(_) => spec,
    }
}

fn task(context: &RunContext, spec: &Arc<AttemptSpec>, grant: Grant, reports: Arc<dyn Reports>) -> Task {
    Task {
        grant,
        store: context.store.clone(),
        folder: layout::attempt(&spec.run, &spec.stage, spec.attempt),
        timeout: spec.timeout_millis.map(Duration::from_millis),
        spec: spec.clone(),
        reports,
    }
}

/// Destination of an attempt's messages.
enum Log {
    /// Stored by this process, for an attempt on pipes.
    Here(Arc<Sink>, JoinHandle<()>),
    /// Stored by the attempt.
    There(Arc<News>),
}

impl Log {
    fn open(carrier: &Carrier, news: &Arc<News>) -> Self {
        if carrier.can.relays {
            let (sink, emptying) = Sink::open(news);
            Self::Here(sink, emptying)
        } else {
            Self::There(news.clone())
        }
    }
    fn reports(&self) -> Arc<dyn Reports> {
        match self {
            Self::Here(sink, _) => sink.clone(),
            Self::There(news) => news.clone(),
        }
    }
    async fn close(self) {
        if let Self::Here(sink, emptying) = self {
            sink.close();
            // The task only writes the remaining messages; if it panicked, the log is truncated.
            let _ = emptying.await;
        }
    }
}

/// Returns the outcome of an attempt that could not start with this error.
pub(crate) fn outcome_of(error: &Error) -> AttemptOutcome {
    if error.kind == ErrorKind::Cancelled { AttemptOutcome::Cancelled } else { AttemptOutcome::Failed }
}
