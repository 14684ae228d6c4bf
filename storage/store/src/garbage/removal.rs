//! Executes a garbage plan: removes its contents, except data that has become reachable since the plan was made.
//!
//! All references are read again before the first removal. Each step leaves a readable store, so a collection may be
//! interrupted at any moment and the next one continues.

use super::plan::{GarbagePlan, GarbageSummary};
use super::policy::is_old;
use super::reachability::Reachability;
use super::records::{CONCURRENT, ManifestKey};
use super::snapshot::StoreSnapshot;
use crate::collected_manifest::CollectedManifest;
use crate::error::file_error;
use crate::layout;
use crate::manifests::parse;
use crate::store::Store;
use crate::tags::tagged_run;
use futures::{StreamExt, TryStreamExt, stream};
use std::collections::BTreeSet;
use trainyard_core::{ErrorKind, Result};

/// Objects whose removal is prepared concurrently.
const MANY: usize = 1_024;

impl Store {
    /// Removes the contents of a plan, unless they have become reachable.
    ///
    /// Errors: invalid (the store was opened read-only), those of [`Store::garbage_plan`].
    pub async fn collect_garbage(&self, plan: &GarbagePlan) -> Result<GarbageSummary> {
        self.writable(layout::OBJECTS)?;
        let snapshot = StoreSnapshot::of(self, &plan.policy).await?;
        let reachability = Reachability::of(&snapshot, &plan.policy);
        let mut summary = GarbageSummary::default();
        for key in plan.manifests.iter().filter(|key| reachability.given_up.contains(key)) {
            summary.manifests += u64::from(self.give_up(key).await?);
        }
        for path in plan.resume_points.iter().filter(|path| reachability.resume_points.contains(*path)) {
            self.delete(path).await?;
            summary.resume_points += 1;
        }
        let objects = plan.objects.iter().filter(|(path, _)| !reachability.is_used(path));
        let indexes = plan.indexes.iter().filter(|(path, _)| !reachability.is_indexed(path));
        let objects: Vec<_> = objects.chain(indexes).collect();
        for some in objects.chunks(MANY) {
            // Collected first: see `first_missing` in `objects.rs`.
            let removals: Vec<_> = some.iter().map(|object| self.remove_old(object, snapshot.now, plan)).collect();
            let removed: Vec<_> = stream::iter(removals).buffer_unordered(CONCURRENT).try_collect().await?;
            summary.files += removed.iter().flatten().count() as u64;
            summary.bytes += removed.iter().flatten().sum::<u64>();
        }
        let mut resumed = BTreeSet::new();
        for run in plan.runs.iter().filter(|run| reachability.runs.contains(run)) {
            let end = snapshot.runs.get(run).map_or(0, |run| run.end);
            if self.remove_run(run, end).await? {
                summary.runs += 1;
            } else {
                resumed.insert(run.clone());
            }
        }
        let of_resumed = |path: &&String| tagged_run(path).is_some_and(|run| resumed.contains(&run));
        let annotations = plan.annotations.iter().filter(|path| reachability.annotations.contains(*path));
        for path in annotations.filter(|path| !of_resumed(path)) {
            self.delete(path).await?;
            summary.annotations += 1;
        }
        self.remove_leftovers(plan, &mut summary).await?;
        Ok(summary)
    }

    /// Replaces a manifest by its tombstone. Returns false if the manifest is missing, damaged or replaced already.
    async fn give_up(&self, (stage, generation): &ManifestKey) -> Result<bool> {
        let path = layout::manifest(stage, *generation);
        let Some(bytes) = self.get(&path).await? else { return Ok(false) };
        let manifest = match parse(&path, &bytes, stage, *generation) {
            Ok(manifest) => manifest,
            // Another process has replaced the manifest, or the manifest was damaged meanwhile.
            Err(error) if error.kind == ErrorKind::Data => return Ok(false),
            Err(error) => return Err(error),
        };
        let collected = CollectedManifest::new(manifest, self.options().clock.unix_millis());
        self.overwrite(&path, collected.encode(&path)?).await?;
        Ok(true)
    }

    /// Removes an object and returns its size in bytes; `None` if another process has stored it again since it was
    /// listed, or removed it.
    async fn remove_old(&self, (path, size): &(String, u64), now: i64, plan: &GarbagePlan) -> Result<Option<u64>> {
        match self.connection().modified(path).await? {
            Some(modified) if is_old(now, modified, plan.policy.older_than) => {
                self.delete(path).await?;
                Ok(Some(*size))
            }
            Some(_) | None => Ok(None),
        }
    }

    async fn remove_leftovers(&self, plan: &GarbagePlan, summary: &mut GarbageSummary) -> Result<()> {
        for (path, size) in &plan.staged {
            match std::fs::remove_file(path) {
                Ok(()) => {
                    summary.files += 1;
                    summary.bytes += size;
                }
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
                Err(e) => return Err(file_error("delete", &path.display().to_string(), &e)),
            }
        }
        for path in &plan.probes {
            self.delete(path).await?;
            summary.files += 1;
        }
        Ok(())
    }
}
