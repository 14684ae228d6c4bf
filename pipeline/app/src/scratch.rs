//! Manages scratch folders of this user, `scratch/<host>.<letters>` in the folder of machine-wide files. They are
//! removed even if their process was killed.
//!
//! Each folder contains a file `lock` that its process keeps locked. The kernel releases the lock when the process
//! ends, and the next process that creates a folder removes the unlocked ones. Several machines may share a home, so
//! only folders with this host's name are considered. A file `lock` next to the folders serializes creation and the
//! search for leftovers, because a folder without a locked file may be under creation. Names are never reused, so
//! several processes may remove the same leftover at the same time.

use crate::session::home;
use rustix::fs::{FlockOperation, flock};
use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use trainyard_core::{Error, Result};
use trainyard_runtime::slots::host;

/// Name of the lock file in each folder, and of the lock file next to the folders.
const LOCK: &str = "lock";

/// A scratch folder, removed when dropped.
pub struct ScratchFolder {
    files: PathBuf,
    /// Dropped before `_lock`, so that the folder is removed while it is locked.
    _folder: TempDir,
    _lock: File,
}

impl ScratchFolder {
    /// Creates a folder, and removes the folders of dead processes. Errors: retryable (the folder cannot be created).
    pub fn new() -> Result<Self> {
        let root = home().join("scratch");
        Self::below(&root).map_err(|e| {
            Error::retryable(format!("cannot create a scratch folder in {}: {e}", root.display()))
                .help("set TRAINYARD_HOME to a writable folder with free space, on a file system with locks")
        })
    }
    /// Returns the absolute path of the folder, which is initially empty.
    pub fn path(&self) -> &Path {
        &self.files
    }

    fn below(root: &Path) -> io::Result<Self> {
        let root = std::path::absolute(root)?;
        std::fs::create_dir_all(&root)?;
        let creation_lock = OpenOptions::new().write(true).create(true).truncate(false).open(root.join(LOCK))?;
        flock(&creation_lock, FlockOperation::LockExclusive)?;
        let leftovers = stale_folders(&root)?;
        let folder = tempfile::Builder::new().prefix(&format!("{}.", host())).tempdir_in(&root)?;
        let lock = File::create(folder.path().join(LOCK))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        drop(creation_lock);
        for leftover in leftovers {
            // The next creation tries again to remove this folder.
            let _ = std::fs::remove_dir_all(leftover);
        }
        let files = folder.path().join("files");
        std::fs::create_dir(&files)?;
        Ok(Self { files, _folder: folder, _lock: lock })
    }
}

/// Returns the unlocked folders of this host. The caller must hold the creation lock.
fn stale_folders(root: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(root)? {
        let entry = entry?;
        if entry.file_name().to_str().is_some_and(is_of_this_host) && !is_locked(&entry.path()) {
            found.push(entry.path());
        }
    }
    Ok(found)
}

/// Returns whether a folder belongs to this host. A dot in the part after the host's name means that another host's
/// name begins with this one.
fn is_of_this_host(name: &str) -> bool {
    let letters = name.strip_prefix(host().as_str()).and_then(|rest| rest.strip_prefix('.'));
    letters.is_some_and(|letters| !letters.contains('.'))
}

fn is_locked(folder: &Path) -> bool {
    // Network file systems require write access for an exclusive lock.
    match OpenOptions::new().write(true).open(folder.join(LOCK)) {
        Ok(lock) => flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err(),
        // The lock file is missing if removal or creation was interrupted. Unreadable folders count as locked.
        Err(e) => e.kind() != io::ErrorKind::NotFound,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the content of the root, without its lock file.
    fn remaining(root: &Path) -> Vec<PathBuf> {
        let all = std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path());
        let mut folders: Vec<PathBuf> = all.filter(|path| path.is_dir()).collect();
        folders.sort();
        folders
    }
    fn folder_of(scratch: &ScratchFolder) -> PathBuf {
        scratch.path().parent().unwrap().to_path_buf()
    }

    #[test]
    fn dropped_folder_is_removed() {
        let root = tempfile::tempdir().unwrap();
        let scratch = ScratchFolder::below(root.path()).unwrap();
        std::fs::write(scratch.path().join("x"), "x").unwrap();
        assert!(scratch.path().is_absolute());
        drop(scratch);
        assert!(remaining(root.path()).is_empty());
    }

    #[test]
    fn stale_folders_are_removed_at_the_next_creation() {
        let root = tempfile::tempdir().unwrap();
        let living = ScratchFolder::below(root.path()).unwrap();
        // A killed process leaves an unlocked file; one killed early leaves no file.
        let killed = root.path().join(format!("{}.killed", host()));
        std::fs::create_dir_all(killed.join("files/work")).unwrap();
        std::fs::write(killed.join(LOCK), "").unwrap();
        std::fs::create_dir(root.path().join(format!("{}.early", host()))).unwrap();
        let elsewhere = [root.path().join("elsewhere!.x"), root.path().join(format!("{}.example.x", host()))];
        elsewhere.iter().for_each(|folder| std::fs::create_dir(folder).unwrap());
        assert_eq!(remaining(root.path()).len(), 5);
        let next = ScratchFolder::below(root.path()).unwrap();
        let mut expected = vec![folder_of(&living), folder_of(&next)];
        expected.extend(elsewhere);
        expected.sort();
        assert_eq!(remaining(root.path()), expected);
    }
}
