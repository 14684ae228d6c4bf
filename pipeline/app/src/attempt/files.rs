//! Selects the files of an output folder that become files of an artifact: regular files whose names are valid on every
//! machine.
//!
//! A command may write any file. A file that cannot be stored and fetched again unchanged is an error; it is never
//! converted. A link to a file or folder of the same output is stored as its target; any other link would add
//! unintended files to the artifact.

use std::fs::FileType;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use trainyard_core::error::io_error;
use trainyard_core::{Error, Result};

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct OutputFile {
    /// Path below the folder, separated by `/`.
    pub path: String,
    /// Local path of the file.
    pub place: PathBuf,
}

/// Lists all files below a folder, sorted by path. Errors: data (a name or a type of file that cannot be stored).
pub fn files_below(folder: &Path) -> Result<Vec<OutputFile>> {
    let kind = std::fs::symlink_metadata(folder).map_err(|e| io_error(folder, &e))?.file_type();
    if !kind.is_dir() {
        return Err(Error::data(format!("the folder was replaced by {}", describe(kind)))
            .help("write files into the output folder, and do not replace the folder itself"));
    }
    let root = folder.canonicalize().map_err(|e| io_error(folder, &e))?;
    let mut walk = OutputWalk { root: &root, found: Vec::new(), open: Vec::new() };
    walk.folder(&root, "")?;
    let mut found = walk.found;
    found.sort();
    Ok(found)
}

struct OutputWalk<'a> {
    /// Root of the output, without links.
    root: &'a Path,
    found: Vec<OutputFile>,
    /// Folders from the root to the current one, without links. A folder that occurs twice is a cycle.
    open: Vec<PathBuf>,
}

impl OutputWalk<'_> {
    /// Lists the folder `place`, whose path has no links. `path` is its path below the root, possibly through links.
    fn folder(&mut self, place: &Path, path: &str) -> Result<()> {
        self.open.push(place.to_path_buf());
        for entry in std::fs::read_dir(place).map_err(|e| io_error(place, &e))? {
            let entry = entry.map_err(|e| io_error(place, &e))?;
            let name = entry.file_name();
            let name = storable(name.to_str()).ok_or_else(|| {
                Error::data(format!("{:?} is not a name that can be stored", Path::new(path).join(&name))).help(
                    "names are UTF-8 without backslashes and control characters: rename it, or remove it before the \
                     command ends",
                )
            })?;
            let path = if path.is_empty() { name.to_string() } else { format!("{path}/{name}") };
            let kind = entry.file_type().map_err(|e| io_error(&entry.path(), &e))?;
            self.entry(entry.path(), path, kind)?;
        }
        self.open.pop();
        Ok(())
    }

    fn entry(&mut self, place: PathBuf, path: String, kind: FileType) -> Result<()> {
        if kind.is_symlink() {
            let (place, kind) = self.follow(&place, &path)?;
            return self.entry(place, path, kind);
        }
        if kind.is_dir() {
            return self.folder(&place, &path);
        }
        if !kind.is_file() {
            return Err(Error::data(format!("{path:?} is {}", describe(kind)))
                .help("only regular files and folders are stored: remove it before the command ends"));
        }
        self.found.push(OutputFile { path, place });
        Ok(())
    }

    /// Resolves the link `link`, whose path below the root is `path`. Returns its target and the target's type.
    ///
    /// Errors: data (a link without a target, out of the output, or into a folder that contains it).
    fn follow(&self, link: &Path, path: &str) -> Result<(PathBuf, FileType)> {
        let refuse = |why: &str, help: &str| Err(Error::data(format!("{path:?} is a link {why}")).help(help));
        let Ok(target) = link.canonicalize() else {
            return refuse("without a target", "remove it before the command ends, or create its target");
        };
        if !target.starts_with(self.root) {
            return refuse(
                "to a place outside of the output",
                "copy its target (`cp -L`), or remove it before the command ends",
            );
        }
        if self.open.contains(&target) {
            return refuse("to a folder that it is in", "remove it before the command ends");
        }
        let kind = std::fs::symlink_metadata(&target).map_err(|e| io_error(&target, &e))?.file_type();
        Ok((target, kind))
    }
}

