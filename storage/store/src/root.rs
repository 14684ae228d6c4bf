//! Holds the folder of a store on a disk and detects a different folder at the same path.
//!
//! If a user removes the store or unmounts its disk during a run, the run must not silently continue in an empty store.
//! The store's folder is therefore created only when the store is opened. Later puts create only folders below it.

use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The folder that existed when the store was opened.
#[derive(Debug, Clone)]
pub(crate) struct Root {
    path: PathBuf,
    device: u64,
    inode: u64,
}

/// Error of a folder that is missing or is not the opened one. It is the inner error of an [`io::Error`].
#[derive(Debug)]
pub(crate) struct FolderGone(PathBuf);

impl Root {
    /// Records the identity of an existing folder: its device and inode.
    pub fn of(path: PathBuf) -> io::Result<Self> {
        let found = fs::metadata(&path)?;
        Ok(Self { path, device: found.dev(), inode: found.ino() })
    }
    pub fn path(&self) -> &Path {
        &self.path
    }
    /// Fails with [`FolderGone`] if the folder is not the one that was opened.
    pub fn require(&self) -> io::Result<()> {
        match fs::metadata(&self.path) {
            Ok(found) if (found.dev(), found.ino()) == (self.device, self.inode) => Ok(()),
            Ok(_) => Err(self.gone_error()),
            Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                Err(self.gone_error())
            }
            Err(e) => Err(e),
        }
    }
    /// Creates a folder below this one, and those between them.
    pub fn make_below(&self, folder: &Path) -> io::Result<()> {
        self.require()?;
        // Usually only the last one is missing.
        match fs::create_dir(folder) {
            Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::AlreadyExists) => {}
            made => return made,
        }
        let mut path = self.path.clone();
        for part in folder.strip_prefix(&self.path).map_err(io::Error::other)? {
            path.push(part);
            match fs::create_dir(&path) {
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                Err(e) if e.kind() == io::ErrorKind::NotFound => return self.require().and(Err(e)),
                made => made?,
            }
        }
        Ok(())
    }
    fn gone_error(&self) -> io::Error {
        io::Error::other(FolderGone(self.path.clone()))
    }
}

impl fmt::Display for FolderGone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the store's folder {} is gone", self.0.display())
    }
}

impl std::error::Error for FolderGone {}

impl FolderGone {
    /// Finds this error inside of another.
    pub fn find(error: &io::Error) -> Option<&Self> {
        error.get_ref()?.downcast_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_made_below_the_root_and_never_the_root() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path().join("store");
        fs::create_dir(&folder).unwrap();
        let root = Root::of(folder.clone()).unwrap();
        root.make_below(&folder.join("a/b")).unwrap();
        root.make_below(&folder.join("a/c")).unwrap();
        assert!(folder.join("a/b").is_dir() && folder.join("a/c").is_dir());
        fs::rename(&folder, scratch.path().join("aside")).unwrap();
        let error = root.make_below(&folder.join("a")).unwrap_err();
        assert!(FolderGone::find(&error).is_some() && !folder.exists(), "{error}");
        fs::create_dir(&folder).unwrap();
        let error = root.make_below(&folder.join("a")).unwrap_err();
        assert!(FolderGone::find(&error).is_some() && !folder.join("a").exists(), "{error}");
        fs::remove_dir(&folder).unwrap();
        fs::rename(scratch.path().join("aside"), &folder).unwrap();
        root.require().unwrap();
    }
}
