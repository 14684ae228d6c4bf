//! Implements shortcuts for a store on a disk. They have the same effect as `object_store` without its thread hop,
//! which for the small records of a run takes longer than the file operations.
//!
//! The shortcuts do not flush; with `fsync`, puts use `object_store`. The names of staged files end in `#` and digits,
//! so listings by `object_store` hide them.

use crate::root::Root;
use rustix::fs::{CWD, RenameFlags};
use rustix::io::Errno;
use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

static STAGED: AtomicU64 = AtomicU64::new(0);

/// Creates a file of this name with these bytes. A staged file gets its final name by a rename that fails if the name
/// is taken, or, where the file system does not support such a rename, by a hard link, which needs one more directory
/// update.
pub(crate) fn create(root: &Root, name: &str, bytes: &[u8]) -> io::Result<()> {
    let path = root.path().join(name);
    let staged = stage(root, &path, bytes)?;
    let named = match rustix::fs::renameat_with(CWD, &staged, CWD, &path, RenameFlags::NOREPLACE) {
        Ok(()) => return Ok(()),
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => fs::hard_link(&staged, &path),
        Err(e) => Err(e.into()),
    };
    let _ = fs::remove_file(&staged);
    named
}

/// Lists the folders, or the files, directly under a folder, sorted, without staged files.
pub(crate) fn names(folder: &Path, folders: bool) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(folder) {
        Err(e) if is_missing(&e) => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry?;
        let kind = match entry.file_type()? {
            kind if kind.is_symlink() => fs::metadata(entry.path())?.file_type(),
            kind => kind,
        };
        let name = entry.file_name().into_string();
        names.extend(name.ok().filter(|name| kind.is_dir() == folders && !is_staged(name)));
    }
    names.sort_unstable();
    Ok(names)
}

/// Reads a file; returns `None` if it does not exist.
pub(crate) fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(e) if is_missing(&e) || e.kind() == ErrorKind::IsADirectory => Ok(None),
        Err(e) => Err(e),
    }
}

/// Returns the size of a file in bytes; `None` if it does not exist.
pub(crate) fn size(path: &Path) -> io::Result<Option<u64>> {
    match fs::metadata(path) {
        Ok(meta) if meta.is_file() => Ok(Some(meta.len())),
        Ok(_) => Ok(None),
        Err(e) if is_missing(&e) => Ok(None),
        Err(e) => Err(e),
    }
}

/// Returns the time at which a file was last written, in Unix milliseconds; `None` if the file does not exist.
pub(crate) fn modified(path: &Path) -> io::Result<Option<i64>> {
    match fs::metadata(path) {
        Ok(meta) if meta.is_file() => Ok(Some(modified_millis(&meta))),
        Ok(_) => Ok(None),
        Err(e) if is_missing(&e) => Ok(None),
        Err(e) => Err(e),
    }
}

/// Removes the write permission, to prevent accidental changes of the store through a link in an input folder.
pub(crate) fn protect(path: &Path) {
    if let Ok(meta) = fs::metadata(path) {
        let mut permissions = meta.permissions();
        permissions.set_readonly(true);
        // Best effort: some file systems have no permissions.
        let _ = fs::set_permissions(path, permissions);
    }
}

/// Links a stored file to a second path: a hard link if possible, otherwise a symbolic link or a copy.
pub(crate) fn link(from: &Path, to: &Path) -> io::Result<()> {
    clear(to)?;
    fs::hard_link(from, to)
        .or_else(|_| std::os::unix::fs::symlink(from, to))
        .or_else(|_| fs::copy(from, to).map(|_| ()))
}

pub(crate) fn copy(from: &Path, to: &Path) -> io::Result<()> {
    clear(to)?;
    fs::copy(from, to).map(|_| ())
}

/// Frees a name. An earlier fetch may have left a link there, and writing through it would change the store.
fn clear(to: &Path) -> io::Result<()> {
    match fs::remove_file(to) {
        Err(e) if e.kind() != ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}

/// Lists staged files under a folder that are at least `min_age_millis` old, sorted, with their sizes in bytes. Dead
/// processes leave them.
pub(crate) fn stale_staged(folder: &Path, now_millis: i64, min_age_millis: i64) -> io::Result<Vec<(PathBuf, u64)>> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_path_buf()];
    while let Some(folder) = open.pop() {
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(e) if is_missing(&e) => continue,
            Err(e) => return Err(e),
        };
        for entry in entries {
            let entry = entry?;
            let Ok(meta) = entry.metadata() else { continue };
            if meta.is_dir() {
                open.push(entry.path());
            } else if is_staged(&entry.file_name().to_string_lossy())
                && now_millis - modified_millis(&meta) >= min_age_millis
            {
                found.push((entry.path(), meta.len()));
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Removes a folder and its subfolders if they contain no file. Concurrently written files stay.
pub(crate) fn remove_empty(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_empty(&entry.path());
        }
    }
    // Fails for a folder that is not empty.
    let _ = fs::remove_dir(folder);
}

fn modified_millis(meta: &fs::Metadata) -> i64 {
    let since = meta.modified().ok().and_then(|t| t.duration_since(std::time::UNIX_EPOCH).ok());
    since.map_or(i64::MAX, |d| i64::try_from(d.as_millis()).unwrap_or(i64::MAX))
}

fn is_staged(name: &str) -> bool {
    name.rsplit_once('#').is_some_and(|(_, digits)| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()))
}

fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

/// Writes bytes to a staged file next to `path`, and creates the folders above it, up to the root.
fn stage(root: &Root, path: &Path, bytes: &[u8]) -> io::Result<PathBuf> {
    let mut folders_made = false;
    loop {
        let number = STAGED.fetch_add(1, Ordering::Relaxed);
        let mut name = path.as_os_str().to_owned();
        name.push(format!("#{}{number:09}", std::process::id()));
        let staged = PathBuf::from(name);
        match OpenOptions::new().write(true).create_new(true).open(&staged) {
            Ok(mut file) => {
                let written = file.write_all(bytes);
                if written.is_err() {
                    let _ = fs::remove_file(&staged);
                }
                return written.map(|()| staged);
            }
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
            Err(e) if e.kind() == ErrorKind::NotFound && !folders_made => {
                folders_made = true;
                if let Some(folder) = path.parent() {
                    root.make_below(folder)?;
                }
            }
            Err(e) => return Err(e),
        }
    }
}
