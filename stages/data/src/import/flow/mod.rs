//! Converts files to tables. Rows are read in chunks, converted on all threads, and written in the order of the files.
//! Results therefore do not depend on the number of threads, and memory contains at most two chunks.

pub mod columns;
pub mod detect;
pub mod first_rows;
pub mod ids;
pub mod quarantine;
pub mod tables;

pub use first_rows::FirstRows;
pub use ids::DuplicatePolicy;
pub use quarantine::{ImportErrorPolicy, QuarantinedRow};
pub use tables::ImportTables;

use super::format::{ImportContext, ImportFormat, ImportedRows, RowConverter};
use super::rows::files::ImportFile;
use super::rows::{RawRow, RowIter, open};
use ids::{EarlierRows, RowPlace};
use quarantine::Quarantine;
use rayon::prelude::*;
use std::collections::BTreeMap;
use trainyard_core::{Error, ErrorKind, Result};

/// Rows of a chunk.
const ROWS: usize = 1024;
/// Bytes of a chunk; a row may exceed them.
const BYTES: usize = 16 << 20;

/// Counts of an import.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ImportCounts {
    /// Rows read, of both halves.
    pub read: u64,
    /// Rows taken.
    pub taken: u64,
    /// Problems written.
    pub problems: u64,
    /// Trajectories written.
    pub trajectories: u64,
    /// Pairs written.
    pub preferences: u64,
    /// Solutions written.
    pub solutions: u64,
    /// Unreadable rows.
    pub quarantined: u64,
    /// Rows that were left out because they repeat earlier ones.
    pub dropped: u64,
}

/// Settings of an import.
pub struct Importer<'a> {
    /// Format of all files.
    pub format: &'static dyn ImportFormat,
    /// Selection and naming of rows.
    pub reading: &'a ImportContext,
    /// Handling of an unreadable row.
    pub on_error: ImportErrorPolicy,
    /// Handling of a row that repeats an earlier one.
    pub duplicates: DuplicatePolicy,
    /// Maximum share of unreadable rows.
    pub max_quarantined: f64,
    /// Called after every chunk; an error stops the import.
    pub on_chunk: &'a (dyn Fn(ImportCounts) -> Result<()> + Sync),
}

type ConvertedChunk = Vec<(RowPlace, Result<ImportedRows, Error>)>;

impl Importer<'_> {
    /// Reads all files into `tables`. Errors: data (a damaged file, too many unreadable rows, no row left), those of
    /// the disk.
    pub fn run(&self, files: &[ImportFile], tables: &mut ImportTables) -> Result<ImportCounts> {
        let mut taking = ImportState {
            import: self,
            files,
            earlier: EarlierRows::default(),
            counts: ImportCounts::default(),
            quarantine: Quarantine::new(files, self.on_error),
        };
        for file in 0..files.len() {
            if self.reading.is_full(taking.counts.taken) {
                break;
            }
            taking.file(file, tables)?;
        }
        taking.finish(tables)
    }

    /// Reads and converts the next rows of a file; returns `None` at its end.
    fn next_chunk(&self, file: &OpenFile<'_>, rows: &mut RowIter) -> Result<Option<ConvertedChunk>> {
        let (mut raw, mut bytes) = (Vec::new(), 0);
        while raw.len() < ROWS && bytes < BYTES {
            let Some(row) = rows.next().transpose()? else { break };
            bytes += row.content.bytes();
            raw.push(row);
        }
        let convert = |row: RawRow| (RowPlace { file: file.number, line: row.line }, file.convert(row));
        Ok((!raw.is_empty()).then(|| raw.into_par_iter().map(convert).collect()))
    }
}

/// A file with the conversion of its rows.
struct OpenFile<'r> {
    number: usize,
    files: &'r [ImportFile],
    format: &'r dyn ImportFormat,
    renamed: &'r BTreeMap<String, String>,
    convert: RowConverter<'r>,
}

