//! Summarizes a table for its manifest: number of rows, statistics of each column, and a preview.

use crate::file::BatchReader;
use crate::json::{CellLimits, cell_as_json, row_as_json};
use arrow_array::{Array, RecordBatch};
use arrow_schema::DataType;
use serde_json::Value;
use std::path::Path;
use trainyard_core::Result;
use trainyard_core::artifact::{ColumnStats, TableSummary};

/// Maximum rows of a preview.
const PREVIEW_ROWS: usize = 100;
/// Maximum bytes of a preview as JSON.
const PREVIEW_BYTES: usize = 256 << 10;
/// Limits of a smallest or largest text.
const EXTREME: CellLimits = CellLimits { text: 64, items: 0 };

/// Reads a table once and summarizes it: nulls of every column; smallest and largest number, boolean or text; mean of
/// numbers and booleans. NaN does not count. The preview contains the first rows, at most 100 and 256 KiB, with long
/// cells truncated with `…`.
///
/// Errors: invalid (no such file), data (corrupt).
pub fn summarize(path: &Path) -> Result<TableSummary> {
    let reader = BatchReader::open(path)?;
    let mut columns: Vec<_> =
        reader.schema().fields().iter().map(|field| ColumnSummary::new(field.name(), field.data_type())).collect();
    let mut preview = PreviewRows::default();
    let mut rows = 0;
    for batch in reader {
        let batch = batch?;
        rows += batch.num_rows() as u64;
        preview.add(&batch);
        columns.iter_mut().zip(batch.columns()).for_each(|(stats, column)| stats.add(column));
    }
    Ok(TableSummary { rows, columns: columns.into_iter().map(ColumnSummary::finish).collect(), preview: preview.rows })
}

#[derive(Default)]
struct PreviewRows {
    rows: Vec<Value>,
    bytes: usize,
    full: bool,
}

impl PreviewRows {
    fn add(&mut self, batch: &RecordBatch) {
        for row in 0..batch.num_rows() {
            if self.full || self.rows.len() == PREVIEW_ROWS {
                return;
            }
            let shown = row_as_json(batch, row, CellLimits::PREVIEW);
            self.bytes += shown.to_string().len() + 1;
            self.full = self.bytes > PREVIEW_BYTES;
            if !self.full {
                self.rows.push(shown);
            }
        }
    }
}

/// Statistics of one column, row by row.
struct ColumnSummary {
    name: String,
    kind: DataType,
    nulls: u64,
    numbers: Option<(f64, f64)>,
    /// Smallest and largest integer, exact beyond 2^53.
    integers: Option<(i128, i128)>,
    texts: Option<(String, String)>,
    sum: f64,
    count: u64,
}

impl ColumnSummary {
    fn new(name: &str, kind: &DataType) -> Self {
        Self {
            name: name.to_string(),
            kind: kind.clone(),
            nulls: 0,
            numbers: None,
            integers: None,
            texts: None,
            sum: 0.0,
            count: 0,
        }
    }
    fn add(&mut self, column: &dyn Array) {
        self.nulls += column.logical_null_count() as u64;
        let simple = matches!(self.kind, DataType::Boolean | DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
            || self.kind.is_integer()
            || self.kind.is_floating();
        if !simple {
            return;
        }
        for row in 0..column.len() {
            match cell_as_json(column, row, EXTREME) {
                Value::Bool(value) => self.integer(i128::from(value)),
                Value::Number(value) => match value.as_i64().map(i128::from).or(value.as_u64().map(i128::from)) {
                    Some(integer) if self.kind.is_integer() => self.integer(integer),
                    _ => self.number(value.as_f64().unwrap_or(0.0)),
                },
                Value::String(value) => self.text(value),
                _ => {}
            }
        }
    }
    fn integer(&mut self, value: i128) {
        let (low, high) = self.integers.unwrap_or((value, value));
        self.integers = Some((low.min(value), high.max(value)));
        self.sum += value as f64;
        self.count += 1;
    }
    fn number(&mut self, value: f64) {
        let (low, high) = self.numbers.unwrap_or((value, value));
        self.numbers = Some((low.min(value), high.max(value)));
        self.sum += value;
        self.count += 1;
    }
    fn text(&mut self, value: String) {
        match &mut self.texts {
            None => self.texts = Some((value.clone(), value)),
            Some((low, _)) if value < *low => *low = value,
            Some((_, high)) if value > *high => *high = value,
            Some(_) => {}
        }
    }
    fn finish(self) -> ColumnStats {
        let boolean = self.kind == DataType::Boolean;
        let integer = |value: i128| {
            if boolean {
                Value::Bool(value != 0)
            } else {
                i64::try_from(value).map_or_else(|_| Value::from(value as u64), Value::from)
            }
        };
        let extremes = (self.integers.map(|(a, b)| (integer(a), integer(b))))
            .or(self.numbers.map(|(a, b)| (a.into(), b.into())))
            .or(self.texts.map(|(a, b)| (a.into(), b.into())));
        let (min, max) = extremes.map_or((None, None), |(min, max)| (Some(min), Some(max)));
        let mean = (self.count > 0).then(|| self.sum / self.count as f64).filter(|mean| mean.is_finite());
        ColumnStats { name: self.name, r#type: self.kind.to_string(), nulls: self.nulls, min, max, mean }
    }
}
