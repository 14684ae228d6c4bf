//! Creates the folder in which a program runs, with copies of its files and the bridge for Python.
//!
//! The folder contains only files that the stage digest covers, so a program that works here also works on another
//! machine, where its sources are stored in separate folders. Links to the files are not sufficient: Python looks for
//! modules in the real folder of a script.

use crate::options::ProgramOptions;
use crate::{BRIDGE, BRIDGE_NAME};
use std::ffi::OsStr;
use std::fs::Permissions;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use trainyard_core::error::io_error;
use trainyard_core::source::Glob;
use trainyard_core::{Error, Result};

/// Maximum bytes of a copied file. Larger files are data rather than programs, and are linked.
const MAX_COPY_BYTES: u64 = 64 << 20;

/// Folder of a program, removed when dropped.
pub struct ProgramFolder {
    folder: TempDir,
    /// Command in which files of the program are replaced by their paths in the folder.
    pub command: Vec<String>,
    /// Command that ends what a process of the program leaves; may be empty.
    pub stop: Vec<String>,
}

impl ProgramFolder {
    /// Copies the files of a program into a new folder. Errors: invalid (a file is missing, or two have the same name),
    /// and those of the disk.
    pub fn create(options: &ProgramOptions) -> Result<Self> {
        let created = tempfile::Builder::new().prefix("trainyard-process-").tempdir();
        let folder = created.map_err(|e| Error::retryable(format!("cannot create a folder for the program: {e}")))?;
        let mut command = options.command.clone();
        for (at, word) in command.iter_mut().enumerate() {
            if let Some(name) = custom_file(at, word) {
                copy_file(Path::new(word.as_str()), &folder.path().join(name))?;
                // A program is started by its path, and its arguments are relative to its working folder.
                *word = if at == 0 { folder.path().join(name).display().to_string() } else { name.to_string() };
            }
        }
        for source in &options.files {
            copy_source(Path::new(source), folder.path())?;
        }
        let bridge = folder.path().join(BRIDGE_NAME);
        if !bridge.exists() {
            std::fs::write(&bridge, BRIDGE).map_err(|e| io_error(&bridge, &e))?;
        }
        Ok(Self { folder, command, stop: options.stop.clone() })
    }
    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Returns the file name of a command's word that names a user-defined file. The first word may be a program of the
/// machine: an absolute path to an executable that is not a script returns `None`.
fn custom_file(at: usize, word: &str) -> Option<&str> {
    let path = Path::new(word);
    if !path.is_absolute() || !path.is_file() {
        return None;
    }
    let is_downloaded = || starts_with(path, b"\x7fELF") && !is_executable(path);
    let is_custom = at > 0 || starts_with(path, b"#!") || is_downloaded();
    if is_custom { path.file_name().and_then(OsStr::to_str) } else { None }
}

fn is_executable(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|meta| meta.permissions().mode() & 0o111 != 0)
}

/// Copies one entry of `files`: a file or folder under its name, or the files that a pattern matches.
fn copy_source(source: &Path, folder: &Path) -> Result<()> {
    let named = || source.file_name().ok_or_else(|| Error::invalid(format!("`{}` has no file name", source.display())));
    if source.is_file() {
        return copy_file(source, &folder.join(named()?));
    }
    let pattern = Glob::of(source)?;
    if source.is_dir() {
        // On another machine, a folder with the pattern as its name holds the files that matched when the plan was
        // made.
        let to = if pattern.is_some() { folder.to_path_buf() } else { folder.join(named()?) };
        return list_files(source)?.iter().try_for_each(|name| copy_file(&source.join(name), &to.join(name)));
    }
    let Some(glob) = pattern else {
        return Err(Error::invalid(format!("file or folder `{}` does not exist", source.display())));
    };
    let names = list_files(glob.folder())?.into_iter().filter(|name| glob.matches(&name.to_string_lossy()));
    names.into_iter().try_for_each(|name| copy_file(&glob.folder().join(&name), &folder.join(&name)))
}

/// Returns the relative paths of the files below a folder, except those that no digest covers (hidden ones and
/// `__pycache__`).
fn list_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let (mut found, mut pending) = (Vec::new(), vec![PathBuf::new()]);
    while let Some(at) = pending.pop() {
        let current = folder.join(&at);
        for entry in std::fs::read_dir(&current).map_err(|e| io_error(&current, &e))? {
            let name = entry.map_err(|e| io_error(&current, &e))?.file_name();
            if name.to_string_lossy().starts_with('.') || name == "__pycache__" {
                continue;
            }
            let path = at.join(name);
            if folder.join(&path).is_dir() { pending.push(path) } else { found.push(path) }
        }
    }
    found.sort();
    Ok(found)
}

