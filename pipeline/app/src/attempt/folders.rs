//! Manages the scratch folders of a host's attempts.
//!
//! A folder that is empty after its attempt is reused. Most commands write no files there, and creating and removing a
//! folder takes longer than a small command.

use super::runner::WORK;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use trainyard_core::Result;
use trainyard_core::error::io_error;

pub struct Folders<'a> {
    scratch: &'a Path,
    empty: Mutex<Vec<PathBuf>>,
}

impl<'a> Folders<'a> {
    /// Creates a manager of folders below `scratch`, which must be empty.
    pub fn of(scratch: &'a Path) -> Self {
        Self { scratch, empty: Mutex::default() }
    }
    /// Takes a folder for an attempt, reused or new. The folder is empty except for an empty working directory. `id`
    /// must be unique to the attempt.
    pub fn take(&self, id: u64) -> Result<AttemptFolder<'_>> {
        if let Some(path) = self.empty().pop() {
            return Ok(AttemptFolder { path, folders: self });
        }
        let path = self.scratch.join(id.to_string());
        std::fs::create_dir(&path).map_err(|e| io_error(&path, &e))?;
        Ok(AttemptFolder { path, folders: self })
    }
    fn empty(&self) -> MutexGuard<'_, Vec<PathBuf>> {
        self.empty.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Folder of one attempt. When dropped, it is offered for reuse if it is empty, and otherwise removed.
pub struct AttemptFolder<'a> {
    path: PathBuf,
    folders: &'a Folders<'a>,
}

impl AttemptFolder<'_> {
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for AttemptFolder<'_> {
    fn drop(&mut self) {
        if is_as_new(&self.path).unwrap_or(false) {
            self.folders.empty().push(std::mem::take(&mut self.path));
        } else {
            // The host removes this folder at its end.
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

/// Returns whether a folder is empty except for an empty, writable working directory.
fn is_as_new(folder: &Path) -> std::io::Result<bool> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let found = entry.metadata()?;
        let is_work = entry.file_name() == WORK && found.is_dir() && !found.permissions().readonly();
        if !is_work || entry.path().read_dir()?.next().is_some() {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{Permissions, create_dir, set_permissions, write};
    use std::os::unix::fs::PermissionsExt as _;

    /// Runs `work` as an attempt in its folder; returns whether the next attempt gets the same folder.
    fn is_reused(work: impl FnOnce(&Path)) -> bool {
        let scratch = tempfile::tempdir().unwrap();
        let folders = Folders::of(scratch.path());
        let first = folders.take(1).unwrap();
        work(first.path());
        let before = first.path().to_path_buf();
        drop(first);
        let next = folders.take(2).unwrap();
        assert!(is_as_new(next.path()).unwrap(), "empty after any work");
        assert!(next.path() == before || !before.exists());
        next.path() == before
    }

    #[test]
    fn only_unchanged_folders_are_reused() {
        assert!(is_reused(|_| {}));
        assert!(is_reused(|folder| create_dir(folder.join(WORK)).unwrap()));
        assert!(!is_reused(|folder| create_dir(folder.join("outputs")).unwrap()));
        assert!(!is_reused(|folder| write(folder.join(WORK), "a file").unwrap()));
        assert!(!is_reused(|folder| {
            create_dir(folder.join(WORK)).unwrap();
            write(folder.join(WORK).join(".hidden"), "").unwrap();
        }));
        assert!(!is_reused(|folder| {
            create_dir(folder.join(WORK)).unwrap();
            set_permissions(folder.join(WORK), Permissions::from_mode(0o500)).unwrap();
        }));
    }

    #[test]
    fn concurrent_attempts_have_separate_folders() {
        let scratch = tempfile::tempdir().unwrap();
        let folders = Folders::of(scratch.path());
        drop(folders.take(1).unwrap());
        let (one, other) = (folders.take(2).unwrap(), folders.take(3).unwrap());
        assert_ne!(one.path(), other.path());
    }
}
