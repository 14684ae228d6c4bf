//! Collects garbage: plans which unreachable data to remove, and removes the data of a plan
//! (`docs/design/0014-garbage.md`).
//!
//! The following data is reachable: manifests with their lineage, pinned manifests, checkpoints, everything that
//! journals and attempts of resumable runs name, and everything that recent attempts name. Manifests are never deleted.
//! A collection replaces an unreachable manifest by a tombstone ([`crate::CollectedManifest`]), which lookups report as
//! a lost result. A collection at least `older_than` later deletes the objects of the manifest, unless a run that found
//! the manifest before still needs them. Only objects of at least that age are deleted, and storing the bytes of an
//! object again renews its age. The index of an output is removed when no such manifest has the output any more. No
//! decision depends on a deletion: a missing object only causes its stage to run again.

mod old_runs;
mod plan;
mod policy;
mod reachability;
mod records;
mod referenced_files;
mod removal;
mod runs;
mod sizes;
mod snapshot;

pub use plan::{GarbagePlan, GarbageSummary};
pub use policy::{GarbagePolicy, RENEWED};
pub use sizes::{Amount, StageSize};

use crate::connection::ObjectEntry;
use crate::error::file_error;
use crate::layout;
use crate::local;
use crate::store::Store;
use policy::is_old;
use reachability::Reachability;
use runs::GarbageRunState;
use snapshot::StoreSnapshot;
use std::collections::BTreeSet;
use trainyard_core::{Result, RunId};

impl Store {
    /// Finds removable data. Removes nothing.
    ///
    /// Errors: those of the store; data or invalid if a record that may name objects cannot be read, and then no data
    /// may be removed.
    pub async fn garbage_plan(&self, policy: &GarbagePolicy) -> Result<GarbagePlan> {
        let snapshot = StoreSnapshot::of(self, policy).await?;
        let reachability = Reachability::of(&snapshot, policy);
        let used: BTreeSet<&str> = reachability.used.iter().map(|digest| digest.as_str()).collect();
        let is_gone = |entry: &&ObjectEntry| {
            !used.contains(name(entry)) && is_old(snapshot.now, entry.modified_millis, policy.older_than)
        };
        let gone: BTreeSet<&str> = snapshot.objects.iter().filter(is_gone).map(name).collect();
        let of_state = |state: GarbageRunState| -> Vec<RunId> {
            snapshot.runs.iter().filter(|(_, run)| run.state == state).map(|(id, _)| id.clone()).collect()
        };
        let mut plan = GarbagePlan {
            policy: policy.clone(),
            manifests: reachability.given_up.iter().cloned().collect(),
            resume_points: reachability.resume_points.iter().cloned().collect(),
            runs: reachability.runs.iter().cloned().collect(),
            annotations: reachability.annotations.iter().cloned().collect(),
            stages: sizes::by_stage(&snapshot, &reachability, &|name| gone.contains(name)),
            unfinished: of_state(GarbageRunState::Unfinished),
            damaged: of_state(GarbageRunState::Damaged),
            ..GarbagePlan::default()
        };
        for entry in &snapshot.objects {
            if used.contains(name(entry)) {
                plan.kept += 1;
                plan.kept_bytes += entry.size;
            } else if gone.contains(name(entry)) {
                plan.objects.push((entry.path.clone(), entry.size));
            } else {
                plan.young += 1;
            }
        }
        let is_old = |entry: &&ObjectEntry| is_old(snapshot.now, entry.modified_millis, policy.older_than);
        let is_index_gone = |entry: &&ObjectEntry| !reachability.is_indexed(&entry.path) && is_old(entry);
        plan.indexes =
            snapshot.indexes.iter().filter(is_index_gone).map(|entry| (entry.path.clone(), entry.size)).collect();
        plan.probes = snapshot.probes.iter().filter(is_old).map(|entry| entry.path.clone()).collect();
        // A process that checks who computes a published generation finds the generation itself.
        let made: BTreeSet<String> =
            snapshot.manifests.iter().map(|record| layout::computing_of(&record.key.0, record.key.1)).collect();
        let is_over = |entry: &&ObjectEntry| entry.path.rsplit_once('.').is_some_and(|(of, _)| made.contains(of));
        plan.probes.extend(snapshot.computations.iter().filter(is_over).filter(is_old).map(|entry| entry.path.clone()));
        if let Some(root) = self.local_root() {
            let age = i64::try_from(policy.older_than.as_millis()).unwrap_or(i64::MAX);
            plan.staged = local::stale_staged(root, snapshot.now, age)
                .map_err(|e| file_error("list", &root.display().to_string(), &e))?;
        }
        Ok(plan)
    }
}

/// Returns the digest in an object's path, as text.
fn name(entry: &ObjectEntry) -> &str {
    entry.path.rsplit('/').next().unwrap_or_default()
}
