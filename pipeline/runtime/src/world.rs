//! Everything that a run touches, injected: store, pools, executors, stage kinds, time, chance, and who watches.

use crate::executors::Executors;
use futures::future::BoxFuture;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use trainyard_core::attempt::{AttemptMessage, AttemptResult, AttemptSpec};
use trainyard_core::event::Record;
use trainyard_core::{AttemptNumber, Chance, Clock, Output, Result, StageKey, StageKinds};
use trainyard_engine::Pool;
use trainyard_store::Store;

/// The outside of a run.
#[derive(Clone)]
pub struct World {
    pub store: Store,
    pub pools: Vec<Pool>,
    /// One for each executor name that the pools use; see [`crate::executors::kinds`].
    pub executors: Executors,
    pub catalogue: Arc<dyn StageKinds>,
    /// Runs kinds whose placement is in-process.
    pub in_process: Arc<dyn InProcess>,
    /// Reads the table of a late `for_each` when the manifest's preview is not the whole of it.
    pub rows: Arc<dyn RowReader>,
    /// Secret name → where its value comes from (`env:HF_TOKEN`).
    pub secrets: BTreeMap<String, String>,
    pub clock: Arc<dyn Clock>,
    /// Only for run ids and writer names.
    pub chance: Chance,
    pub observer: Arc<dyn Observer>,
}

/// Runs an attempt of a trivial kind inside the engine's process, on a thread that may block. Outputs are stored as objects
/// before it returns; no attempt objects are written. Must be deterministic in the spec, like any stage.
pub trait InProcess: Send + Sync {
    fn run(&self, spec: AttemptSpec) -> Result<AttemptResult>;
}

/// Reads the rows of a table output as JSON objects, in order.
pub trait RowReader: Send + Sync {
    /// At most `limit` rows, so that a caller who wants to know whether there are more than `n` asks for `n + 1`.
    fn rows<'a>(&'a self, output: &'a Output, limit: u64) -> BoxFuture<'a, Result<Vec<Value>>>;
}

/// Sees what happens while it happens. Events come from the dispatch loop, messages from the tasks of attempts, several at once:
/// return quickly.
pub trait Observer: Send + Sync {
    /// An event was journaled (and is acknowledged).
    fn event(&self, record: &Record);
    /// An attempt said something.
    fn message(&self, stage: &StageKey, attempt: AttemptNumber, message: &AttemptMessage);
    /// Something about the run as a whole that is no event (a takeover, a log that is not kept for now): one line for people.
    fn note(&self, text: &str);
}

/// Watches nothing.
pub struct Silent;

impl Observer for Silent {
    fn event(&self, _: &Record) {}
    fn message(&self, _: &StageKey, _: AttemptNumber, _: &AttemptMessage) {}
    fn note(&self, _: &str) {}
}
