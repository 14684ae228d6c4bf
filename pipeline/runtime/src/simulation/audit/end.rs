//! Checks invariants at the end of a simulation.

use super::super::operators::EngineObservations;
use super::super::process::Process;
use super::super::world::World;
use std::collections::BTreeMap;
use std::sync::Arc;
use trainyard_core::artifact::GenerationReason;
use trainyard_core::event::{AttemptOutcome, Event, EventRecord};
use trainyard_core::{Digest, Result, RunId};
use trainyard_engine::fold::{RunView, StageStatus};
use trainyard_store::{JournalBatch, JournalReader, Store, layout};

/// Outcome of a run: for each stage its status, its digest, and the content of its outputs.
pub type Outcome = BTreeMap<String, (&'static str, Option<Digest>, Vec<Digest>)>;

/// Returns the outcome of a run. All disturbed runs must have the outcome of an undisturbed run.
pub fn outcome_of(view: &RunView) -> Outcome {
    let one = |stage: &trainyard_engine::fold::StageView| {
        let status = match stage.status {
            StageStatus::Done | StageStatus::Hit => "succeeded",
            other => other.name(),
        };
        let outputs = stage.outputs.values().map(|output| output.digest.clone()).collect();
        // A stage that failed because its twin did may have no digest in the journal.
        let digest = stage.digest.clone().filter(|_| status == "succeeded");
        (stage.key().0.clone(), (status, digest, outputs))
    };
    view.stages.iter().map(one).collect()
}

/// Checks the journals, manifests and results in the store against the observations of the engines.
pub async fn at_the_end(world: &Arc<World>, witness: &EngineObservations) {
    let store = world.store_itself().await;
    let mut journals = BTreeMap::new();
    for run in store.list_runs().await.unwrap_or_default() {
        match journal(&store, &run).await {
            Ok(batches) => {
                journals.insert(run, batches);
            }
            Err(error) => world.complain(format_args!("the journal of {run} cannot be read: {error}")),
        }
    }
    for (run, batches) in &journals {
        world.trace.count("runs");
        let epochs = batches.last().map_or(0, |batch| batch.header.epoch);
        (1..epochs).for_each(|_| world.trace.count("takeovers"));
        match fold(batches.iter()) {
            Ok(view) => {
                successes(world, &store, run, &view).await;
                everything_published_is_there(world, &store, &view).await;
            }
            Err(error) => world.complain(format_args!("the journal of {run} cannot be folded: {error}")),
        }
    }
    for ear in witness.collectors.lock().unwrap().iter() {
        nothing_acknowledged_is_lost(world, &ear.process, &ear.records(), &journals);
    }
    for (process, run, view) in witness.views.lock().unwrap().iter() {
        the_journal_explains(world, process, view, journals.get(run));
    }
    manifests(world, &store).await;
}

/// Reads the batches of a run, which must be one chain with nothing after its end.
async fn journal(store: &Store, run: &RunId) -> Result<Vec<JournalBatch>> {
    let batches = JournalReader::read_all(store, run).await?;
    let names = store.list(&format!("{}/journal", layout::run(run))).await?;
    if names.len() == batches.len() {
        return Ok(batches);
    }
    Err(trainyard_core::Error::data(format!("{} batches are read of {}", batches.len(), names.len())))
}

fn fold<'a>(batches: impl Iterator<Item = &'a JournalBatch>) -> Result<RunView> {
    let mut view = RunView::default();
    for batch in batches {
        view.apply_values(&batch.events)?;
    }
    Ok(view)
}

/// Checks that each successful attempt left its result.
async fn successes(world: &World, store: &Store, run: &RunId, view: &RunView) {
    for stage in &view.stages {
        for attempt in stage.attempts.iter().filter(|a| a.outcome == Some(AttemptOutcome::Succeeded)) {
            if !matches!(store.result(run, stage.key(), attempt.number).await, Ok(Some(_))) {
                world.complain(format_args!("{run}: attempt {} of {} left no result", attempt.number, stage.key()));
            }
        }
    }
}

async fn everything_published_is_there(world: &World, store: &Store, view: &RunView) {
    for stage in view.stages.iter().filter(|s| matches!(s.status, StageStatus::Done | StageStatus::Hit)) {
        let (Some(digest), Some(generation)) = (&stage.digest, stage.generation) else {
            world.complain(format_args!("{} succeeded without a publication", stage.key()));
            continue;
        };
        match store.manifest_at(digest, generation).await {
            Ok(Some(manifest)) => {
                let published = manifest.outputs.values().map(|output| &output.digest);
                if !published.eq(stage.outputs.values().map(|output| &output.digest)) {
                    world.complain(format_args!("{} shows other outputs than it published", stage.key()));
                }
            }
            other => world.complain(format_args!("the publication of {} is lost: {other:?}", stage.key())),
        }
    }
}

/// Checks that all manifests can be read with all their bytes, and that no stage was published again without a valid
/// reason.
async fn manifests(world: &World, store: &Store) {
    for (digest, generation) in store.list_manifests().await.unwrap_or_default() {
        let manifest = match store.manifest_at(&digest, generation).await {
            Ok(Some(manifest)) => manifest,
            other => {
                world.complain(format_args!("generation {generation} of {digest} cannot be read: {other:?}"));
                continue;
            }
        };
        world.trace.count("publications");
        if manifest.reason == Some(GenerationReason::Lost) || (generation > 0 && manifest.reason.is_none()) {
            world.complain(format_args!("{} was published again, but nothing was lost", manifest.provenance.stage));
        }
        for file in manifest.outputs.values().flat_map(|output| &output.files) {
            if let Err(error) = store.read_object(&file.digest).await {
                world.complain(format_args!("a file of {} is lost: {error}", manifest.provenance.stage));
            }
        }
    }
}

/// Checks that the records acknowledged to an engine are in the journal, in this order.
fn nothing_acknowledged_is_lost(
    world: &World,
    process: &Process,
    acknowledged: &[EventRecord],
    journals: &BTreeMap<RunId, Vec<JournalBatch>>,
) {
    let mark = format!("{}:", process.name());
    let own = journals.values().flatten().filter(|batch| batch.header.writer.starts_with(&mark));
    let written = own.flat_map(|batch| &batch.events).filter_map(|value| EventRecord::from_value(value).ok());
    let mut written = written.filter(|record| !matches!(record.event, Event::WriterOpened { .. }));
    for record in acknowledged {
        if written.next().as_ref() != Some(record) {
            return world.complain(format_args!(
                "{} got an acknowledgment of {record:?}, which is not durable",
                process.name()
            ));
        }
    }
}

/// Checks that the final view of an engine is the fold of the journal up to its last batch.
fn the_journal_explains(world: &World, process: &Process, view: &RunView, journal: Option<&Vec<JournalBatch>>) {
    let mark = format!("{}:", process.name());
    let batches = journal.map(Vec::as_slice).unwrap_or_default();
    let end = batches.iter().rposition(|batch| batch.header.writer.starts_with(&mark)).map_or(0, |at| at + 1);
    match fold(batches[..end].iter()) {
        Ok(folded) if folded == *view => {}
        _ => world.complain(format_args!("{} shows a state that the journal does not explain", process.name())),
    }
}
