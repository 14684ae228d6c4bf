//! Runs a process of a multi-node attempt other than the first. It runs the command and records in the store how the
//! command ended. It stops when the store shows that the attempt has ended.

use super::mark;
use super::redaction::{self, RedactingReporter};
use super::rendezvous::rank;
use super::reporter::StderrReporter;
use super::runner::AttemptRunner;
use super::setup::{open, runtime, span};
use super::stop::{AttemptStop, StopSignal};
use crate::catalogue::Catalogue;
use crate::scratch::ScratchFolder;
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use trainyard_api::CancelToken;
use trainyard_core::attempt::AttemptSpec;
use trainyard_core::peers::NodeEnd;
use trainyard_core::{Error, ErrorKind, Result, SystemClock};
use trainyard_runtime::executors::kill_started;
use trainyard_runtime::lease;
use trainyard_store::Store;

/// Interval at which the process checks whether the attempt has ended.
const POLL_INTERVAL: Duration = Duration::from_secs(2);
/// Time between the request to stop the command and the kill of all processes that it started.
const GRACE: Duration = Duration::from_secs(10);

/// Runs the process. Returns an error if the end of the command could not be recorded, but not if the command failed.
pub fn main(url: &str, mark: &str, catalogue: &Catalogue) -> Result<()> {
    mark::adopt_orphans();
    let runtime = runtime()?;
    let (store, spec) = runtime.block_on(open(url))?;
    let (rank, token) = (rank(url), CancelToken::default());
    let _span = span(&spec).entered();
    let stops = Arc::new(StopSignal::new(token.clone()));
    {
        let _inside = runtime.enter();
        watch_end(&store, &spec, &stops);
    }
    let (enforcing, marked) = (stops.clone(), mark.to_string());
    std::thread::spawn(move || {
        enforcing.wait(None);
        std::thread::sleep(GRACE);
        kill_started(&marked);
        std::process::exit(1)
    });
    let scratch = ScratchFolder::new()?;
    let work = AttemptRunner {
        url,
        mark,
        catalogue,
        store: &store,
        spec: &spec,
        scratch: scratch.path(),
        process_tree: None,
        handle: runtime.handle().clone(),
        cancel: token,
        killed: None,
        reporter: Arc::new(RedactingReporter(StderrReporter)),
        enter: &|_| {},
    };
    let error = work.run_node(rank).map_err(redaction::error).err();
    if let Some(error) = &error {
        tracing::error!("node {rank}: {error}");
    }
    let end = NodeEnd { format: 1, rank, error: error.map(|error| explained(error, &stops, &spec)) };
    // The reason is stored before anything is killed: the batch system may then end the whole job.
    let put = runtime.block_on(store.put_node_end(&spec, &end));
    kill_started(mark);
    // Pending requests to the store must not block the exit.
    runtime.shutdown_background();
    put
}

/// Replaces the error of a cancelled stage by the reason for which it was stopped.
fn explained(error: Error, stops: &StopSignal, spec: &AttemptSpec) -> Error {
    match stops.reason() {
        Some(why) if error.kind == ErrorKind::Cancelled => why.explain(spec).1,
        _ => error,
    }
}

/// Starts tasks that stop the process when the attempt has ended or must stop, when its run has ended, and on SIGTERM.
fn watch_end(store: &Store, spec: &AttemptSpec, stops: &Arc<StopSignal>) {
    let direct_store = store.with_outage(Duration::ZERO);
    let (polled, leased) =
        ((direct_store.clone(), spec.clone(), stops.clone()), (direct_store, spec.clone(), stops.clone()));
    tokio::spawn(async move {
        let (store, spec, stops) = polled;
        while !is_over(&store, &spec).await {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        stops.stop(AttemptStop::Cancelled);
    });
    tokio::spawn(async move {
        let (store, spec, stops) = leased;
        stops.stop(lease::watch(&store, &spec, &SystemClock::new()).await.into());
    });
    // If no handler can be installed, the signal ends the process by default.
    if let Ok(mut terminate) = signal(SignalKind::terminate()) {
        let stops = stops.clone();
        tokio::spawn(async move {
            if terminate.recv().await.is_some() {
                stops.stop(AttemptStop::Signal("SIGTERM"));
            }
        });
    }
}

/// Returns whether the attempt has ended or must stop. Failed lookups count as no.
async fn is_over(store: &Store, spec: &AttemptSpec) -> bool {
    matches!(store.cancel_request(spec).await, Ok(Some(_)))
        || matches!(store.result(&spec.run, &spec.stage, spec.attempt).await, Ok(Some(_)))
        || matches!(store.failure(&spec.run, &spec.stage, spec.attempt).await, Ok(Some(_)))
}
