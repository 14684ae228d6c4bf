//! From files to tables: rows are read piece by piece, converted on all threads, and written in the order of the files,
//! so that results do not depend on the number of threads and memory holds two pieces.

pub mod detect;
mod ids;
pub mod quarantine;
pub mod tables;

pub use quarantine::{OnError, Refused};
pub use tables::Tables;

use super::format::{Convert, Format, Imported, Reading, Row};
use super::rows::files::SourceFile;
use super::rows::{RawRow, Rows, open};
use ids::Ids;
use quarantine::Quarantine;
use rayon::prelude::*;
use trainyard_core::{Error, ErrorKind, Result};

/// Rows of a piece.
const ROWS: usize = 1024;
/// Bytes of a piece; a row may exceed them.
const BYTES: usize = 16 << 20;

/// What an import did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Rows that were read, of both halves.
    pub read: u64,
    /// Rows that were taken.
    pub taken: u64,
    /// Problems that were written.
    pub problems: u64,
    /// Trajectories that were written.
    pub trajectories: u64,
    /// Pairs that were written.
    pub preferences: u64,
    /// Solutions that were written.
    pub solutions: u64,
    /// Rows that could not be read.
    pub quarantined: u64,
}

/// How rows are taken.
pub struct Import<'a> {
    /// The format of all files.
    pub format: &'static dyn Format,
    /// Which rows, and their names.
    pub reading: &'a Reading,
    /// What happens to a row that cannot be read.
    pub on_error: OnError,
    /// The share of the rows that may be unreadable.
    pub most: f64,
    /// Asked after every piece whether to go on.
    pub go_on: &'a (dyn Fn(Counts) -> Result<()> + Sync),
}

type Converted = Vec<(RowPlace, Result<Imported, Error>)>;

struct RowPlace {
    file: usize,
    line: usize,
}

impl Import<'_> {
    /// Reads all files into `tables`. Errors: data (a damaged file, too many unreadable rows, nothing left), those of
    /// the disk.
    pub fn run(&self, files: &[SourceFile], tables: &mut Tables) -> Result<Counts> {
        let mut taking = Taking {
            import: self,
            files,
            ids: Ids::default(),
            counts: Counts::default(),
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

    /// The next rows of a file, converted; none at its end.
    fn piece(&self, file: &OpenFile<'_>, rows: &mut Rows) -> Result<Option<Converted>> {
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

/// A file with what makes something of its rows.
struct OpenFile<'r> {
    number: usize,
    alone: bool,
    convert: Convert<'r>,
}

impl OpenFile<'_> {
    fn convert(&self, row: RawRow) -> Result<Imported> {
        let line = row.line;
        let place = if self.alone { line.to_string() } else { format!("{}-{line}", self.number + 1) };
        let columns = row.content.columns().map_err(Error::data)?;
        (self.convert)(&Row { columns, line, place })
    }
}

/// An import under way.
struct Taking<'a, 'i> {
    import: &'a Import<'i>,
    files: &'a [SourceFile],
    ids: Ids,
    counts: Counts,
    quarantine: Quarantine<'a>,
}

impl Taking<'_, '_> {
    /// Writes a piece while the next one is converted.
    fn file(&mut self, number: usize, tables: &mut Tables) -> Result<()> {
        let import = self.import;
        let path = &self.files[number].path;
        let alone = self.files.len() == 1;
        let file = OpenFile { number, alone, convert: import.format.open(path, import.reading)? };
        let mut rows = open(path)?;
        let mut piece = import.piece(&file, &mut rows)?;
        while let Some(converted) = piece {
            let full = self.select(converted, tables)?;
            let (written, next) = rayon::join(|| tables.write(), || import.piece(&file, &mut rows));
            written?;
            (import.go_on)(self.counts)?;
            if full {
                return Ok(());
            }
            piece = next?;
        }
        Ok(())
    }

    /// Takes the rows that are wanted, in order; tells whether these are enough.
    fn select(&mut self, converted: Converted, tables: &mut Tables) -> Result<bool> {
        for (place, imported) in converted {
            if self.import.reading.is_full(self.counts.taken) {
                return Ok(true);
            }
            self.counts.read += 1;
            match imported.and_then(|rows| self.take(&place, rows)) {
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

    /// What is written of a row; none if it is not wanted. Fails if a problem has the id of an earlier one.
    fn take(&mut self, place: &RowPlace, mut rows: Imported) -> Result<Option<Imported>> {
        let Some(question) = rows.question() else { return Ok(None) };
        if !self.import.reading.wants(question) {
            return Ok(None);
        }
        for problem in &rows.problems {
            self.ids.note(&problem.id, place.file, place.line, self.files)?;
        }
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

    fn finish(self, tables: &mut Tables) -> Result<Counts> {
        let Self { import, counts, quarantine, .. } = self;
        quarantine.judge(counts.read, import.most)?;
        if counts.taken == 0 {
            let nothing = Error::data(format!("no row of format `{}` is left to import", import.format.name()));
            return Err(quarantine.with_reasons(nothing).help("look at `half`, `limit`, `split` and the files"));
        }
        tables.finish()?;
        Ok(counts)
    }
}

#[cfg(test)]
mod conversation_tests;
#[cfg(test)]
mod tests;
