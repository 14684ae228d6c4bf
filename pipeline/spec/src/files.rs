//! Reads texts and computes digests of source files. The file system is injected, so `check` can be tested without a
//! disk.

use std::path::{Component, Path, PathBuf};
use trainyard_core::digest::Hasher;
use trainyard_core::error::io_error;
use trainyard_core::source::Glob;
use trainyard_core::{Digest, Error, Result};

/// Source of all files that a compilation reads.
pub trait FileSystem {
    /// Reads a text file. Errors: invalid (missing, not UTF-8).
    fn read(&self, path: &Path) -> Result<String>;
    /// Whether a file or folder exists at this path.
    fn exists(&self, path: &Path) -> bool;
    /// Whether the path is a file.
    fn is_file(&self, path: &Path) -> bool {
        self.exists(path)
    }
    /// Returns the content digest of a file or folder (absolute path) or of a URL. Errors: invalid (it cannot be
    /// fetched).
    fn digest(&self, location: &str) -> Result<Digest>;
    /// Returns a URL with its current revision, so that its text identifies its content. Errors: invalid (it cannot be
    /// fetched, or is no source of this form), retryable (no response).
    fn pin(&self, url: &str, _form: SourceForm) -> Result<String> {
        Err(cannot_fetch(url))
    }
}

/// The values that an option of a source accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceForm {
    /// A file or folder.
    Exact,
    /// A file, a folder, a pattern, or a data set on the hub.
    Patterns,
    /// A file, a folder, or a model on the hub, by URL or by name.
    Model,
}

/// Whether a text can be the name of a model on the hub: `OWNER/NAME`, possibly with `@REVISION`.
pub fn is_model_name(text: &str) -> bool {
    let (name, revision) = text.split_once('@').unwrap_or((text, "main"));
    let plain = |part: &str| {
        let known = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        !part.is_empty() && !part.starts_with('.') && part.chars().all(known)
    };
    let parts: Vec<&str> = name.split('/').collect();
    parts.len() == 2 && parts.into_iter().chain(revision.split('/')).all(plain)
}

/// The local disk.
#[derive(Debug, Clone, Copy, Default)]
pub struct LocalFileSystem;

impl FileSystem for LocalFileSystem {
    fn read(&self, path: &Path) -> Result<String> {
        let metadata = std::fs::metadata(path).map_err(|e| io_error(path, &e))?;
        // A pipe would block the reader, and a device may have no end.
        if !metadata.is_file() && !metadata.is_dir() {
            return Err(Error::invalid(format!("{}: not a regular file", path.display())).help("name a file of text"));
        }
        let size = metadata.len();
        if size > 4 * crate::yaml::MAX_BYTES as u64 {
            return Err(Error::invalid(format!("{}: {size} bytes are too many for a workflow file", path.display()))
                .help("keep data in separate files, and name them as sources of stages"));
        }
        let bytes = std::fs::read(path).map_err(|e| io_error(path, &e))?;
        String::from_utf8(bytes).map_err(|e| {
            let at = e.utf8_error().valid_up_to();
            Error::invalid(format!("{}: this is not UTF-8 text (see byte {at})", path.display()))
                .help("save it as UTF-8")
        })
    }
    fn exists(&self, path: &Path) -> bool {
        path.exists()
    }
    fn is_file(&self, path: &Path) -> bool {
        path.is_file()
    }
    fn digest(&self, location: &str) -> Result<Digest> {
        if location.contains("://") {
            return Err(cannot_fetch(location));
        }
        digest_path(Path::new(location))
    }
}

fn cannot_fetch(url: &str) -> Error {
    Error::invalid(format!("this build cannot fetch `{url}`; sources are local files and folders"))
        .help("download the folder and give its path")
}

/// Returns the content digest of a file or folder; see [`digest_listed`].
pub fn digest_path(path: &Path) -> Result<Digest> {
    let listed: Vec<(String, Digest)> = files_below(path)?
        .into_iter()
        .map(|file| {
            let digest = digest_file(&path_below(path, &file))?;
            Ok((file, digest))
        })
        .collect::<Result<_>>()?;
    digest_listed(&listed)
}

/// Lists the files of a source as relative paths with `/`, sorted: one empty path for a single file, the matching files
/// below its folder for a pattern. Names that start with a dot are left out, and so is `__pycache__`, which Python
/// writes next to imported files.
///
/// Errors: invalid (missing, neither a file nor a folder, a name that is not UTF-8), those of the disk.
pub fn files_below(path: &Path) -> Result<Vec<String>> {
    if let Some(glob) = pattern(path)? {
        let mut files = files_below(glob.folder())?;
        files.retain(|file| glob.matches(file));
        if files.is_empty() {
            return Err(Error::invalid(format!("{}: no file matches", path.display())));
        }
        return Ok(files);
    }
    let meta = std::fs::metadata(path).map_err(|e| io_error(path, &e))?;
    if meta.is_file() {
        return Ok(vec![String::new()]);
    }
    if !meta.is_dir() {
        return Err(Error::invalid(format!("{}: neither a file nor a folder", path.display())));
    }
    let mut files = Vec::new();
    collect(path, "", &mut files, 0)?;
    files.sort();
    Ok(files)
}

