//! Determines the reachable data, and thereby the removable data, as a pure function of a [`StoreSnapshot`].

use super::policy::{GarbagePolicy, is_old};
use super::records::{ManifestKey, ManifestRecord, ResumePoint};
use super::runs::{GarbageRunState, SurveyedRun};
use super::snapshot::StoreSnapshot;
use crate::layout;
use crate::notes::noted_output;
use crate::tags::tagged_run;
use std::collections::{BTreeMap, BTreeSet};
use trainyard_core::{Digest, RunId};

/// Reachable and removable data of a snapshot.
#[derive(Debug, PartialEq)]
pub(super) struct Reachability {
    /// Reachable manifests, and tombstones whose files stay, with their lineage.
    pub kept: BTreeSet<ManifestKey>,
    /// Manifests that this collection replaces by tombstones.
    pub given_up: BTreeSet<ManifestKey>,
    /// Referenced objects.
    pub used: BTreeSet<Digest>,
    /// Content digests of the outputs of these objects, whose indexes stay.
    pub outputs: BTreeSet<Digest>,
    /// Paths of checkpoints that no attempt will use.
    pub resume_points: BTreeSet<String>,
    /// Removed runs.
    pub runs: BTreeSet<RunId>,
    /// Paths of tags of removed runs, and of notes of outputs that no kept manifest has.
    pub annotations: BTreeSet<String>,
}

impl Reachability {
    pub fn of(snapshot: &StoreSnapshot, policy: &GarbagePolicy) -> Self {
        let protected: BTreeSet<&Digest> =
            snapshot.runs.values().filter(|run| run.retains_references()).flat_map(|run| &run.digests).collect();
        let kept = closure(snapshot, roots(snapshot, policy, &protected));
        let is_given_up = |record: &&ManifestRecord| !record.collected && !kept.contains(&record.key);
        let given_up = snapshot.manifests.iter().filter(is_given_up).map(|record| record.key.clone()).collect();
        let points: BTreeSet<String> =
            resume_points(snapshot, policy, &protected).map(|point| point.path.clone()).collect();
        let used = used(snapshot, policy, &kept, &points);
        let outputs = counted(snapshot, policy, &kept).flat_map(|record| record.outputs.iter().cloned()).collect();
        let runs =
            snapshot.runs.iter().filter(|(_, run)| is_removable(snapshot.now, run, policy)).map(|(id, _)| id.clone());
        let runs = runs.collect();
        let annotations = annotations(snapshot, &runs, &kept);
        Self { runs, annotations, kept, given_up, used, outputs, resume_points: points }
    }
    /// Returns whether the index at this path is of an output that stays.
    pub fn is_indexed(&self, path: &str) -> bool {
        digest_of(path).is_some_and(|digest| self.outputs.contains(&digest))
    }
    /// Returns whether the object at this path is referenced.
    pub fn is_used(&self, path: &str) -> bool {
        digest_of(path).is_some_and(|digest| self.used.contains(&digest))
    }
}

fn digest_of(path: &str) -> Option<Digest> {
    let name = path.rsplit('/').next().unwrap_or_default();
    Digest::try_from(name.to_string()).ok()
}

/// Returns the manifests that are reachable by themselves: protected by a run, pinned, or kept by the policy.
fn roots(snapshot: &StoreSnapshot, policy: &GarbagePolicy, protected: &BTreeSet<&Digest>) -> Vec<ManifestKey> {
    let last = policy.keep_last.map(|count| last_used(snapshot, count));
    let stays = |record: &&ManifestRecord| {
        let by_policy = match &last {
            None => true,
            Some(last) => last.contains(&record.key) || !is_old(snapshot.now, record.modified, policy.older_than),
        };
        protected.contains(&record.key.0) || snapshot.pins.contains(&record.key) || (by_policy && !record.collected)
    };
    snapshot.manifests.iter().filter(stays).map(|record| record.key.clone()).collect()
}

