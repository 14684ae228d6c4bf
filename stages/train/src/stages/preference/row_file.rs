//! Keeps the tokens of the rows of a table in a temporary file until all rows of each group are known. In memory are 24
//! bytes a row.

use std::path::Path;
use trainyard_api::ScratchFile;
use trainyard_core::{Error, Result};
use trainyard_lm::examples::{Example, TokenizedTrajectory};

/// A row in the file.
#[derive(Debug, Clone, Copy)]
struct RowEntry {
    group: u32,
    preferred: f64,
    start: u64,
}

/// Rows in their order. A row is stored as its problem's id and its contexts, each after its length.
pub struct RowFile {
    file: ScratchFile,
    entries: Vec<RowEntry>,
    record: Vec<u8>,
}

/// A row of a group: its reward and its tokens.
pub type RewardedRow = (f64, TokenizedTrajectory);

impl RowFile {
    /// Creates a file without rows. Errors: retryable (a full disk), invalid (no such folder).
    pub fn create(path: &Path) -> Result<Self> {
        Ok(Self { file: ScratchFile::create(path)?, entries: Vec::new(), record: Vec::new() })
    }
    /// Adds a row of a group. Errors: retryable (a full disk), data (more rows than have numbers).
    pub fn push(&mut self, group: u32, preferred: f64, row: &TokenizedTrajectory) -> Result<()> {
        if u32::try_from(self.entries.len() + 1).is_err() {
            return Err(Error::data("there are more than 4,294,967,295 rows").help("train on a part of the rows"));
        }
        self.record.clear();
        self.record.extend_from_slice(&(row.problem_id.len() as u64).to_le_bytes());
        self.record.extend_from_slice(row.problem_id.as_bytes());
        for context in &row.contexts {
            self.record.extend_from_slice(&(context.tokens.len() as u64).to_le_bytes());
            context.append_to(&mut self.record)?;
        }
        let start = self.file.append(&self.record)?;
        self.entries.push(RowEntry { group, preferred, start });
        Ok(())
    }
    /// Passes the groups to `take` in the order of their numbers: the number, how many rows the group has, and its
    /// first rows in their order, at most two. Errors: those of `take` and of reading.
    pub fn each_group(&self, mut take: impl FnMut(u32, usize, Vec<RewardedRow>) -> Result<()>) -> Result<()> {
        let mut order: Vec<u32> = (0..self.entries.len() as u32).collect();
        order.sort_unstable_by_key(|&row| (self.entries[row as usize].group, row));
        for rows in order.chunk_by(|a, b| self.entries[*a as usize].group == self.entries[*b as usize].group) {
            let first = rows.iter().take(2).map(|&row| self.get(row as usize)).collect::<Result<_>>()?;
            take(self.entries[rows[0] as usize].group, rows.len(), first)?;
        }
        Ok(())
    }

    fn get(&self, row: usize) -> Result<RewardedRow> {
        let RowEntry { preferred, start, .. } = self.entries[row];
        let end = self.entries.get(row + 1).map_or(self.file.len(), |next| next.start);
        let mut bytes = vec![0; (end - start) as usize];
        self.file.read_at(start, &mut bytes)?;
        let damaged = || Error::bug("a row of a temporary file ends early");
        let mut rest = bytes.as_slice();
        let problem = take_counted(&mut rest, |length| length).ok_or_else(damaged)?.1;
        let mut tokens = TokenizedTrajectory {
            problem_id: String::from_utf8_lossy(problem).into_owned(),
            ..TokenizedTrajectory::default()
        };
        while !rest.is_empty() {
            let (length, context) = take_counted(&mut rest, Example::stored_bytes).ok_or_else(damaged)?;
            tokens.contexts.push(Example::from_bytes(length, context));
        }
        Ok((preferred, tokens))
    }
}

/// Returns a count at the beginning of `rest` and the bytes after it, and removes both; `size` is the number of bytes
/// by count. `None` if there are fewer bytes.
fn take_counted<'b>(rest: &mut &'b [u8], size: fn(usize) -> usize) -> Option<(usize, &'b [u8])> {
    let (count, after) = rest.split_first_chunk()?;
    let count = u64::from_le_bytes(*count) as usize;
    let (bytes, after) = after.split_at_checked(size(count))?;
    *rest = after;
    Some((count, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use trainyard_core::Chance;

    #[test]
    fn groups_are_those_of_a_map_in_memory() {
        let folder = tempfile::tempdir().unwrap();
        let mut file = RowFile::create(&folder.path().join("rows")).unwrap();
        let mut expected: BTreeMap<u32, Vec<RewardedRow>> = BTreeMap::new();
        let mut draws = Chance::new(2).at("rows", &[]);
        for i in 0..500u64 {
            let contexts = (0..i % 3)
                .map(|k| {
                    let tokens: Vec<u32> = (0..(i * 7 + k) % 19).map(|_| draws.next_u32()).collect();
                    Example { mask: tokens.iter().map(|token| token % 2 == 0).collect(), tokens }
                })
                .collect();
            let row = TokenizedTrajectory { problem_id: "é".repeat(i as usize % 4), contexts, ..Default::default() };
            let (group, preferred) = (draws.below(300) as u32, draws.below(4) as f64);
            file.push(group, preferred, &row).unwrap();
            expected.entry(group).or_default().push((preferred, row));
        }
        let mut groups = expected.into_iter();
        let compare = |group: u32, count: usize, first: Vec<RewardedRow>| {
            let (number, rows) = groups.next().unwrap();
            assert_eq!((group, count), (number, rows.len()));
            assert!(first == rows[..count.min(2)]);
            Ok(())
        };
        file.each_group(compare).unwrap();
        assert!(groups.next().is_none());
    }
}
