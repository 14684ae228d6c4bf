//! Creates, measures and removes the folder of one session.
//!
//! Programs create files in the folder, but neither subfolders nor links, so it is quick to measure and to remove.

use super::mapped::{MappedFile, deleted_files};
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// Maximum size in bytes of all files of a session together, including deleted ones while they are open or mapped.
pub const MAX_BYTES: u64 = 64 << 20;
/// Maximum size in bytes of one file; the kernel enforces it.
pub const MAX_FILE_BYTES: u64 = 32 << 20;
/// Maximum number of files of a session.
pub const MAX_FILES: u64 = 256;

/// Folder that is removed when dropped. The process that writes in it must have ended before.
pub struct SessionScratch(PathBuf);

impl SessionScratch {
    /// Creates the folder. Fails if it exists.
    pub fn create(folder: PathBuf) -> io::Result<Self> {
        fs::create_dir(&folder)?;
        Ok(Self(folder))
    }
    pub fn path(&self) -> &Path {
        &self.0
    }
    /// Returns whether the process has created more or larger files than allowed.
    pub fn is_full(&self, process: u32) -> bool {
        // A folder that cannot be read must not be without limits.
        let Ok((files, bytes)) = self.usage() else { return true };
        files > MAX_FILES || bytes + self.deleted(process) > MAX_BYTES
    }
    /// Returns the number of files, and their size on disk in bytes.
    fn usage(&self) -> io::Result<(u64, u64)> {
        let (mut files, mut bytes) = (0, 0);
        for entry in fs::read_dir(&self.0)? {
            files += 1;
            bytes += entry?.metadata().map_or(0, |metadata| on_disk(&metadata));
        }
        Ok((files, bytes))
    }
    /// Returns the size on disk, in bytes, of deleted files that a process holds open or mapped.
    fn deleted(&self, process: u32) -> u64 {
        let open = open_deleted(process);
        let maps = fs::read(format!("/proc/{process}/maps")).unwrap_or_default();
        let mut counted: BTreeSet<u64> = open.keys().copied().collect();
        let mapped = deleted_files(&String::from_utf8_lossy(&maps), &self.0).into_iter();
        let mapped = mapped.filter(|file| counted.insert(file.inode)).map(|file| mapped_size(process, &file));
        mapped.sum::<u64>() + open.values().sum::<u64>()
    }
}

/// Returns the sizes on disk of the deleted files that a process holds open, by inode.
fn open_deleted(process: u32) -> BTreeMap<u64, u64> {
    let open = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
    let nameless = open.filter_map(|entry| fs::metadata(entry.path()).ok()).filter(|m| m.is_file() && m.nlink() == 0);
    nameless.map(|metadata| (metadata.ino(), on_disk(&metadata))).collect()
}

/// Returns the size on disk of a mapped file. Only a superuser may look at it; for others, its maximum counts.
fn mapped_size(process: u32, file: &MappedFile) -> u64 {
    let metadata = fs::metadata(format!("/proc/{process}/map_files/{}", file.range));
    metadata.map_or(MAX_FILE_BYTES, |metadata| on_disk(&metadata))
}

fn on_disk(metadata: &fs::Metadata) -> u64 {
    metadata.blocks() * 512
}

impl Drop for SessionScratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_deleted_files_count_and_sparse_ones_count_their_blocks() {
        let root = tempfile::tempdir().unwrap();
        let scratch = SessionScratch::create(root.path().join("a")).unwrap();
        let file = scratch.path().join("sparse");
        let sparse = fs::File::create(&file).unwrap();
        sparse.set_len(MAX_BYTES * 4).unwrap();
        assert!(!scratch.is_full(std::process::id()));
        fs::write(&file, vec![1; MAX_BYTES as usize + 1]).unwrap();
        assert!(scratch.is_full(std::process::id()));
        fs::remove_file(&file).unwrap();
        assert!(scratch.is_full(std::process::id()), "it is still open");
        drop(sparse);
        assert!(!scratch.is_full(std::process::id()));
        for index in 0..=MAX_FILES {
            fs::write(scratch.path().join(index.to_string()), "").unwrap();
        }
        assert!(scratch.is_full(std::process::id()));
        let path = scratch.path().to_path_buf();
        drop(scratch);
        assert!(!path.exists());
    }
}