/// Returns the path of a file that [`files_below`] found.
pub fn path_below(path: &Path, file: &str) -> PathBuf {
    match pattern(path) {
        _ if file.is_empty() => path.to_path_buf(),
        Ok(Some(glob)) => glob.folder().join(file),
        _ => path.join(file),
    }
}

/// Whether a source exists: a file, a folder, or the folder of a pattern.
pub fn source_exists(path: &Path) -> bool {
    match Glob::of(path) {
        Ok(Some(glob)) => path.exists() || glob.folder().is_dir(),
        _ => !matches!(path.try_exists(), Ok(false)),
    }
}

/// Parses a path as a pattern. An existing file or folder of that name is no pattern.
fn pattern(path: &Path) -> Result<Option<Glob>> {
    if path.exists() { Ok(None) } else { Glob::of(path) }
}

/// Returns the content digest of a source, from its files in the order of [`files_below`]. A file: SHA-256 of its
/// bytes. A folder: SHA-256 of the JSON list of (relative path, digest).
pub fn digest_listed(files: &[(String, Digest)]) -> Result<Digest> {
    match files {
        [(path, digest)] if path.is_empty() => Ok(digest.clone()),
        files => Digest::of_json(&files),
    }
}

fn digest_file(path: &Path) -> Result<Digest> {
    use std::io::Read;
    let mut file = std::fs::File::open(path).map_err(|e| io_error(path, &e))?;
    let mut hasher = Hasher::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer).map_err(|e| io_error(path, &e))? {
            0 => return Ok(hasher.finish()),
            n => hasher.update(&buffer[..n]),
        }
    }
}

fn collect(root: &Path, relative: &str, files: &mut Vec<String>, depth: usize) -> Result<()> {
    let folder = root.join(relative);
    if depth > 64 {
        return Err(Error::invalid(format!("{}: folders nest deeper than 64", folder.display()))
            .help("remove links that lead back to a parent folder"));
    }
    for entry in std::fs::read_dir(&folder).map_err(|e| io_error(&folder, &e))? {
        let entry = entry.map_err(|e| io_error(&folder, &e))?;
        let Some(name) = entry.file_name().to_str().map(str::to_string) else {
            return Err(Error::invalid(format!("{}: a file name is not UTF-8", folder.display())));
        };
        if name.starts_with('.') || name == "__pycache__" {
            continue;
        }
        let path = if relative.is_empty() { name } else { format!("{relative}/{name}") };
        let meta = std::fs::metadata(root.join(&path)).map_err(|e| io_error(&root.join(&path), &e))?;
        if meta.is_dir() {
            collect(root, &path, files, depth + 1)?;
        } else if meta.is_file() {
            files.push(path);
        }
    }
    Ok(())
}

/// Joins `path` to `folder` unless it is absolute, and removes `.` and `..`, by text alone.
pub fn absolute(folder: &Path, path: &str) -> PathBuf {
    let mut result = PathBuf::new();
    for part in folder.join(path).components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                result.pop();
            }
            other => result.push(other),
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_become_absolute_by_text() {
        assert_eq!(absolute(Path::new("/a/b"), "../c/./d"), Path::new("/a/c/d"));
        assert_eq!(absolute(Path::new("/a/b"), "/x"), Path::new("/x"));
        assert_eq!(absolute(Path::new("/a"), "../../x"), Path::new("/x"));
    }

    #[test]
    fn a_pattern_has_the_digest_of_the_files_that_match() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["b.txt", "a.txt", "c.json", "sub/d.txt"] {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, name).unwrap();
        }
        let pattern = folder.path().join("*.txt");
        assert_eq!(files_below(&pattern).unwrap(), ["a.txt", "b.txt"]);
        assert_eq!(path_below(&pattern, "a.txt"), folder.path().join("a.txt"));
        let listed = ["a.txt", "b.txt"].map(|name| (name.to_string(), Digest::of(name.as_bytes())));
        assert_eq!(digest_path(&pattern).unwrap(), digest_listed(&listed).unwrap());
        assert_eq!(files_below(&folder.path().join("**/*.txt")).unwrap(), ["a.txt", "b.txt", "sub/d.txt"]);
        let error = digest_path(&folder.path().join("*.csv")).unwrap_err();
        assert!(error.message.ends_with("*.csv: no file matches"), "{error}");
        assert!(source_exists(&pattern) && !source_exists(&folder.path().join("none/*.txt")));
    }
}