/// Returns the name if every machine can create a file with this name and a terminal can show it.
fn storable(name: Option<&str>) -> Option<&str> {
    name.filter(|n| !n.contains('\\') && !n.contains(char::is_control))
}

/// Describes a file type, with its article.
fn describe(kind: FileType) -> &'static str {
    match kind {
        k if k.is_symlink() => "a link",
        k if k.is_fifo() => "a named pipe",
        k if k.is_socket() => "a socket",
        k if k.is_block_device() || k.is_char_device() => "a device",
        _ => "a file",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;
    use tempfile::TempDir;
    use trainyard_core::ErrorKind;

    /// Creates an output folder with `a/x` and `b`.
    fn output() -> TempDir {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("a")).unwrap();
        std::fs::write(folder.path().join("a/x"), "x").unwrap();
        std::fs::write(folder.path().join("b"), "b").unwrap();
        folder
    }
    fn paths(folder: &TempDir) -> Vec<String> {
        files_below(folder.path()).unwrap().into_iter().map(|f| f.path).collect()
    }
    #[track_caller]
    fn assert_rejected(folder: &TempDir, words: &[&str]) {
        let error = files_below(folder.path()).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Data, "{error}");
        assert!(error.help.is_some() && words.iter().all(|w| error.message.contains(w)), "{error}");
    }

    #[test]
    fn regular_files_are_found_in_order() {
        assert_eq!(paths(&output()), ["a/x", "b"]);
    }

    #[test]
    fn unportable_names_are_rejected() {
        let names: [(&[u8], &str); 4] =
            [(b"f\xff", "a/f\\xFF"), (br"a\..\..\b", r"a\\..\\..\\b"), (b"a\nb", "\\n"), (b"\x1b[2J", "u{1b}")];
        for (name, shown) in names {
            let folder = output();
            std::fs::write(folder.path().join("a").join(OsStr::from_bytes(name)), "").unwrap();
            assert_rejected(&folder, &[shown, "name"]);
        }
    }

    #[test]
    fn special_files_are_rejected() {
        let folder = output();
        let _listener = UnixListener::bind(folder.path().join("s")).unwrap();
        assert_rejected(&folder, &["\"s\"", "a socket"]);
    }

    #[test]
    fn links_are_followed_only_inside_the_output() {
        let folder = output();
        symlink("../b", folder.path().join("a/file")).unwrap();
        symlink("a", folder.path().join("latest")).unwrap();
        symlink(folder.path().join("b"), folder.path().join("whole")).unwrap();
        assert_eq!(paths(&folder), ["a/file", "a/x", "b", "latest/file", "latest/x", "whole"]);
        let stored = files_below(folder.path()).unwrap();
        assert!(stored.iter().all(|f| std::fs::symlink_metadata(&f.place).unwrap().is_file()), "{stored:?}");

        let other = output();
        let file = other.path().join("b");
        for target in [other.path(), file.as_path(), Path::new("../..")] {
            let folder = output();
            symlink(target, folder.path().join("a/out")).unwrap();
            assert_rejected(&folder, &["\"a/out\"", "outside of the output"]);
        }
    }

    #[test]
    fn dangling_and_cyclic_links_are_rejected() {
        let folder = output();
        symlink("none", folder.path().join("gone")).unwrap();
        assert_rejected(&folder, &["\"gone\"", "without a target"]);
        let folder = output();
        symlink(".", folder.path().join("a/self")).unwrap();
        assert_rejected(&folder, &["\"a/self\"", "a folder that it is in"]);
        let folder = output();
        std::fs::create_dir(folder.path().join("c")).unwrap();
        symlink("../c", folder.path().join("a/c")).unwrap();
        symlink("../a", folder.path().join("c/a")).unwrap();
        assert_rejected(&folder, &["a folder that it is in"]);
    }

    #[test]
    fn replaced_output_folder_is_rejected() {
        let (folder, other) = (output(), output());
        let port = folder.path().join("o");
        symlink(other.path(), &port).unwrap();
        assert!(files_below(&port).unwrap_err().message.contains("replaced by a link"));
    }
}
