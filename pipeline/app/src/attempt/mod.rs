//! One attempt of one stage: `trainyard attempt <store-url>#<attempt-folder>`.
//!
//! `spec.json` → inputs fetched into scratch → the stage, which sees local folders only → outputs hashed,
//! summarized and stored as objects → `result.json`, create-only. Messages go to stdout as JSON Lines. Publication
//! is the engine's.

mod checkpoints;
mod child;
mod command;
mod files;
mod inputs;
mod outputs;
mod redaction;
mod reporter;
mod sources;
mod supervision;
#[cfg(test)]
mod tests;

pub use inputs::materialize;
pub use outputs::store as store_outputs;
pub use sources::guard_sources;

use crate::catalogue::Catalogue;
use crate::scratch::Scratch;
use checkpoints::StoredCheckpoints;
use reporter::LineReporter;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use trainyard_api::{CancelToken, CheckpointStore, Reporter, StageContext};
use trainyard_core::attempt::{AttemptMessage, AttemptResult, AttemptSpec, STORE_OUTAGE};
use trainyard_core::{Clock, Error, Result, SystemClock};
use trainyard_spec::run_stage::KIND as RUN_KIND;
use trainyard_store::{Created, Missing, Store, StoreOptions};

/// Runs the attempt named by the URL. The error, if any, was already reported on stdout.
pub fn main(url: &str, catalogue: &Catalogue) -> Result<()> {
    let reporter: Arc<dyn Reporter> = Arc::new(redaction::Redacted(LineReporter::default()));
    let outcome = attempt(url, catalogue, &reporter).map_err(supervision::name_timeout).map_err(redaction::error);
    if let Err(error) = &outcome {
        reporter.report(AttemptMessage::Error { error: error.clone() });
    }
    outcome
}

fn attempt(url: &str, catalogue: &Catalogue, reporter: &Arc<dyn Reporter>) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(|e| Error::retryable(format!("no runtime: {e}")))?;
    let handle = runtime.handle().clone();
    let (store, spec) = runtime.block_on(open(url))?;
    let _span = tracing::info_span!("attempt", run = %spec.run, stage = %spec.stage, attempt = spec.attempt).entered();
    tracing::info!(kind = spec.kind, cpus = spec.resources.cpus, "attempt opened");
    let cancel = CancelToken::default();
    supervision::follow_stdin(url, cancel.clone());

    let scratch = Scratch::new()?;
    let clock = SystemClock::new();
    let checkpoints: Arc<dyn CheckpointStore> = Arc::new(StoredCheckpoints::new(
        store.clone(),
        handle,
        &spec,
        scratch.path().join("checkpoint"),
        reporter.clone(),
    ));
    let inputs = runtime.block_on(materialize(&store, &spec, &scratch.path().join("inputs")))?;
    let mut context = context(&spec, inputs, scratch.path(), cancel, reporter.clone(), checkpoints)?;
    guard_sources(&spec, || {
        let started = clock.monotonic();
        run_stage(&spec, catalogue, &mut context, url)?;
        context.measure("seconds", (clock.monotonic() - started).as_secs_f64());
        Ok(())
    })?;
    if let Some(bytes) = supervision::peak_memory() {
        context.measure("peak_memory_bytes", bytes);
    }
    let result = runtime.block_on(outputs::store(&store, &spec, context))?;
    runtime.block_on(write_result(&store, &result))?;
    reporter.report(AttemptMessage::Result {});
    Ok(())
}

/// The store and the spec that an attempt's URL names. How durable the store has to be and how long it may be away
/// stand in the spec, so that they are the same wherever the attempt runs.
async fn open(url: &str) -> Result<(Store, AttemptSpec)> {
    // The folder of an attempt holds no `#`; the path of a store may.
    let (store_url, folder) = url.rsplit_once('#').ok_or_else(|| {
        Error::invalid(format!("`{url}` is not an attempt URL"))
            .help("executors start this command with `<store-url>#<attempt-folder>`")
    })?;
    // The engine that started this attempt proved the store. If it is gone by now, it must not be made again.
    let missing = Missing::Refuse;
    let options = StoreOptions { probe: false, missing, outage: STORE_OUTAGE, ..StoreOptions::default() };
    let store = Store::open(store_url, options.clone()).await?;
    let spec = store.spec_in(folder).await?;
    let outage = spec.store_outage_millis.map_or(STORE_OUTAGE, Duration::from_millis);
    let store = if spec.fsync {
        Store::open(store_url, StoreOptions { durability_fsync: true, ..options }).await?
    } else {
        store
    };
    Ok((store.with_outage(outage), spec))
}

/// The context of a stage: fetched inputs, and one empty folder for each output.
pub fn context(
    spec: &AttemptSpec,
    inputs: BTreeMap<String, Vec<trainyard_api::InputArtifact>>,
    scratch: &Path,
    cancel: CancelToken,
    reporter: Arc<dyn Reporter>,
    checkpoints: Arc<dyn CheckpointStore>,
) -> Result<StageContext> {
    let mut output_folders = BTreeMap::new();
    for port in spec.outputs.keys() {
        let folder = scratch.join("outputs").join(port);
        std::fs::create_dir_all(&folder).map_err(|e| trainyard_core::error::io_error(&folder, &e))?;
        output_folders.insert(port.clone(), folder);
    }
    let work = scratch.join("work");
    if !scratch.as_os_str().is_empty() {
        std::fs::create_dir_all(&work).map_err(|e| trainyard_core::error::io_error(&work, &e))?;
    }
    Ok(StageContext {
        cpus: spec.resources.cpus.max(1) as usize,
        cancel,
        reporter,
        checkpoints,
        scratch: work,
        inputs,
        output_folders,
        metrics: BTreeMap::new(),
        comparisons: Vec::new(),
        measured: BTreeMap::new(),
        metadata: BTreeMap::new(),
        env: spec.env.clone(),
    })
}

fn run_stage(spec: &AttemptSpec, catalogue: &Catalogue, context: &mut StageContext, url: &str) -> Result<()> {
    if spec.kind == RUN_KIND {
        return command::run(spec, context, url);
    }
    let stage = catalogue.stage(&spec.kind)?;
    catch_unwind(AssertUnwindSafe(|| stage.run(&spec.config, context)))
        .unwrap_or_else(|panic| Err(Error::bug(format!("stage `{}` panicked: {}", spec.kind, panic_text(&panic)))))
}

/// The message of a panic.
pub fn panic_text(panic: &Box<dyn std::any::Any + Send>) -> String {
    let text =
        panic.downcast_ref::<&str>().map(ToString::to_string).or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "no message".into())
}

async fn write_result(store: &Store, result: &AttemptResult) -> Result<()> {
    match store.put_result(result).await? {
        Created::Ours => Ok(()),
        Created::Theirs(_) => Err(Error::lost(format!(
            "attempt {} of {} was ended by somebody else; this one is stale",
            result.attempt, result.stage
        ))),
    }
}
