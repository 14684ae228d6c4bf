//! Keeps the shingles of many rows in a temporary file.

use std::path::Path;
use trainyard_api::ScratchFile;
use trainyard_core::{Error, Result};

/// Sets of hashes by number.
pub struct ShingleFile {
    file: ScratchFile,
    /// End of each set, in bytes.
    ends: Vec<u64>,
    /// Bytes of the set that was added or read last.
    bytes: Vec<u8>,
    /// The set that was read last.
    read: Vec<u64>,
}

impl ShingleFile {
    /// Creates the file. Errors: those of [`ScratchFile::create`].
    pub fn create(path: &Path) -> Result<Self> {
        Ok(Self { file: ScratchFile::create(path)?, ends: Vec::new(), bytes: Vec::new(), read: Vec::new() })
    }
    /// Adds the next set. Errors: retryable (a full disk).
    pub fn push(&mut self, set: &[u64]) -> Result<()> {
        self.bytes.clear();
        set.iter().for_each(|hash| self.bytes.extend_from_slice(&hash.to_le_bytes()));
        self.file.append(&self.bytes)?;
        self.ends.push(self.file.len());
        Ok(())
    }
    /// Returns the set of a number. Errors: bug (an unknown number), those of reading.
    pub fn get(&mut self, number: u32) -> Result<&[u64]> {
        let number = number as usize;
        let start = number.checked_sub(1).map_or(Some(0), |before| self.ends.get(before).copied());
        let (Some(start), Some(end)) = (start, self.ends.get(number).copied()) else {
            return Err(Error::bug(format!("there is no set {number}")));
        };
        self.bytes.resize((end - start) as usize, 0);
        self.file.read_at(start, &mut self.bytes)?;
        let word = |word: &[u8]| word.try_into().map_or(0, u64::from_le_bytes);
        self.read.clear();
        self.read.extend(self.bytes.chunks_exact(8).map(word));
        Ok(&self.read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_come_back_as_they_were() {
        let folder = tempfile::tempdir().unwrap();
        let mut file = ShingleFile::create(&folder.path().join("sets")).unwrap();
        let set = |i: u64| (0..i % 900).map(|k| i * 1000 + k).collect::<Vec<u64>>();
        for i in 0..3000 {
            file.push(&set(i)).unwrap();
        }
        for i in [0, 1, 899, 900, 1500, 2998, 2999] {
            assert_eq!(file.get(i as u32).unwrap(), set(i));
        }
        assert!(file.get(3000).is_err());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
