//! Reachability, and so the removable data: a pure function of the survey.

use super::policy::{GarbagePolicy, is_old};
use super::records::{ManifestKey, ManifestRecord, ResumePoint};
use super::runs::{GarbageRunState, SurveyedRun};
use super::snapshot::StoreSnapshot;
use std::collections::{BTreeMap, BTreeSet};
use trainyard_core::{Digest, RunId};

/// Verdict on the surveyed data.
#[derive(Debug, PartialEq)]
pub(super) struct Reachability {
    /// Manifests that stay, or given-up ones whose files stay, with their lineage.
    pub kept: BTreeSet<ManifestKey>,
    /// Manifests whose files are given up now.
    pub given_up: BTreeSet<ManifestKey>,
    /// Referenced objects.
    pub used: BTreeSet<Digest>,
    /// Paths of checkpoints that no attempt will use.
    pub resume_points: BTreeSet<String>,
    /// Removed runs.
    pub runs: BTreeSet<RunId>,
}

impl Reachability {
    pub fn of(survey: &StoreSnapshot, policy: &GarbagePolicy) -> Self {
        let held: BTreeSet<&Digest> =
            survey.runs.values().filter(|run| run.retains_references()).flat_map(|run| &run.digests).collect();
        let kept = closure(survey, roots(survey, policy, &held));
        let gone = |record: &&ManifestRecord| !record.collected && !kept.contains(&record.key);
        let given_up = survey.manifests.iter().filter(gone).map(|record| record.key.clone()).collect();
        let points: BTreeSet<String> = resume_points(survey, policy, &held).map(|point| point.path.clone()).collect();
        let used = used(survey, policy, &kept, &points);
        let runs =
            survey.runs.iter().filter(|(_, run)| is_removable(survey.now, run, policy)).map(|(id, _)| id.clone());
        Self { runs: runs.collect(), kept, given_up, used, resume_points: points }
    }
}

/// Returns the manifests that must stay irrespective of others.
fn roots(survey: &StoreSnapshot, policy: &GarbagePolicy, held: &BTreeSet<&Digest>) -> Vec<ManifestKey> {
    let last = policy.keep_last.map(|count| last_used(survey, count));
    let stays = |record: &&ManifestRecord| {
        let by_policy = match &last {
            None => true,
            Some(last) => last.contains(&record.key) || !is_old(survey.now, record.modified, policy.older_than),
        };
        held.contains(&record.key.0) || survey.pins.contains(&record.key) || (by_policy && !record.collected)
    };
    survey.manifests.iter().filter(stays).map(|record| record.key.clone()).collect()
}

/// Returns, for each stage of each workflow, the manifests that runs used last.
fn last_used(survey: &StoreSnapshot, count: usize) -> BTreeSet<ManifestKey> {
    let mut used: BTreeMap<&ManifestKey, &RunId> = BTreeMap::new();
    for (id, run) in &survey.runs {
        // Runs are sorted by time.
        used.extend(run.uses.iter().map(|key| (key, id)));
    }
    let mut stages: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for record in survey.manifests.iter().filter(|record| !record.collected) {
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
fn closure(survey: &StoreSnapshot, roots: Vec<ManifestKey>) -> BTreeSet<ManifestKey> {
    let inputs: BTreeMap<&ManifestKey, &Vec<ManifestKey>> =
        survey.manifests.iter().map(|r| (&r.key, &r.inputs)).collect();
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
    survey: &'a StoreSnapshot,
    policy: &'a GarbagePolicy,
    held: &'a BTreeSet<&Digest>,
) -> impl Iterator<Item = &'a ResumePoint> {
    let published: BTreeSet<&Digest> = survey.manifests.iter().map(|record| &record.key.0).collect();
    survey.resume_points.iter().filter(move |point| {
        let old = |age| is_old(survey.now, point.modified, age);
        let done = published.contains(&point.stage) && old(policy.older_than);
        !held.contains(&point.stage) && (done || policy.runs_older_than.is_some_and(old))
    })
}

/// Returns the referenced objects. Those of manifests given up just now still count: a run may have found one a moment
/// before.
fn used(
    survey: &StoreSnapshot,
    policy: &GarbagePolicy,
    kept: &BTreeSet<ManifestKey>,
    gone: &BTreeSet<String>,
) -> BTreeSet<Digest> {
    let counts = |record: &&ManifestRecord| {
        !record.collected || kept.contains(&record.key) || !is_old(survey.now, record.modified, policy.older_than)
    };
    let manifests = survey.manifests.iter().filter(counts).flat_map(|record| &record.files);
    let points = survey.resume_points.iter().filter(|point| !gone.contains(&point.path));
    let points = points.flat_map(|point| &point.files);
    manifests.chain(points).chain(&survey.attempts).cloned().collect()
}

fn is_removable(now: i64, run: &SurveyedRun, policy: &GarbagePolicy) -> bool {
    let old = |age: std::time::Duration| is_old(now, run.modified, age.max(policy.older_than));
    run.marked || (run.state == GarbageRunState::Finished && !run.scheduled && policy.runs_older_than.is_some_and(old))
}
