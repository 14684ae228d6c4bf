//! Keeps the shingles of many rows in a temporary file.

use std::fs::{File, remove_file};
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use trainyard_core::error::io_error;
use trainyard_core::{Error, Result};

/// Bytes that are collected before they are written.
const BUFFER: usize = 4 << 20;

/// Sets of hashes by number. The file has no name in its folder, so it ends with the process.
pub struct ShingleFile {
    path: PathBuf,
    file: File,
    /// End of each set, in bytes.
    ends: Vec<u64>,
    /// Bytes at the end that are not in the file yet.
    pending: Vec<u8>,
    /// Bytes in the file.
    written: u64,
    /// The set that was read last.
    read: Vec<u64>,
}

impl ShingleFile {
    /// Creates the file. Errors: retryable (a full disk), invalid (no such folder).
    pub fn create(path: &Path) -> Result<Self> {
        let file = File::options().read(true).write(true).create_new(true).open(path);
        let file = file.map_err(|e| io_error(path, &e))?;
        remove_file(path).map_err(|e| io_error(path, &e))?;
        let path = path.to_path_buf();
        Ok(Self { path, file, ends: Vec::new(), pending: Vec::new(), written: 0, read: Vec::new() })
    }
    /// Adds the next set. Errors: retryable (a full disk).
    pub fn push(&mut self, set: &[u64]) -> Result<()> {
        set.iter().for_each(|hash| self.pending.extend_from_slice(&hash.to_le_bytes()));
        self.ends.push(self.written + self.pending.len() as u64);
        if self.pending.len() >= BUFFER {
            self.file.write_all(&self.pending).map_err(|e| io_error(&self.path, &e))?;
            self.written += self.pending.len() as u64;
            self.pending.clear();
        }
        Ok(())
    }
    /// Returns the set of a number. Errors: bug (an unknown number), those of reading.
    pub fn get(&mut self, number: u32) -> Result<&[u64]> {
        let number = number as usize;
        let start = number.checked_sub(1).map_or(Some(0), |before| self.ends.get(before).copied());
        let (Some(start), Some(end)) = (start, self.ends.get(number).copied()) else {
            return Err(Error::bug(format!("there is no set {number}")));
        };
        let mut bytes = vec![0; (end - start) as usize];
        // Sets are written whole.
        match start.checked_sub(self.written) {
            Some(at) => bytes.copy_from_slice(&self.pending[at as usize..][..(end - start) as usize]),
            None => self.file.read_exact_at(&mut bytes, start).map_err(|e| io_error(&self.path, &e))?,
        }
        let word = |word: &[u8]| word.try_into().map_or(0, u64::from_le_bytes);
        self.read.clear();
        self.read.extend(bytes.chunks_exact(8).map(word));
        Ok(&self.read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_read_from_memory_and_from_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let mut file = ShingleFile::create(&folder.path().join("sets")).unwrap();
        let set = |i: u64| (0..i % 900).map(|k| i * 1000 + k).collect::<Vec<u64>>();
        for i in 0..3000 {
            file.push(&set(i)).unwrap();
        }
        assert!(file.written > 0 && !file.pending.is_empty());
        for i in [0, 1, 899, 900, 1500, 2998, 2999] {
            assert_eq!(file.get(i as u32).unwrap(), set(i));
        }
        assert!(file.get(3000).is_err());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
