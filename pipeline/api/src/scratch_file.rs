//! Keeps bytes of a stage in a temporary file instead of memory.

use std::fs::{File, remove_file};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use trainyard_core::error::io_error;
use trainyard_core::units::format_size;
use trainyard_core::{Error, Result};

/// Bytes that are collected before they are written.
const BUFFER: usize = 4 << 20;

/// Bytes that are appended and read by position. The file has no name in its folder, so it ends with the process.
#[derive(Debug)]
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
        let file = file.map_err(|e| write_error(path, 0, &e))?;
        remove_file(path).map_err(|e| io_error(path, &e))?;
        Ok(Self::of(path, file))
    }
    /// Takes an empty file that is open for reading and writing, and is called `path` in errors.
    pub fn of(path: &Path, file: File) -> Self {
        Self { path: path.to_path_buf(), file, pending: Vec::new(), written: 0 }
    }
    /// Returns the number of bytes.
    pub fn len(&self) -> u64 {
        self.written + self.pending.len() as u64
    }
    /// Whether nothing was appended.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Appends bytes. Returns their position. Errors: retryable (a full disk).
    pub fn append(&mut self, bytes: &[u8]) -> Result<u64> {
        let start = self.len();
        self.pending.extend_from_slice(bytes);
        if self.pending.len() >= BUFFER {
            self.file.write_all(&self.pending).map_err(|e| write_error(&self.path, self.len(), &e))?;
            self.written = self.len();
            // The buffer of large records is not kept.
            self.pending = Vec::new();
        }
        Ok(start)
    }
    /// Fills `bytes` from a position. Errors: bug (beyond the end), those of reading.
    pub fn read_at(&self, start: u64, bytes: &mut [u8]) -> Result<()> {
        if start.checked_add(bytes.len() as u64).is_none_or(|end| end > self.len()) {
            let range = format!("{} bytes at {start} of {}", bytes.len(), self.len());
            return Err(Error::bug(format!("{}: there are no {range}", self.path.display())));
        }
        let in_file = self.written.saturating_sub(start).min(bytes.len() as u64) as usize;
        let (from_file, from_pending) = bytes.split_at_mut(in_file);
        if !from_file.is_empty() {
            self.file.read_exact_at(from_file, start).map_err(|e| io_error(&self.path, &e))?;
        }
        if !from_pending.is_empty() {
            let at = (start.max(self.written) - self.written) as usize;
            from_pending.copy_from_slice(&self.pending[at..][..from_pending.len()]);
        }
        Ok(())
    }
}

/// Returns the error of a write after which the file would have `size` bytes.
fn write_error(path: &Path, size: u64, error: &std::io::Error) -> Error {
    if !matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded) {
        return io_error(path, error);
    }
    let folder = path.parent().unwrap_or(path).display();
    let needed = format_size(size.max(1));
    Error::retryable(format!("{folder}: no room for a temporary file, which needs more than {needed} ({error})")).help(
        "free some space there or set `TRAINYARD_HOME` to a folder on a larger disk, then run the same command again",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_read_from_memory_from_the_file_and_across_their_border() {
        let folder = tempfile::tempdir().unwrap();
        let mut file = ScratchFile::create(&folder.path().join("bytes")).unwrap();
        assert!(file.is_empty());
        let byte = |i: u64| (i % 251) as u8;
        let mut expected = Vec::new();
        for length in [1_000_000, 3_500_000, 700, 0, 9] {
            let start = expected.len() as u64;
            let bytes: Vec<u8> = (start..start + length).map(byte).collect();
            assert_eq!(file.append(&bytes).unwrap(), start);
            expected.extend(bytes);
        }
        assert_eq!((file.len(), file.written, file.pending.len()), (4_500_709, 4_500_000, 709));
        for (start, length) in [(0, 8), (999_998, 4), (4_499_990, 20), (4_500_000, 709), (4_500_700, 9), (4_500_709, 0)]
        {
            let mut bytes = vec![0; length];
            file.read_at(start as u64, &mut bytes).unwrap();
            assert_eq!(bytes, expected[start..start + length], "{start}");
        }
        assert!(file.read_at(4_500_700, &mut [0; 10]).unwrap_err().message.contains("10 bytes at 4500700 of 4500709"));
        assert!(file.read_at(u64::MAX, &mut [0; 10]).is_err());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_full_disk_is_retryable_and_names_folder_size_and_remedy() {
        let file = File::options().write(true).open("/dev/full").unwrap();
        let mut full = ScratchFile::of(Path::new("/disk/rows"), file);
        full.append(&vec![0; BUFFER - 1]).unwrap();
        let error = full.append(&[0; 1 << 20]).unwrap_err();
        assert_eq!(error.kind, trainyard_core::ErrorKind::Retryable);
        assert!(
            error.message.starts_with("/disk: no room for a temporary file, which needs more than 5.0 MiB"),
            "{error}"
        );
        assert!(error.help.unwrap().contains("`TRAINYARD_HOME`"));
    }
}
