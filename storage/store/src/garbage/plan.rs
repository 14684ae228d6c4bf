//! Holds the plan of a collection and the summary of its execution.

use super::policy::GarbagePolicy;
use super::sizes::StageSize;
use std::path::PathBuf;
use trainyard_core::{Digest, RunId};

/// Data that a collection would remove, and statistics of the store.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GarbagePlan {
    /// Policy of the plan.
    pub policy: GarbagePolicy,
    /// Unreferenced objects: path in the store and size in bytes, sorted.
    pub objects: Vec<(String, u64)>,
    /// Indexes of artifacts that are gone: path in the store and size in bytes, sorted.
    pub indexes: Vec<(String, u64)>,
    /// Manifests to replace by tombstones: stage digest and generation, sorted. A later collection removes their
    /// objects.
    pub manifests: Vec<(Digest, u32)>,
    /// Paths of checkpoints that no attempt will use, sorted.
    pub resume_points: Vec<String>,
    /// Old runs, sorted.
    pub runs: Vec<RunId>,
    /// Paths of tags of removed runs and notes of removed artifacts, sorted.
    pub annotations: Vec<String>,
    /// Partially written files of dead processes on a disk, with their sizes in bytes, sorted.
    pub staged: Vec<(PathBuf, u64)>,
    /// Paths of probes left by openings of the store, and of claims on stages that are published by now.
    pub probes: Vec<String>,
    /// Number of referenced objects.
    pub kept: u64,
    /// Size of the referenced objects in bytes.
    pub kept_bytes: u64,
    /// Number of unreferenced objects that are too recent to be removed.
    pub young: u64,
    /// All objects by the workflow and the stage that made them.
    pub stages: Vec<StageSize>,
    /// Unfinished runs; all data that they reference stays.
    pub unfinished: Vec<RunId>,
    /// Runs with a damaged journal; all data that its readable part names stays.
    pub damaged: Vec<RunId>,
}

/// Amounts of data that a collection has removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GarbageSummary {
    /// Number of objects, indexes, partially written files and leftover probes.
    pub files: u64,
    /// Size of the objects, indexes and partially written files in bytes.
    pub bytes: u64,
    /// Number of manifests that were replaced by tombstones.
    pub manifests: u64,
    /// Number of checkpoints.
    pub resume_points: u64,
    /// Number of runs.
    pub runs: u64,
    /// Number of records about tags and notes.
    pub annotations: u64,
}

impl GarbagePlan {
    /// Returns the number of bytes that this collection frees. Objects of the manifests that it replaces are freed by a
    /// later one.
    pub fn bytes(&self) -> u64 {
        let objects = self.objects.iter().chain(&self.indexes);
        objects.map(|(_, size)| size).sum::<u64>() + self.staged.iter().map(|(_, size)| size).sum::<u64>()
    }
    /// Whether the plan removes nothing.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
            && self.indexes.is_empty()
            && self.manifests.is_empty()
            && self.resume_points.is_empty()
            && self.runs.is_empty()
            && self.annotations.is_empty()
            && self.staged.is_empty()
            && self.probes.is_empty()
    }
}
