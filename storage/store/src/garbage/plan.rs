//! What a collection would do, and what it did.

use super::policy::Policy;
use super::sizes::StageSize;
use std::path::PathBuf;
use trainyard_core::{Digest, RunId};

/// What can go.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GarbagePlan {
    /// What was asked for.
    pub policy: Policy,
    /// Objects that nothing names: path in the store and size in bytes, sorted.
    pub objects: Vec<(String, u64)>,
    /// Manifests whose files are given up: stage digest and generation, sorted. Their objects go in a later collection.
    pub manifests: Vec<(Digest, u32)>,
    /// Paths of resume points that nobody begins with any more, sorted.
    pub resume_points: Vec<String>,
    /// Old runs, sorted.
    pub runs: Vec<RunId>,
    /// Half-written files of dead processes on a disk, with their sizes in bytes, sorted.
    pub staged: Vec<(PathBuf, u64)>,
    /// Paths of what openings of the store left behind, and of claims on stages that are published by now.
    pub probes: Vec<String>,
    /// Number of objects that something names.
    pub kept: u64,
    /// Their size in bytes.
    pub kept_bytes: u64,
    /// Number of objects that nothing names and that are too young to go.
    pub young: u64,
    /// All objects by the workflow and the stage that made them.
    pub stages: Vec<StageSize>,
    /// Runs without an end; all that they reached stays.
    pub unfinished: Vec<RunId>,
    /// Runs whose journal is damaged; all that the rest of it names stays.
    pub damaged: Vec<RunId>,
}

/// What went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GarbageDone {
    /// Number of objects, half-written files and left-over probes.
    pub files: u64,
    /// Size of the objects and half-written files in bytes.
    pub bytes: u64,
    /// Number of manifests whose files were given up.
    pub manifests: u64,
    /// Number of resume points.
    pub resume_points: u64,
    /// Number of runs.
    pub runs: u64,
}

impl GarbagePlan {
    /// Bytes that would be freed at once.
    pub fn bytes(&self) -> u64 {
        self.objects.iter().map(|(_, size)| size).sum::<u64>() + self.staged.iter().map(|(_, size)| size).sum::<u64>()
    }
    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
            && self.manifests.is_empty()
            && self.resume_points.is_empty()
            && self.runs.is_empty()
            && self.staged.is_empty()
            && self.probes.is_empty()
    }
}
