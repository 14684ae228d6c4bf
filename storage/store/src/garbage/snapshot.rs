//! Reads all data that a collection needs for its decisions.
//!
//! Objects are listed before anything else, so an object that is stored during the reading is never a candidate for
//! removal.

use super::policy::GarbagePolicy;
use super::records::{ManifestKey, ManifestRecord, ResumePoint, records, resume_points};
use super::runs::{SurveyedRun, runs};
use crate::connection::ObjectEntry;
use crate::layout;
use crate::store::Store;
use std::collections::{BTreeMap, BTreeSet};
use trainyard_core::{Digest, Error, Result, RunId};

pub(super) struct StoreSnapshot {
    /// Unix milliseconds by the store's clock, which also dates its objects.
    pub now: i64,
    pub objects: Vec<ObjectEntry>,
    pub probes: Vec<ObjectEntry>,
    pub indexes: Vec<ObjectEntry>,
    /// Claims of present and past computations of stages.
    pub computations: Vec<ObjectEntry>,
    /// Paths of the records about tags of runs and notes of outputs.
    pub annotations: Vec<String>,
    /// Manifests, sorted by key.
    pub manifests: Vec<ManifestRecord>,
    pub resume_points: Vec<ResumePoint>,
    pub runs: BTreeMap<RunId, SurveyedRun>,
    pub pins: BTreeSet<ManifestKey>,
    /// Files that attempts name.
    pub attempts: BTreeSet<Digest>,
}

impl StoreSnapshot {
    /// Reads a store. Errors: those of the store; data and invalid if a record that may name objects cannot be read.
    pub async fn of(store: &Store, policy: &GarbagePolicy) -> Result<Self> {
        let now = time(store).await?;
        let objects = store.connection().list(layout::OBJECTS).await?;
        let probes = store.connection().list(layout::PROBES).await?;
        let indexes = store.connection().list(layout::INDEXES).await?;
        let computations = store.connection().list(layout::COMPUTING).await?;
        // Listed before runs and manifests, so that whatever they annotate is among these, unless it is gone.
        let mut annotations = store.list(layout::TAGS).await?;
        annotations.extend(store.list(layout::NOTES).await?);
        let (runs, attempts) = runs(store, now, policy.older_than).await.map_err(unreadable_error)?;
        let resume_points = resume_points(store).await.map_err(unreadable_error)?;
        let manifests = records(store).await.map_err(unreadable_error)?;
        let pins = store.pins().await.map_err(unreadable_error)?;
        let pins = pins.into_iter().map(|pin| (pin.stage_digest, pin.generation)).collect();
        Ok(Self {
            now,
            objects,
            probes,
            indexes,
            computations,
            annotations,
            manifests,
            resume_points,
            runs,
            pins,
            attempts,
        })
    }
}

/// Returns the time by the store's clock: that of a file written now. A read-only store uses the local clock.
async fn time(store: &Store) -> Result<i64> {
    let clock = &store.options().clock;
    if store.options().read_only {
        return Ok(clock.unix_millis());
    }
    let (millis, elapsed) = (clock.unix_millis(), clock.monotonic().as_nanos());
    let mark = store.options().chance.at("garbage_time", &[millis as u64, elapsed as u64]).next_u64();
    let path = format!("{}/time-{millis}-{mark:016x}", layout::PROBES);
    store.create(&path, path.clone().into()).await?;
    let written = store.connection().modified(&path).await;
    // A leftover probe is harmless.
    let _ = store.delete(&path).await;
    Ok(written?.unwrap_or(millis))
}

fn unreadable_error(error: Error) -> Error {
    error.at("nothing is removed, because not every reference could be read")
}