fn copy_file(from: &Path, to: &Path) -> Result<()> {
    if to.exists() {
        let name = to.file_name().unwrap_or_default().to_string_lossy();
        return Err(Error::invalid(format!("the program has two files named `{name}`"))
            .help("list each file once, or move one of them into a folder and list the folder"));
    }
    if let Some(folder) = to.parent() {
        std::fs::create_dir_all(folder).map_err(|e| io_error(folder, &e))?;
    }
    let size = std::fs::metadata(from).map_err(|e| io_error(from, &e))?.len();
    if size > MAX_COPY_BYTES {
        return std::os::unix::fs::symlink(from, to).map_err(|e| io_error(to, &e));
    }
    std::fs::copy(from, to).map_err(|e| io_error(from, &e))?;
    // Files that were downloaded from a store have no permissions.
    let mode = if starts_with(to, b"#!") || starts_with(to, b"\x7fELF") { 0o700 } else { 0o600 };
    std::fs::set_permissions(to, Permissions::from_mode(mode)).map_err(|e| io_error(to, &e))
}

fn starts_with(file: &Path, with: &[u8]) -> bool {
    let mut first = Vec::new();
    let read = std::fs::File::open(file).and_then(|file| file.take(with.len() as u64).read_to_end(&mut first));
    read.is_ok() && first == with
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        list_files(folder).unwrap().iter().map(|path| path.display().to_string()).collect()
    }

    #[test]
    fn folder_contains_only_files_of_program() {
        let home = tempfile::tempdir().unwrap();
        for (name, text) in [
            ("a.py", "1"),
            ("lib/b.py", "2"),
            ("lib/__pycache__/b.pyc", "3"),
            ("c.txt", "4"),
            ("run.sh", "#!/bin/sh\n"),
        ] {
            let path = home.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let at = |name: &str| home.path().join(name).display().to_string();
        let options = ProgramOptions {
            command: vec!["python3".into(), at("a.py"), "--fast".into()],
            files: vec![at("lib"), at("*.txt")],
            ..ProgramOptions::default()
        };
        let folder = ProgramFolder::create(&options).unwrap();
        assert_eq!(folder.command, ["python3", "a.py", "--fast"]);
        assert_eq!(names(folder.path()), ["a.py", "c.txt", "lib/b.py", BRIDGE_NAME]);
        let script = ProgramOptions { command: vec![at("run.sh")], ..ProgramOptions::default() };
        let folder = ProgramFolder::create(&script).unwrap();
        assert_eq!(folder.command, [folder.path().join("run.sh").display().to_string()]);
        let mode = std::fs::metadata(&folder.command[0]).unwrap().permissions().mode();
        assert_eq!(mode & 0o111, 0o100, "a script may be executed");
        let twice = ProgramOptions { files: vec![at("a.py")], ..options.clone() };
        assert!(ProgramFolder::create(&twice).err().unwrap().message.contains("`a.py`"));
        let none = ProgramOptions { files: vec![at("none.py")], ..options };
        assert!(ProgramFolder::create(&none).err().unwrap().message.contains("none.py"));
    }

    #[test]
    fn downloaded_files_keep_layout_and_permissions() {
        let home = tempfile::tempdir().unwrap();
        let write = |name: &str, bytes: &[u8]| {
            let path = home.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, bytes).unwrap();
            path.display().to_string()
        };
        // A pattern is stored as a folder of that name, a program without its permissions.
        write("0/*/x.txt", b"x");
        let program = write("1/program", b"\x7fELF and more");
        let files = vec![home.path().join("0/*").display().to_string()];
        let options = ProgramOptions { command: vec![program], files, ..ProgramOptions::default() };
        let folder = ProgramFolder::create(&options).unwrap();
        assert_eq!(names(folder.path()), ["program", BRIDGE_NAME, "x.txt"]);
        assert!(is_executable(Path::new(&folder.command[0])));
    }

    #[test]
    fn custom_bridge_is_not_replaced() {
        let home = tempfile::tempdir().unwrap();
        let own = home.path().join(BRIDGE_NAME);
        std::fs::write(&own, "# mine").unwrap();
        let files = vec![own.display().to_string()];
        let options = ProgramOptions { command: vec!["python3".into()], files, ..ProgramOptions::default() };
        let folder = ProgramFolder::create(&options).unwrap();
        assert_eq!(std::fs::read_to_string(folder.path().join(BRIDGE_NAME)).unwrap(), "# mine");
    }
}
