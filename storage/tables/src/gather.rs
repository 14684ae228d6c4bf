//! Reads rows of a table by number, in any order, in bounded memory.
//!
//! The answer is made in parts. One pass over the table copies the rows of every part into a temporary file, in the
//! order of the table; then each part is read and put into its own order. The memory is that of one part, and of one
//! small row group for each of at most [`MOST_PARTS`] files.

use crate::file::{BatchWriter, read_batches};
use arrow_array::{RecordBatch, UInt64Array};
use arrow_schema::SchemaRef;
use arrow_select::interleave::interleave_record_batch;
use arrow_select::take::take_record_batch;
use std::path::{Path, PathBuf};
use trainyard_core::error::io_error;
use trainyard_core::{Error, Result};

/// Maximum number of parts, each of which is an open file.
pub const MOST_PARTS: usize = 64;
/// Rows of a row group of a temporary file.
const GROUP: usize = 256;
/// Maximum rows of a batch of the answer.
const ROWS: usize = 1024;

/// Passes the rows `numbers` of a table on, in this order and with repetitions, as batches. `batches` reads the table,
/// whose batches have the schema `schema`; `folder` is a folder for temporary files; `part` is the number of rows to
/// hold at once, if at most [`MOST_PARTS`] parts result.
///
/// Errors: those of `batches` and `at`, bug (a number past the end), retryable (disk full).
pub fn gather_rows(
    schema: &SchemaRef,
    batches: impl Iterator<Item = Result<RecordBatch>>,
    numbers: &[u64],
    (folder, part): (&Path, usize),
    mut at: impl FnMut(&RecordBatch) -> Result<()>,
) -> Result<()> {
    let part = part.max(numbers.len().div_ceil(MOST_PARTS)).max(1);
    let create = |(i, numbers)| GatherPart::create(folder.join(format!("gather-{i}.parquet")), schema, numbers);
    let mut parts = numbers.chunks(part).enumerate().map(create).collect::<Result<Vec<_>>>()?;
    let mut first = 0;
    for batch in batches {
        let batch = batch?;
        parts.iter_mut().try_for_each(|part| part.take(&batch, first))?;
        first += batch.num_rows() as u64;
    }
    for (part, numbers) in parts.into_iter().zip(numbers.chunks(part)) {
        part.finish(numbers, &mut at)?;
    }
    Ok(())
}

/// A part of the answer.
struct GatherPart {
    file: PathBuf,
    writer: BatchWriter,
    /// Numbers of the rows of the part, sorted, each once.
    sorted: Vec<u64>,
    /// Number of rows in the file.
    copied: usize,
}

impl GatherPart {
    fn create(file: PathBuf, schema: &SchemaRef, numbers: &[u64]) -> Result<Self> {
        let mut sorted = numbers.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        let writer = BatchWriter::create_grouped(&file, schema.clone(), GROUP)?;
        Ok(Self { file, writer, sorted, copied: 0 })
    }
    /// Copies the rows of this part from a batch whose first row has the number `first`.
    fn take(&mut self, batch: &RecordBatch, first: u64) -> Result<()> {
        let end = first + batch.num_rows() as u64;
        let here = self.sorted[self.copied..].iter().take_while(|number| **number < end);
        let places: Vec<u64> = here.map(|number| number - first).collect();
        if places.is_empty() {
            return Ok(());
        }
        self.copied += places.len();
        let rows = take_record_batch(batch, &UInt64Array::from(places)).map_err(|e| no_copy(&e))?;
        self.writer.write(&rows)
    }
    /// Passes the rows on in the order of `numbers`, and removes the file.
    fn finish(self, numbers: &[u64], at: &mut impl FnMut(&RecordBatch) -> Result<()>) -> Result<()> {
        if let Some(missing) = self.sorted.get(self.copied) {
            return Err(Error::bug(format!("row {missing} was requested, but the table has fewer rows")));
        }
        self.writer.finish()?;
        let (_, batches) = read_batches(&self.file)?;
        std::fs::remove_file(&self.file).map_err(|e| io_error(&self.file, &e))?;
        let places: Vec<(usize, usize)> =
            batches.iter().enumerate().flat_map(|(b, batch)| (0..batch.num_rows()).map(move |row| (b, row))).collect();
        let batches: Vec<&RecordBatch> = batches.iter().collect();
        for chunk in numbers.chunks(ROWS) {
            let place = |number: &u64| {
                let found = self.sorted.binary_search(number).ok().and_then(|i| places.get(i));
                found.copied().ok_or_else(|| Error::bug(format!("row {number} was not copied")))
            };
            let places = chunk.iter().map(place).collect::<Result<Vec<_>>>()?;
            at(&interleave_record_batch(&batches, &places).map_err(|e| no_copy(&e))?)?;
        }
        Ok(())
    }
}

fn no_copy(error: &dyn std::fmt::Display) -> Error {
    Error::bug(format!("rows cannot be copied: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{TableBuilder, columns_as_json};
    use proptest::prelude::*;

    /// Gathers rows of a table of `rows` rows in batches of seven, and returns their numbers.
    fn gathered(rows: i64, numbers: &[u64], part: usize) -> Result<Vec<u64>> {
        let folder = tempfile::tempdir().unwrap();
        let texts = (0..rows).map(|i| (i % 3 > 0).then(|| format!("row {i}")));
        let table = TableBuilder::new().i64("n", 0..rows).optional_string("text", texts).build().unwrap();
        let batches = (0..table.num_rows()).step_by(7).map(|i| Ok(table.slice(i, 7.min(table.num_rows() - i))));
        let out = folder.path().join("out.parquet");
        let mut writer = BatchWriter::create(&out, table.schema())?;
        gather_rows(&table.schema(), batches, numbers, (folder.path(), part), |batch| writer.write(batch))?;
        writer.finish()?;
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "temporary files are removed");
        let rows = columns_as_json(&out, &["n", "text"])?;
        let number = |row: &serde_json::Value| {
            let n = row["n"].as_u64().unwrap();
            assert_eq!(row["text"].as_str().map(str::to_string), (!n.is_multiple_of(3)).then(|| format!("row {n}")));
            n
        };
        Ok(rows.iter().map(number).collect())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(30))]

        #[test]
        fn rows_come_in_the_requested_order(
            numbers in proptest::collection::vec(0..100_u64, 0..200),
            part in 1..40_usize,
        ) {
            prop_assert_eq!(gathered(100, &numbers, part).unwrap(), numbers);
        }
    }

    #[test]
    fn rows_past_the_end_are_refused() {
        assert_eq!(gathered(10, &[9, 0, 9], 1).unwrap(), [9, 0, 9]);
        assert!(gathered(10, &[3, 10], 5).unwrap_err().message.contains("row 10"));
        let many: Vec<u64> = (0..3000).map(|i| i * 7919 % 3000).collect();
        assert_eq!(gathered(3000, &many, 1).unwrap(), many, "the number of parts is bounded");
    }
}
