//! Keeps bytes of many rows in a temporary file.

use std::fs::{File, remove_file};
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use trainyard_core::error::io_error;
use trainyard_core::{Error, Result};

/// Bytes that are collected before they are written.
const BUFFER: usize = 4 << 20;

/// Records of bytes by offset. The file has no name in its folder, so it ends with the process.
pub struct ScratchFile {
    path: PathBuf,
    file: File,
    /// Bytes at the end that are not in the file yet.
    pending: Vec<u8>,
    /// Bytes in the file.
    written: u64,
}

impl ScratchFile {
    /// Creates the file. Errors: retryable (a full disk), invalid (no such folder).
    pub fn create(path: &Path) -> Result<Self> {
        let file = File::options().read(true).write(true).create_new(true).open(path);
        let file = file.map_err(|e| io_error(path, &e))?;
        remove_file(path).map_err(|e| io_error(path, &e))?;
        Ok(Self::of(path, file))
    }
    fn of(path: &Path, file: File) -> Self {
        Self { path: path.to_path_buf(), file, pending: Vec::new(), written: 0 }
    }
    /// Returns the offset of the next record.
    pub fn end(&self) -> u64 {
        self.written + self.pending.len() as u64
    }
    /// Adds a record, and returns its offset. Errors: retryable (a full disk).
    pub fn append(&mut self, record: &[u8]) -> Result<u64> {
        let offset = self.end();
        self.pending.extend_from_slice(record);
        if self.pending.len() >= BUFFER {
            self.file.write_all(&self.pending).map_err(|e| io_error(&self.path, &e))?;
            self.written += self.pending.len() as u64;
            // The buffer of a large record is not kept.
            self.pending = Vec::new();
        }
        Ok(offset)
    }
    /// Returns a record or a part of one, of which this is the offset and the length.
    ///
    /// Errors: bug (no such record), those of reading.
    pub fn read(&self, offset: u64, length: usize) -> Result<Vec<u8>> {
        let no_record = || Error::bug(format!("{}: there is no record at {offset}", self.path.display()));
        // Records are written whole.
        if let Some(start) = offset.checked_sub(self.written) {
            let record = self.pending.get(start as usize..).and_then(|rest| rest.get(..length));
            return record.map(<[u8]>::to_vec).ok_or_else(no_record);
        }
        let mut record = vec![0; length];
        self.file.read_exact_at(&mut record, offset).map_err(|e| io_error(&self.path, &e))?;
        Ok(record)
    }
}

/// Returns a file on a full disk.
#[cfg(test)]
pub(super) fn on_full_disk() -> ScratchFile {
    let path = Path::new("/dev/full");
    ScratchFile::of(path, File::options().read(true).write(true).open(path).unwrap())
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_core::ErrorKind;

    #[test]
    fn records_are_read_from_memory_and_from_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let mut file = ScratchFile::create(&folder.path().join("records")).unwrap();
        let record = |i: u32| vec![i as u8; (i % 9000) as usize];
        let offsets: Vec<u64> = (0..4000).map(|i| file.append(&record(i)).unwrap()).collect();
        assert!(file.written > 0 && !file.pending.is_empty());
        for i in [0, 1, 250, 999, 2500, 3998, 3999] {
            assert_eq!(file.read(offsets[i as usize], record(i).len()).unwrap(), record(i));
        }
        assert_eq!(file.read(file.end(), 1).unwrap_err().kind, ErrorKind::Bug);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        let large = vec![5; BUFFER + 3];
        let offset = file.append(&large).unwrap();
        assert!(file.pending.capacity() == 0 && file.read(offset, large.len()).unwrap() == large);
    }

    #[test]
    fn a_full_disk_is_retryable_and_named() {
        let error = on_full_disk().append(&vec![1; BUFFER]).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Retryable);
        assert!(error.message.starts_with("/dev/full: No space left") && error.help.is_some(), "{error}");
        let missing = ScratchFile::create(Path::new("/nowhere/records")).err().unwrap();
        assert!(missing.message.starts_with("/nowhere/records: "), "{missing}");
    }
}
