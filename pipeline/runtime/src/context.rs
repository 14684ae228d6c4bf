//! Everything that a run uses, injected: store, pools, executors, stage kinds, time, chance, and an observer.

use crate::executors::Executors;
use crate::process::Processes;
use futures::future::BoxFuture;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use trainyard_core::attempt::{AttemptMessage, AttemptResult, AttemptSpec};
use trainyard_core::event::Record;
use trainyard_core::{AttemptNumber, Chance, Clock, Output, Result, RunId, StageKey, StageKinds};
use trainyard_engine::MachinePool;
use trainyard_store::Store;

/// Everything that a run uses.
#[derive(Clone)]
pub struct RunContext {
    /// Where artifacts and the journal are kept.
    pub store: Store,
    /// The machines that there are.
    pub pools: Vec<MachinePool>,
    /// One for each pool.
    pub executors: Executors,
    /// All stage kinds.
    pub catalogue: Arc<dyn StageKinds>,
    /// Runs kinds whose placement is in-process.
    pub in_process: Arc<dyn InProcess>,
    /// Reads the table of a late `for_each` when the manifest's preview is not the whole table.
    pub rows: Arc<dyn RowReader>,
    /// Secret name → where its value comes from (`env:HF_TOKEN`).
    pub secrets: BTreeMap<String, String>,
    /// How long an attempt outlives the last sign of a writer of its run, where it can.
    pub orphan_timeout: Duration,
    /// Names this process, and tells whether that of another writer lives.
    pub processes: Arc<dyn Processes>,
    /// Dates events and log records, and measures silence.
    pub clock: Arc<dyn Clock>,
    /// Used only for run ids and writer names.
    pub chance: Chance,
    /// Sees what happens.
    pub observer: Arc<dyn Observer>,
}

/// Runs attempts of trivial kinds inside the engine's process, on a thread that may block.
pub trait InProcess: Send + Sync {
    /// Runs one attempt and stores its outputs as objects before it returns. It writes no attempt objects, and like any
    /// stage its outputs depend on the spec alone.
    fn run(&self, spec: &AttemptSpec) -> Result<AttemptResult>;
}

/// Reads the rows of a table output as JSON objects, in order.
pub trait RowReader: Send + Sync {
    /// Reads at most `limit` rows. To learn whether there are more than `n`, ask for `n + 1`.
    fn rows<'a>(&'a self, output: &'a Output, limit: u64) -> BoxFuture<'a, Result<Vec<Value>>>;
}

/// Sees what happens as it happens. Events come from the dispatch loop, messages from the tasks of attempts, several at
/// once; implementations must return quickly.
pub trait Observer: Send + Sync {
    /// A writer opened the run. It comes before everything else but notes.
    fn opened(&self, _run: &OpenedRun<'_>) {}
    /// An event was journaled (and is acknowledged).
    fn event(&self, record: &Record);
    /// An attempt said something.
    fn message(&self, stage: &StageKey, attempt: AttemptNumber, message: &AttemptMessage);
    /// One line for people about the run as a whole that is not an event: a takeover, a log that cannot be stored now.
    fn note(&self, text: &str);
}

/// A run that was opened, by its first writer or by one that goes on with it.
#[derive(Debug, Clone, Copy)]
pub struct OpenedRun<'a> {
    /// The run.
    pub run: &'a RunId,
    /// Its workflow.
    pub workflow: &'a str,
    /// Parameters after defaults.
    pub params: &'a BTreeMap<String, Value>,
    /// Whether another writer had it before.
    pub resumed: bool,
}

/// An observer that ignores everything.
pub struct Silent;

impl Observer for Silent {
    fn event(&self, _: &Record) {}
    fn message(&self, _: &StageKey, _: AttemptNumber, _: &AttemptMessage) {}
    fn note(&self, _: &str) {}
}
