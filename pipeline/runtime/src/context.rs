//! Defines the dependencies of a run, which its caller injects: store, pools, executors, stage kinds, time, randomness,
//! and an observer.

use crate::executors::Executors;
use crate::process::MachineProcesses;
use futures::future::BoxFuture;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use trainyard_core::attempt::{AttemptMessage, AttemptResult, AttemptSpec};
use trainyard_core::event::EventRecord;
use trainyard_core::{AttemptNumber, Chance, Clock, Output, Result, RunId, StageKey, StageKinds};
use trainyard_engine::MachinePool;
use trainyard_store::Store;

/// Dependencies of a run.
#[derive(Clone)]
pub struct RunContext {
    /// Store of artifacts and the journal.
    pub store: Store,
    pub pools: Vec<MachinePool>,
    /// Executors, one per pool.
    pub executors: Executors,
    pub catalogue: Arc<dyn StageKinds>,
    /// Runs kinds whose placement is in-process.
    pub in_process: Arc<dyn InProcessRunner>,
    /// Reads the table of a late `for_each` if the manifest's preview does not contain all rows.
    pub rows: Arc<dyn OutputRowReader>,
    /// Secret name → source of its value (`env:HF_TOKEN`).
    pub secrets: BTreeMap<String, String>,
    /// How long an attempt continues after the journal of its run last grew, if its executor lets attempts outlive the
    /// engine.
    pub orphan_timeout: Duration,
    /// Names this process, and checks whether the process of another writer is alive.
    pub processes: Arc<dyn MachineProcesses>,
    /// Clock for timestamps of events and log records, and for measuring silence.
    pub clock: Arc<dyn Clock>,
    /// Randomness for run ids and writer names only.
    pub chance: Chance,
    pub observer: Arc<dyn Observer>,
}

/// Runs attempts of trivial kinds inside the engine's process, on a thread that may block.
pub trait InProcessRunner: Send + Sync {
    /// Runs one attempt and stores its outputs as objects before it returns. No attempt objects are written, and as for
    /// every stage, outputs depend on the spec alone.
    fn run(&self, spec: &AttemptSpec) -> Result<AttemptResult>;
}

/// Reads the rows of a table output as JSON objects, in order.
pub trait OutputRowReader: Send + Sync {
    /// Reads at most `limit` rows. To find out whether there are more than `n`, read `n + 1`.
    fn rows<'a>(&'a self, output: &'a Output, limit: u64) -> BoxFuture<'a, Result<Vec<Value>>>;
}

/// Receives events and messages of a run. Events come from the dispatch loop, messages concurrently from the tasks of
/// attempts; implementations must return quickly.
pub trait Observer: Send + Sync {
    /// Called when a writer opened the run, before all other calls except notes.
    fn opened(&self, _run: &OpenedRun<'_>) {}
    /// Called after the store has acknowledged the journal batch with this event.
    fn event(&self, record: &EventRecord);
    /// Called with a message of an attempt.
    fn message(&self, stage: &StageKey, attempt: AttemptNumber, message: &AttemptMessage);
    /// Called when a stage begins to wait, and every 30 s while it waits: `why` names the holder of its resources, the
    /// reason of a batch system, or the run whose result it will use.
    fn waits(&self, _stage: &StageKey, _why: &str) {}
    /// Called with one line for users about the run that is not an event, such as a takeover, or a log that cannot be
    /// stored now.
    fn note(&self, text: &str);
}

/// Run that was opened, by its first writer or by one that resumes it.
#[derive(Debug, Clone, Copy)]
pub struct OpenedRun<'a> {
    pub run: &'a RunId,
    pub workflow: &'a str,
    /// Parameters after defaults.
    pub params: &'a BTreeMap<String, Value>,
    /// Whether another writer opened the run before.
    pub resumed: bool,
}

/// Observer that ignores all calls.
pub struct NoopObserver;

impl Observer for NoopObserver {
    fn event(&self, _: &EventRecord) {}
    fn message(&self, _: &StageKey, _: AttemptNumber, _: &AttemptMessage) {}
    fn note(&self, _: &str) {}
}
