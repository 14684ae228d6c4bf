//! Packs folders of other programs into resume points, and restores them.
//!
//! A resume point is a flat folder. The name of a packed file is a prefix and the file's whole path, with `/` written
//! as `%2F`. Folders without files are not kept.

use std::fs::File;
use std::path::{Path, PathBuf};
use trainyard_core::error::io_error;
use trainyard_core::{Error, Result};

/// Packs all files below `folder` into the existing flat folder `to`. A file is linked where the disk permits it, and
/// copied otherwise; a link is packed as its target.
///
/// Errors: data (a name or a type of file that cannot be stored, a folder that contains itself), and those of the disk.
pub fn pack(folder: &Path, prefix: &str, to: &Path) -> Result<()> {
    for file in files_below(folder)? {
        let to = to.join(format!("{prefix}{}", packed(&file.path)));
        std::fs::hard_link(&file.place, &to)
            .or_else(|_| std::fs::copy(&file.place, &to).map(|_| ()))
            .map_err(|e| io_error(&file.place, &e))?;
    }
    Ok(())
}

/// Restores the files of the resume point `from` that were packed with `prefix` into `folder`, which is created. They
/// are writable copies, since programs write into the folder that they resume from.
pub fn restore(from: &Path, prefix: &str, folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder).map_err(|e| io_error(folder, &e))?;
    for entry in std::fs::read_dir(from).map_err(|e| io_error(from, &e))? {
        let entry = entry.map_err(|e| io_error(from, &e))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(name) = name.strip_prefix(prefix) else { continue };
        let to = folder.join(unpacked(name));
        if let Some(parent) = to.parent() {
            std::fs::create_dir_all(parent).map_err(|e| io_error(parent, &e))?;
        }
        copy(&entry.path(), &to).map_err(|e| io_error(&to, &e))?;
    }
    Ok(())
}

/// Copies the bytes of a file, without its permissions: stored files are read-only.
fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    std::io::copy(&mut File::open(from)?, &mut File::create(to)?).map(|_| ())
}

/// A file of a folder.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct FolderFile {
    /// Path below the folder, separated by `/`.
    path: String,
    /// Local path, without links.
    place: PathBuf,
}

/// Lists all files below a folder, sorted by path.
fn files_below(folder: &Path) -> Result<Vec<FolderFile>> {
    let mut walk = FolderWalk::default();
    walk.folder(folder, "")?;
    walk.found.sort();
    Ok(walk.found)
}

#[derive(Default)]
struct FolderWalk {
    found: Vec<FolderFile>,
    /// Folders from the root to the current one, without links. A folder that occurs twice is a cycle.
    open: Vec<PathBuf>,
}

impl FolderWalk {
    /// Lists the folder `place`; `path` is its path below the root.
    fn folder(&mut self, place: &Path, path: &str) -> Result<()> {
        let place = place.canonicalize().map_err(|e| io_error(place, &e))?;
        if self.open.contains(&place) {
            return Err(Error::data(format!("{path:?} is a link to a folder that it is in"))
                .help("remove the link before the checkpoint is reported"));
        }
        self.open.push(place.clone());
        for entry in std::fs::read_dir(&place).map_err(|e| io_error(&place, &e))? {
            let entry = entry.map_err(|e| io_error(&place, &e))?;
            let name = entry.file_name();
            let name = storable(name.to_str()).ok_or_else(|| {
                Error::data(format!("{:?} is not a name that can be stored", Path::new(path).join(&name)))
                    .help("names are UTF-8 without backslashes and control characters: rename it")
            })?;
            let path = if path.is_empty() { name.to_string() } else { format!("{path}/{name}") };
            self.entry(&entry.path(), path)?;
        }
        self.open.pop();
        Ok(())
    }

    fn entry(&mut self, place: &Path, path: String) -> Result<()> {
        let kind = std::fs::metadata(place).map_err(|e| io_error(place, &e))?;
        if kind.is_dir() {
            return self.folder(place, &path);
        }
        if !kind.is_file() {
            return Err(Error::data(format!("{path:?} is neither a file nor a folder"))
                .help("only regular files and folders are stored: remove it before the checkpoint is reported"));
        }
        let place = place.canonicalize().map_err(|e| io_error(place, &e))?;
        self.found.push(FolderFile { path, place });
        Ok(())
    }
}

