//! Ranks many texts in bounded memory: sorted runs in a temporary file, which are then merged.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::Path;
use trainyard_api::ScratchFile;
use trainyard_core::{Error, Result};

/// Bytes of texts and entries that are sorted in memory.
const RUN_BYTES: usize = 32 << 20;
/// Bytes that are read of a run at once.
const CHUNK: usize = 64 << 10;
/// Bytes before the text of a record: its length and the number of its row.
const HEADER: usize = 8;

/// The rank of each row's text among the distinct texts, in the order of their bytes.
#[derive(Debug, PartialEq, Eq, Default)]
pub struct Ranks {
    /// Rank by row.
    pub by_row: Vec<u32>,
    /// Number of distinct texts.
    pub distinct: u32,
}

/// Texts of rows so far.
pub struct TextRanker {
    file: ScratchFile,
    /// Ends of the runs in the file.
    runs: Vec<u64>,
    run_bytes: usize,
    texts: Vec<u8>,
    /// Start and length of the texts that are not in the file yet, and their rows.
    entries: Vec<(u32, u32, u32)>,
    rows: u32,
}

impl TextRanker {
    /// Creates a ranker with a temporary file. Errors: retryable (a full disk), invalid (no such folder).
    pub fn create(path: &Path) -> Result<Self> {
        let file = ScratchFile::create(path)?;
        Ok(Self { file, runs: Vec::new(), run_bytes: RUN_BYTES, texts: Vec::new(), entries: Vec::new(), rows: 0 })
    }
    /// Adds the text of the next row. Errors: retryable (a full disk), data (more rows than have numbers).
    pub fn push(&mut self, text: &str) -> Result<()> {
        let (Some(rows), Ok(length)) = (self.rows.checked_add(1), u32::try_from(text.len())) else {
            return Err(Error::data("there are more than 4,294,967,295 rows, or a problem id is as long")
                .help("train on a part of the rows"));
        };
        if self.texts.len() + text.len() + self.entries.len() * size_of::<(u32, u32, u32)>() > self.run_bytes {
            self.write_run()?;
        }
        self.entries.push((self.texts.len() as u32, length, self.rows));
        self.texts.extend_from_slice(text.as_bytes());
        self.rows = rows;
        Ok(())
    }
    /// Ranks the rows. Errors: retryable (a full disk), those of reading.
    pub fn finish(mut self) -> Result<Ranks> {
        self.write_run()?;
        self.texts = Vec::new();
        self.entries = Vec::new();
        let starts = std::iter::once(0).chain(self.runs.iter().copied());
        let mut readers: Vec<RunReader> = starts.zip(&self.runs).map(|(at, end)| RunReader::new(at, *end)).collect();
        let mut heads = BinaryHeap::new();
        for (number, reader) in readers.iter_mut().enumerate() {
            heads.extend(reader.next(&self.file)?.map(|(text, row)| Reverse((text, row, number))));
        }
        let mut ranks = Ranks { by_row: vec![0; self.rows as usize], distinct: 0 };
        let mut before: Option<Vec<u8>> = None;
        while let Some(Reverse((text, row, number))) = heads.pop() {
            if before.as_ref() != Some(&text) {
                ranks.distinct += 1;
                before = Some(text);
            }
            ranks.by_row[row as usize] = ranks.distinct - 1;
            heads.extend(readers[number].next(&self.file)?.map(|(text, row)| Reverse((text, row, number))));
        }
        Ok(ranks)
    }

    /// Sorts the texts in memory and moves them to the file.
    fn write_run(&mut self) -> Result<()> {
        let texts = &self.texts;
        let text = |(start, length, _): &(u32, u32, u32)| &texts[*start as usize..][..*length as usize];
        self.entries.sort_unstable_by(|a, b| text(a).cmp(text(b)).then(a.2.cmp(&b.2)));
        for entry in &self.entries {
            self.file.append(&entry.1.to_le_bytes())?;
            self.file.append(&entry.2.to_le_bytes())?;
            self.file.append(text(entry))?;
        }
        if !self.entries.is_empty() {
            self.runs.push(self.file.len());
        }
        self.texts.clear();
        self.entries.clear();
        Ok(())
    }
}

/// Reads the records of a run in order.
struct RunReader {
    /// Position of the next bytes to read, and the end of the run.
    next: u64,
    end: u64,
    buffer: Vec<u8>,
    /// Bytes of the buffer that were returned.
    taken: usize,
}

impl RunReader {
    fn new(next: u64, end: u64) -> Self {
        Self { next, end, buffer: Vec::new(), taken: 0 }
    }
    /// Returns the next text and its row, or `None` at the end of the run.
    fn next(&mut self, file: &ScratchFile) -> Result<Option<(Vec<u8>, u32)>> {
        if self.taken == self.buffer.len() && self.next == self.end {
            return Ok(None);
        }
        let header = self.take(HEADER, file)?;
        let number = |at: usize| header[at..at + 4].try_into().map_or(0, u32::from_le_bytes);
        let (length, row) = (number(0), number(4));
        Ok(Some((self.take(length as usize, file)?.to_vec(), row)))
    }
    fn take(&mut self, count: usize, file: &ScratchFile) -> Result<&[u8]> {
        let missing = count.saturating_sub(self.buffer.len() - self.taken);
        if missing > 0 {
            self.buffer.drain(..self.taken);
            self.taken = 0;
            let kept = self.buffer.len();
            let more = (self.end - self.next).min(missing.max(CHUNK) as u64) as usize;
            self.buffer.resize(kept + more, 0);
            file.read_at(self.next, &mut self.buffer[kept..])?;
            self.next += more as u64;
        }
        self.taken += count;
        self.buffer.get(self.taken - count..self.taken).ok_or_else(|| Error::bug("a run of texts ends within a record"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use trainyard_core::Chance;

    /// Returns ranks by a plain reference implementation over a set in memory.
    fn reference(texts: &[String]) -> Ranks {
        let distinct: Vec<&String> = texts.iter().collect::<BTreeSet<_>>().into_iter().collect();
        let rank = |text: &String| distinct.binary_search(&text).unwrap() as u32;
        Ranks { by_row: texts.iter().map(rank).collect(), distinct: distinct.len() as u32 }
    }

    #[test]
    fn ranks_are_those_of_a_set_in_memory() {
        let folder = tempfile::tempdir().unwrap();
        let chance = Chance::new(3);
        for case in 0..30 {
            let mut draws = chance.at("case", &[case]);
            let (count, kinds) = (draws.below(3000), 1 + draws.below(2000));
            let mut text = |_| {
                let kind = draws.below(kinds);
                let padding = if kind.is_multiple_of(97) { 90_000 } else { kind as usize % 40 };
                if kind % 50 == 1 { String::new() } else { format!("é{}-{kind}", "x".repeat(padding)) }
            };
            let texts: Vec<String> = (0..count).map(&mut text).collect();
            let mut ranker = TextRanker::create(&folder.path().join("texts")).unwrap();
            ranker.run_bytes = 1 + (case as usize % 3) * 40_000;
            texts.iter().for_each(|text| ranker.push(text).unwrap());
            assert!(case % 3 > 0 || ranker.runs.len() as u64 + 1 >= count, "every text is a run");
            assert_eq!(ranker.finish().unwrap(), reference(&texts), "case {case}");
        }
    }
}
