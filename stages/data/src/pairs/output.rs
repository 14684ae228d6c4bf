//! Writes the rows of the chosen pairs.
//!
//! The memory is that of some batches of rows ([`gather_rows`]), and 16 bytes for each row that is used.

use super::chosen::ChosenPair;
use super::pair::side;
use crate::hash::xxh3_128;
use crate::row_files::RowFiles;
use std::collections::HashSet;
use std::path::Path;
use trainyard_core::{Error, Result};
use trainyard_tables::{ExtraColumns, TableRow as _, TableRowWriter, Trajectory, decode_part, gather_rows};

/// Counts of written rows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WrittenPairs {
    /// Number of different ids of rows that are in a pair.
    pub sources: usize,
    pub chosen: TokenCount,
    pub rejected: TokenCount,
}

/// Tokens of some rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TokenCount {
    rows: usize,
    /// Tokens in the loss.
    learned: usize,
    /// Number of rows that have no tokens yet.
    without: usize,
}

impl TokenCount {
    fn add(&mut self, row: &Trajectory) {
        self.rows += 1;
        self.learned += row.loss_mask.iter().filter(|m| **m).count();
        self.without += usize::from(row.token_ids.is_empty());
    }
    /// Returns the mean number of tokens in the loss, or `None` if a row has no tokens yet.
    pub fn mean(self) -> Option<f64> {
        (self.without == 0 && self.rows > 0).then(|| self.learned as f64 / self.rows as f64)
    }
}

/// Writes the two rows of each pair to `output`, in order. With `marks`, both rows record whether the labels were
/// exchanged. `scratch` is a folder for temporary files. `at_batch` is called for each batch; its errors end the run.
///
/// Errors: those of reading and writing.
pub fn write(
    files: &RowFiles<'_, Trajectory>,
    pairs: &[ChosenPair],
    marks: bool,
    scratch: &Path,
    output: &Path,
    at_batch: impl Fn() -> Result<()>,
) -> Result<WrittenPairs> {
    let numbers: Vec<u64> =
        pairs.iter().flat_map(|chosen| chosen.pair.sides(chosen.flip)).map(|(row, _)| row as u64).collect();
    let mut writer = TableRowWriter::<Trajectory>::create(output)?;
    let (mut written, mut sources) = (WrittenPairs::default(), HashSet::new());
    let mut places = (0..pairs.len()).flat_map(|group| [(group, 0), (group, 1)]);
    let mut write = |rows: &[Trajectory]| {
        at_batch()?;
        let mut sides = Vec::with_capacity(rows.len());
        for row in rows {
            let (group, sample) = places.next().ok_or_else(|| Error::bug("more rows than pairs have"))?;
            let ChosenPair { pair, flip } = pairs[group];
            let (_, end) = pair.sides(flip)[sample];
            let side = side(row, end, (group, sample as u32), marks.then_some(flip));
            if sample == 0 {
                written.chosen.add(&side)
            } else {
                written.rejected.add(&side)
            }
            sources.insert(xxh3_128(row.id.as_bytes(), 0));
            sides.push(side);
        }
        writer.write(&sides)
    };
    let batches = files.batches(None).map(|batch| batch.map(|(_, batch)| batch));
    let schema = Trajectory::schema(ExtraColumns::ALL);
    gather_rows(&schema, batches, &numbers, (scratch, files.rows_of_a_batch()?), |batch| {
        write(&decode_part(Path::new("trajectories"), batch)?)
    })?;
    writer.finish()?;
    written.sources = sources.len();
    Ok(written)
}