impl OpenFile<'_> {
    fn convert(&self, row: RawRow) -> Result<ImportedRows> {
        let place = RowPlace { file: self.number, line: row.line };
        let name = place.name(self.files.len());
        let rows = columns::convert(row, name, self.format, self.renamed, &self.convert)?;
        Ok(rows.with_place(&place.parent(&self.files[self.number])))
    }
}

/// State of a running import.
struct ImportState<'a, 'i> {
    import: &'a Importer<'i>,
    files: &'a [ImportFile],
    earlier: EarlierRows,
    counts: ImportCounts,
    quarantine: Quarantine<'a>,
}

impl ImportState<'_, '_> {
    /// Reads a file, writing one chunk while the next one is converted.
    fn file(&mut self, number: usize, tables: &mut ImportTables) -> Result<()> {
        let import = self.import;
        let ImportFile { path, max_bytes, .. } = &self.files[number];
        let file = OpenFile {
            number,
            files: self.files,
            format: import.format,
            renamed: &import.reading.columns,
            convert: import.format.open(path, import.reading)?,
        };
        let mut rows = open(path, *max_bytes)?;
        let mut piece = import.next_chunk(&file, &mut rows)?;
        while let Some(converted) = piece {
            let full = self.select(converted, tables)?;
            let (written, next) = rayon::join(|| tables.write(), || import.next_chunk(&file, &mut rows));
            written?;
            (import.on_chunk)(self.counts)?;
            if full {
                return Ok(());
            }
            piece = next?;
        }
        Ok(())
    }

    /// Passes the wanted rows of a chunk to `tables` in order, and the unreadable rows to the quarantine. Returns
    /// whether the limit of rows is reached.
    fn select(&mut self, converted: ConvertedChunk, tables: &mut ImportTables) -> Result<bool> {
        for (place, imported) in converted {
            if self.import.reading.is_full(self.counts.taken) {
                return Ok(true);
            }
            self.counts.read += 1;
            match imported.and_then(|rows| self.take(place, rows)) {
                Ok(Some(rows)) => tables.take(rows),
                Ok(None) => {}
                Err(e) if matches!(e.kind, ErrorKind::Data | ErrorKind::Invalid) => {
                    self.counts.quarantined += 1;
                    tables.refuse(self.quarantine.refuse(place.file, place.line, e)?);
                }
                Err(e) => return Err(e),
            }
        }
        Ok(self.import.reading.is_full(self.counts.taken))
    }

    /// Counts a row and returns its outputs, or `None` if it has no outputs, belongs to the other half, or is a dropped
    /// repetition. Errors: data, if a problem has the id of another question.
    fn take(&mut self, place: RowPlace, mut rows: ImportedRows) -> Result<Option<ImportedRows>> {
        let Some(question) = rows.question() else { return Ok(None) };
        if !self.import.reading.wants(question) {
            return Ok(None);
        }
        if self.import.duplicates == DuplicatePolicy::Drop && self.earlier.repeats(&rows)? {
            self.counts.dropped += 1;
            return Ok(None);
        }
        self.earlier.make_ids_unique(&mut rows, place, self.files)?;
        for row in &mut rows.preferences {
            row.group = u32::try_from(self.counts.preferences).unwrap_or(u32::MAX);
        }
        let counts = &mut self.counts;
        counts.taken += 1;
        counts.problems += rows.problems.len() as u64;
        counts.trajectories += rows.trajectories.len() as u64;
        counts.solutions += rows.solutions.len() as u64;
        counts.preferences += rows.preferences.len() as u64 / 2;
        Ok(Some(rows))
    }

    fn finish(self, tables: &mut ImportTables) -> Result<ImportCounts> {
        let Self { import, counts, quarantine, .. } = self;
        quarantine.judge(counts.read, import.max_quarantined)?;
        if counts.taken == 0 {
            let nothing = Error::data(format!("no row of format `{}` is left to import", import.format.name()));
            return Err(quarantine.with_reasons(nothing).help("check `half`, `limit`, `split` and the files"));
        }
        tables.finish()?;
        Ok(counts)
    }
}

#[cfg(test)]
mod conversation_tests;
#[cfg(test)]
mod parents_tests;
#[cfg(test)]
mod tests;
