//! Garbage collection: payload files that no manifest and no resume point names. First a plan, then the removal.
//!
//! Objects are stored before their manifest, so an unreferenced one may belong to an attempt that is about to publish.
//! Only objects older than `min_age` count, and references are read again before anything is removed. An object may
//! still be reused at the moment it is removed: publication checks every object, and a reader that misses one makes
//! its stage run again. Nothing is removed while a manifest cannot be read, unless its stage has published again
//! since.

use crate::layout;
use crate::local;
use crate::problem::io_fault;
use crate::store::Store;
use futures::{StreamExt, stream};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;
use trainyard_core::attempt::CheckpointRecord;
use trainyard_core::{Digest, Error, ErrorKind, Result};

const CONCURRENT: usize = 16;

/// What can be removed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GarbagePlan {
    /// Unreferenced objects: path in the store and size in bytes, sorted.
    pub objects: Vec<(String, u64)>,
    /// Half-written files of dead processes on a disk, with their sizes in bytes.
    pub staged: Vec<(PathBuf, u64)>,
    /// Number of referenced objects.
    pub kept: u64,
    /// Their size in bytes.
    pub kept_bytes: u64,
    /// Number of unreferenced objects that are still too young.
    pub young: u64,
}

/// What was removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GarbageDone {
    /// Number of files.
    pub files: u64,
    /// Their size in bytes.
    pub bytes: u64,
}

impl GarbagePlan {
    /// Bytes that would be freed.
    pub fn bytes(&self) -> u64 {
        self.objects.iter().map(|(_, size)| size).sum::<u64>() + self.staged.iter().map(|(_, size)| size).sum::<u64>()
    }
}

impl Store {
    /// Finds garbage that is at least `min_age` old. Removes nothing.
    pub async fn garbage_plan(&self, min_age: Duration) -> Result<GarbagePlan> {
        let now = self.options().clock.unix_millis();
        let age = i64::try_from(min_age.as_millis()).unwrap_or(i64::MAX);
        let entries = self.connection().list(layout::OBJECTS).await?;
        let referenced = self.referenced().await?;
        let mut plan = GarbagePlan::default();
        for entry in entries {
            let name = entry.path.rsplit('/').next().unwrap_or_default();
            if referenced.contains(name) {
                plan.kept += 1;
                plan.kept_bytes += entry.size;
            } else if now.saturating_sub(entry.modified_millis) < age {
                plan.young += 1;
            } else {
                plan.objects.push((entry.path, entry.size));
            }
        }
        if let Some(root) = self.local_root() {
            plan.staged =
                local::stale_staged(root, now, age).map_err(|e| io_fault("list", &root.display().to_string(), &e))?;
        }
        Ok(plan)
    }
    /// Removes what a plan lists, unless it is referenced by now.
    pub async fn collect_garbage(&self, plan: &GarbagePlan) -> Result<GarbageDone> {
        self.writable(layout::OBJECTS)?;
        let referenced = self.referenced().await?;
        let mut done = GarbageDone::default();
        for (path, size) in &plan.objects {
            if !referenced.contains(path.rsplit('/').next().unwrap_or_default()) {
                self.delete(path).await?;
                done = GarbageDone { files: done.files + 1, bytes: done.bytes + size };
            }
        }
        for (path, size) in &plan.staged {
            match std::fs::remove_file(path) {
                Ok(()) => done = GarbageDone { files: done.files + 1, bytes: done.bytes + size },
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
                Err(e) => return Err(io_fault("delete", &path.display().to_string(), &e)),
            }
        }
        Ok(done)
    }

    /// Digests of all objects that manifests of any generation and resume points name.
    async fn referenced(&self) -> Result<BTreeSet<String>> {
        let mut digests = self.named_by_manifests().await.map_err(unknown)?;
        for path in self.list(layout::CHECKPOINTS).await? {
            let Some(bytes) = self.get(&path).await? else { continue };
            let record: CheckpointRecord =
                serde_json::from_slice(&bytes).map_err(|e| unknown(Error::data(format!("{path}: {e}"))))?;
            digests.extend(record.files.iter().map(|f| name(&f.digest)));
        }
        Ok(digests)
    }
    async fn named_by_manifests(&self) -> Result<BTreeSet<String>> {
        let listed = self.list_manifests().await?;
        let reads = stream::iter(listed).map(|(stage, generation)| async move {
            let read = self.manifest_at(&stage, generation).await;
            (stage, read)
        });
        let reads: Vec<_> = reads.buffered(CONCURRENT).collect().await;
        let mut digests = BTreeSet::new();
        let mut published = None;
        // Newest generation first: if it is readable, nobody reads a damaged one before it.
        for (stage, read) in reads.into_iter().rev() {
            match read {
                Ok(Some(manifest)) => {
                    digests.extend(manifest.outputs.values().flat_map(|o| &o.files).map(|f| name(&f.digest)));
                    published = Some(stage);
                }
                Err(error) if error.kind == ErrorKind::Data && published.as_ref() == Some(&stage) => {}
                Err(error) => return Err(error),
                Ok(None) => {}
            }
        }
        Ok(digests)
    }
}

fn name(digest: &Digest) -> String {
    digest.as_str().to_string()
}

fn unknown(error: Error) -> Error {
    error.at("nothing is removed, because not every reference could be read")
}
