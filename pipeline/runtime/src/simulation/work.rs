//! Performs the work of a simulated stage: reads its inputs, takes steps from its last checkpoint on, fails as
//! configured, and stores outputs that are a function of the stage's digest and its inputs.

use super::setting::Mutant;
use super::world::World;
use bytes::Bytes;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;
use trainyard_core::artifact::TableSummary;
use trainyard_core::attempt::{AttemptMessage, AttemptResult, AttemptSpec, CheckpointRecord};
use trainyard_core::{Chance, Digest, Error, FileEntry, Output, Result};
use trainyard_store::{Store, layout};

/// Number of failing attempts from which a stage always fails.
const ALWAYS: u64 = 99;

/// Performs the work of a stage and returns its result. `on_message` receives checkpoints and progress.
pub async fn carry_out(
    world: &World,
    store: &Store,
    spec: &AttemptSpec,
    maker: &str,
    on_message: impl Fn(AttemptMessage),
) -> Result<AttemptResult> {
    let inputs = read_inputs(store, spec).await?;
    let (steps, seconds) = (number(spec, "steps"), number(spec, "seconds"));
    let begin = resume_point(store, spec).await?.unwrap_or(0).min(steps);
    for step in begin + 1..=steps {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        on_message(AttemptMessage::Progress { done: step, total: steps, unit: "steps".into(), metric: None });
        match save(store, spec, step).await {
            Ok(()) => on_message(AttemptMessage::Checkpoint { step }),
            // The stage continues without it.
            Err(error) => tracing::debug!(%error, "a resume point was not stored"),
        }
    }
    match number(spec, "fails") {
        ALWAYS.. => return Err(Error::invalid("this stage always fails")),
        fails if u64::from(spec.attempt) <= fails => return Err(Error::retryable("this attempt fails")),
        _ => {}
    }
    let fickle = if world.is(Mutant::StagesAreFickle) { maker } else { "" };
    let mut outputs = BTreeMap::new();
    for (name, declared) in &spec.outputs {
        let text = format!("{} {name} {inputs} {fickle}", spec.stage_digest);
        let (digest, size) = store.put_object(Bytes::from(text)).await?;
        let file = FileEntry { path: "data".into(), digest, size };
        outputs.insert(name.clone(), Output::new(declared.kind, vec![file], table(spec), BTreeMap::new())?);
    }
    Ok(AttemptResult {
        format: 1,
        run: spec.run.clone(),
        stage: spec.stage.clone(),
        attempt: spec.attempt,
        stage_digest: spec.stage_digest.clone(),
        outputs,
        metrics: BTreeMap::from([("accuracy".to_string(), chance_of(spec).at("accuracy", &[]).uniform())]),
        comparisons: Vec::new(),
        measured: BTreeMap::from([("host".to_string(), json!(maker))]),
    })
}

fn number(spec: &AttemptSpec, name: &str) -> u64 {
    spec.config[name].as_u64().unwrap_or(0)
}

/// Returns a source of randomness that depends only on the digest.
fn chance_of(spec: &AttemptSpec) -> Chance {
    let mut seed = [0; 8];
    seed.copy_from_slice(&spec.stage_digest.as_str().as_bytes()[..8]);
    Chance::new(u64::from_le_bytes(seed))
}

/// Returns the rows of a list, each with the number of failures of its stage.
fn table(spec: &AttemptSpec) -> Option<TableSummary> {
    let rows = spec.config["rows"].as_u64()?;
    let preview = (0..rows).map(|row| json!({ "row": row, "fails": row % 2 })).collect::<Vec<Value>>();
    Some(TableSummary { rows, columns: Vec::new(), preview })
}

/// Returns the digest of all inputs, each byte verified.
async fn read_inputs(store: &Store, spec: &AttemptSpec) -> Result<Digest> {
    let mut text = Vec::new();
    for input in spec.inputs.values().flatten() {
        for file in &input.output.files {
            text.extend_from_slice(&store.read_object(&file.digest).await?);
        }
    }
    Ok(Digest::of(&text))
}

fn resume_bytes(spec: &AttemptSpec, step: u64) -> Bytes {
    Bytes::from(format!("{} after step {step}", spec.stage_digest))
}

async fn save(store: &Store, spec: &AttemptSpec, step: u64) -> Result<()> {
    let (digest, size) = store.put_object(resume_bytes(spec, step)).await?;
    let files = vec![FileEntry { path: "state".into(), digest, size }];
    let record =
        CheckpointRecord { format: 1, stage_digest: spec.stage_digest.clone(), step, attempt: spec.attempt, files };
    store.save_checkpoint(&record).await
}

/// Returns the step of the newest readable checkpoint.
async fn resume_point(store: &Store, spec: &AttemptSpec) -> Result<Option<u64>> {
    let mut names = store.list(&layout::checkpoints(&spec.stage_digest)).await?;
    names.sort_by(|a, b| b.cmp(a));
    for name in names {
        let Some(bytes) = store.get(&name).await? else { continue };
        let Ok(record) = serde_json::from_slice::<CheckpointRecord>(&bytes) else { continue };
        let Some(file) = record.files.first() else { continue };
        if store.read_object(&file.digest).await.is_ok_and(|bytes| bytes == resume_bytes(spec, record.step)) {
            return Ok(Some(record.step));
        }
    }
    Ok(None)
}