/// Returns, for each stage of each workflow, the `count` manifests that runs used last.
fn last_used(snapshot: &StoreSnapshot, count: usize) -> BTreeSet<ManifestKey> {
    let mut used: BTreeMap<&ManifestKey, &RunId> = BTreeMap::new();
    for (id, run) in &snapshot.runs {
        // Runs are sorted by time.
        used.extend(run.uses.iter().map(|key| (key, id)));
    }
    let mut stages: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for record in snapshot.manifests.iter().filter(|record| !record.collected) {
        let last = used.get(&record.key).map_or(&record.run, |run| (*run).max(&record.run));
        let stage = stages.entry((&record.workflow, &record.stage)).or_default();
        stage.push((last, record.key.1, &record.key));
    }
    let newest = |mut all: Vec<(&RunId, u32, &ManifestKey)>| {
        all.sort_by(|a, b| b.cmp(a));
        all.into_iter().take(count).map(|(_, _, key)| key.clone()).collect::<Vec<_>>()
    };
    stages.into_values().flat_map(newest).collect()
}

/// Returns these manifests and their lineage.
fn closure(snapshot: &StoreSnapshot, roots: Vec<ManifestKey>) -> BTreeSet<ManifestKey> {
    let inputs: BTreeMap<&ManifestKey, &Vec<ManifestKey>> =
        snapshot.manifests.iter().map(|r| (&r.key, &r.inputs)).collect();
    let (mut open, mut kept) = (roots, BTreeSet::new());
    while let Some(key) = open.pop() {
        if !kept.contains(&key) {
            open.extend(inputs.get(&key).into_iter().flat_map(|inputs| inputs.iter().cloned()));
            kept.insert(key);
        }
    }
    kept
}

/// Returns the removable checkpoints: those of published stages, and very old ones of abandoned stages.
fn resume_points<'a>(
    snapshot: &'a StoreSnapshot,
    policy: &'a GarbagePolicy,
    protected: &'a BTreeSet<&Digest>,
) -> impl Iterator<Item = &'a ResumePoint> {
    let published: BTreeSet<&Digest> = snapshot.manifests.iter().map(|record| &record.key.0).collect();
    snapshot.resume_points.iter().filter(move |point| {
        let old = |age| is_old(snapshot.now, point.modified, age);
        let is_superseded = published.contains(&point.stage) && old(policy.older_than);
        !protected.contains(&point.stage) && (is_superseded || policy.runs_older_than.is_some_and(old))
    })
}

/// Returns the manifests whose objects are referenced. Objects of recently replaced manifests still count, since a run
/// may have found such a manifest just before its replacement.
fn counted<'a>(
    snapshot: &'a StoreSnapshot,
    policy: &'a GarbagePolicy,
    kept: &'a BTreeSet<ManifestKey>,
) -> impl Iterator<Item = &'a ManifestRecord> {
    snapshot.manifests.iter().filter(move |record| {
        !record.collected || kept.contains(&record.key) || !is_old(snapshot.now, record.modified, policy.older_than)
    })
}

/// Returns the referenced objects.
fn used(
    snapshot: &StoreSnapshot,
    policy: &GarbagePolicy,
    kept: &BTreeSet<ManifestKey>,
    removed: &BTreeSet<String>,
) -> BTreeSet<Digest> {
    let manifests = counted(snapshot, policy, kept).flat_map(|record| &record.files);
    let points = snapshot.resume_points.iter().filter(|point| !removed.contains(&point.path));
    let points = points.flat_map(|point| &point.files);
    manifests.chain(points).chain(&snapshot.attempts).cloned().collect()
}

/// Returns the records about tags and notes of runs and outputs that are gone or removed now.
fn annotations(snapshot: &StoreSnapshot, removed: &BTreeSet<RunId>, kept: &BTreeSet<ManifestKey>) -> BTreeSet<String> {
    let records = snapshot.manifests.iter().filter(|record| kept.contains(&record.key));
    let outputs: BTreeSet<&Digest> = records.flat_map(|record| &record.outputs).collect();
    let is_gone = |path: &&String| match (tagged_run(path), noted_output(path)) {
        (_, Some(output)) => !outputs.contains(&output),
        (Some(run), None) if path.starts_with(layout::TAGS) => {
            !snapshot.runs.contains_key(&run) || removed.contains(&run)
        }
        _ => false,
    };
    snapshot.annotations.iter().filter(is_gone).cloned().collect()
}

fn is_removable(now: i64, run: &SurveyedRun, policy: &GarbagePolicy) -> bool {
    let old = |age: std::time::Duration| is_old(now, run.modified, age.max(policy.older_than));
    run.marked || (run.state == GarbageRunState::Finished && !run.scheduled && policy.runs_older_than.is_some_and(old))
}
