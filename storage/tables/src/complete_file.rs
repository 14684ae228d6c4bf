//! Writes files that exist only when they are complete.

use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use trainyard_core::Result;
use trainyard_core::error::io_error;

/// Writes a file under a temporary name next to `path`, which `write` receives, and renames it. After an error, `path`
/// is as before, and the temporary file is removed.
///
/// Errors: those of `write`, and those of the disk, naming `path`.
pub fn write_complete<T>(path: &Path, write: impl FnOnce(&Path) -> Result<T>) -> Result<T> {
    let partial = partial_path(path);
    let written = write(&partial).and_then(|value| {
        // A full disk may be reported only when the bytes reach it.
        File::open(&partial).and_then(|file| file.sync_all()).map_err(|e| io_error(path, &e))?;
        std::fs::rename(&partial, path).map_err(|e| io_error(path, &e))?;
        Ok(value)
    });
    written.map_err(|error| {
        // The error of writing is the one to report.
        let _ = std::fs::remove_file(&partial);
        error.at(format!("{} was not written", path.display()))
    })
}

/// Returns a path that no other process writes to.
fn partial_path(path: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{}.partial", std::process::id()));
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use trainyard_core::Error;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn a_file_is_complete_or_as_before() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.csv");
        let write = |text: &str| {
            write_complete(&path, |partial| {
                assert_eq!(partial.parent(), path.parent());
                fs::write(partial, text).map_err(|e| io_error(partial, &e))?;
                if text == "bad" { Err(Error::data("row 7 is broken")) } else { Ok(text.len()) }
            })
        };
        let error = write("bad").unwrap_err();
        assert!(error.message.contains("rows.csv was not written") && error.message.contains("row 7"), "{error}");
        assert!(names(folder.path()).is_empty());
        assert_eq!(write("one").unwrap(), 3);
        write("bad").unwrap_err();
        assert_eq!((fs::read_to_string(&path).unwrap().as_str(), names(folder.path()).len()), ("one", 1));
        assert_eq!(write("other").unwrap(), 5);
        assert_eq!(fs::read_to_string(&path).unwrap(), "other");
    }

    #[test]
    fn errors_of_the_disk_name_the_path() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("none").join("rows.csv");
        let write = |partial: &Path| fs::write(partial, "x").map_err(|e| io_error(partial, &e));
        assert!(write_complete(&path, write).unwrap_err().message.contains("none/rows.csv"));
        let taken = folder.path().join("taken.csv");
        fs::create_dir(&taken).unwrap();
        fs::write(taken.join("file"), "x").unwrap();
        assert!(write_complete(&taken, write).unwrap_err().message.contains("taken.csv"));
        assert_eq!(names(folder.path()), ["taken.csv"]);
    }
}