/// Returns the name if every machine can create a file with this name.
fn storable(name: Option<&str>) -> Option<&str> {
    name.filter(|n| !n.contains('\\') && !n.contains(char::is_control))
}

fn packed(path: &str) -> String {
    path.replace('%', "%25").replace('/', "%2F")
}

fn unpacked(name: &str) -> String {
    name.replace("%2F", "/").replace("%25", "%")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use tempfile::TempDir;
    use trainyard_core::ErrorKind;

    /// Creates a checkpoint with a subfolder in `from`, and an empty folder `to`.
    fn checkpoint() -> TempDir {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("from/global_step5/a%2Fb")).unwrap();
        std::fs::create_dir(folder.path().join("to")).unwrap();
        std::fs::write(folder.path().join("from/weights"), "w").unwrap();
        std::fs::write(folder.path().join("from/global_step5/a%2Fb/rank0"), "r").unwrap();
        folder
    }
    fn paths(folder: &Path) -> Vec<String> {
        files_below(folder).unwrap().into_iter().map(|file| file.path).collect()
    }
    #[track_caller]
    fn refused(folder: &TempDir) -> Error {
        let error = pack(&folder.path().join("from"), "p-", &folder.path().join("to")).unwrap_err();
        assert!(error.kind == ErrorKind::Data && error.help.is_some(), "{error:?}");
        error
    }

    #[test]
    fn names_are_restored() {
        for path in ["a", "a/b", "a%2Fb", "%252F/%", "%25/2F"] {
            assert!(!packed(path).contains('/'), "{path}");
            assert_eq!(unpacked(&packed(path)), path);
        }
    }

    #[test]
    fn packed_folder_is_flat_and_restored_in_its_layout() {
        let folder = checkpoint();
        let (from, to, back) = (folder.path().join("from"), folder.path().join("to"), folder.path().join("back"));
        pack(&from, "p-", &to).unwrap();
        assert_eq!(paths(&to), ["p-global_step5%2Fa%252Fb%2Frank0", "p-weights"]);
        std::fs::write(to.join("state.json"), "{}").unwrap();
        std::fs::set_permissions(to.join("p-weights"), std::fs::Permissions::from_mode(0o444)).unwrap();
        restore(&to, "p-", &back).unwrap();
        assert_eq!(paths(&back), paths(&from), "a file without the prefix is not restored");
        assert_eq!(std::fs::read_to_string(back.join("global_step5/a%2Fb/rank0")).unwrap(), "r");
        std::fs::write(back.join("weights"), "changed").unwrap();
        assert_eq!(std::fs::read_to_string(to.join("p-weights")).unwrap(), "w", "restored files are copies");
    }

    #[test]
    fn empty_folder_is_restored_as_one() {
        let folder = tempfile::tempdir().unwrap();
        let back = folder.path().join("back");
        restore(folder.path(), "p-", &back).unwrap();
        assert!(back.is_dir() && paths(&back).is_empty());
    }

    #[test]
    fn links_are_packed_as_their_targets() {
        let folder = checkpoint();
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        let outside = folder.path().join("tokenizer");
        std::fs::write(&outside, "t").unwrap();
        symlink("global_step5", from.join("latest")).unwrap();
        symlink("weights", from.join("best")).unwrap();
        symlink(&outside, from.join("tokenizer")).unwrap();
        pack(&from, "", &to).unwrap();
        let (all, first) = (paths(&to), std::fs::symlink_metadata(to.join("best")).unwrap());
        assert_eq!((all.len(), first.is_file()), (5, true), "{all:?}");
        assert_eq!(std::fs::read_to_string(to.join("tokenizer")).unwrap(), "t");
        symlink("..", from.join("global_step5/up")).unwrap();
        assert!(refused(&folder).message.contains("a folder that it is in"));
    }

    #[test]
    fn what_cannot_be_stored_is_named() {
        let folder = checkpoint();
        std::fs::write(folder.path().join("from/global_step5/a\\b"), "").unwrap();
        assert!(refused(&folder).message.contains(r#""global_step5/a\\b" is not a name"#));
        let folder = checkpoint();
        let _socket = std::os::unix::net::UnixListener::bind(folder.path().join("from/s")).unwrap();
        assert!(refused(&folder).message.contains("\"s\" is neither a file nor a folder"));
    }
}
