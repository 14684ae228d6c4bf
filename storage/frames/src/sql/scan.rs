//! Reads tables for polars: the columns that a plan needs, by row group.

use super::settings::AfterBatch;
use super::table::FrameTable;
use crate::exchange::frame_of;
use arrow_array::RecordBatch;
use polars::error::{PolarsError, PolarsResult};
use polars::prelude::{
    AnonymousScan, AnonymousScanArgs, Column, DataFrame, DataType, LazyFrame, PlSmallStr, ScanArgsAnonymous, SchemaRef,
};
use std::any::Any;
use std::sync::{Arc, Mutex};
use trainyard_core::{Error, Result};
use trainyard_tables::{BatchBounds, GroupReader};

/// State of all scans of a run.
pub struct ScanState {
    after_batch: AfterBatch,
    /// The first error, which polars would turn into text.
    error: Mutex<Option<Error>>,
}

impl ScanState {
    pub fn new(after_batch: AfterBatch) -> Self {
        Self { after_batch, error: Mutex::new(None) }
    }
    /// Takes the error that ended a scan.
    pub fn take_error(&self) -> Option<Error> {
        self.error.lock().ok()?.take()
    }
    fn fail(&self, error: Error) -> PolarsError {
        let text = error.message.clone();
        if let Ok(mut first) = self.error.lock() {
            first.get_or_insert(error);
        }
        PolarsError::ComputeError(text.into())
    }
}

impl FrameTable {
    /// Returns a frame that reads the table when it is collected.
    pub(super) fn scan(&self, state: &Arc<ScanState>) -> Result<LazyFrame> {
        let empty = wide(frame_of(&RecordBatch::new_empty(self.schema().clone()))?);
        let empty = empty.map_err(|e| Error::bug(format!("a table has no columns as frames: {e}")))?;
        let schema = empty.schema().clone();
        let scan = TableScan { table: self.clone(), empty, state: state.clone() };
        let options = ScanArgsAnonymous { schema: Some(schema), name: "TABLE", ..ScanArgsAnonymous::default() };
        LazyFrame::anonymous_scan(Arc::new(scan), options)
            .map_err(|e| Error::bug(format!("the table `{}` cannot be scanned: {e}", self.name())))
    }
}

struct TableScan {
    table: FrameTable,
    /// All columns, without rows.
    empty: DataFrame,
    state: Arc<ScanState>,
}

impl TableScan {
    /// Reads the first `limit` rows of some columns.
    fn read(&self, columns: &[String], limit: usize) -> Result<DataFrame> {
        let unusable = |e: PolarsError| Error::bug(format!("batches of a table cannot be joined: {e}"));
        let mut rows = self.empty.select(columns.iter().map(String::as_str)).map_err(unusable)?;
        for file in self.table.files() {
            // A table without the first column still has rows.
            let reader = GroupReader::open(file, Some(&self.table.stored(file, columns)?), BatchBounds::default())?;
            for batch in reader {
                let frame = wide(frame_of(&self.table.conform(file, &batch?, columns)?)?).map_err(unusable)?;
                let frame = frame.select(columns.iter().map(String::as_str)).map_err(unusable)?;
                rows.vstack_mut_owned(frame.head(Some(limit - rows.height()))).map_err(unusable)?;
                (self.state.after_batch)()?;
                if rows.height() == limit {
                    break;
                }
            }
        }
        rows.rechunk_mut();
        Ok(rows)
    }
}

impl AnonymousScan for TableScan {
    fn as_any(&self) -> &dyn Any {
        self
    }
    fn scan(&self, options: AnonymousScanArgs) -> PolarsResult<DataFrame> {
        let all = || self.table.columns().map(str::to_string).collect();
        let named = |names: Arc<[PlSmallStr]>| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        let wanted: Vec<String> = options.with_columns.map_or_else(all, named);
        // At least one column carries the number of rows.
        let first = || self.table.columns().take(1).map(str::to_string).collect();
        let read: Vec<String> = if wanted.is_empty() { first() } else { wanted.clone() };
        let rows = self.read(&read, options.n_rows.unwrap_or(usize::MAX)).map_err(|e| self.state.fail(e))?;
        if wanted.is_empty() { DataFrame::new(rows.height(), Vec::new()) } else { Ok(rows) }
    }
    fn schema(&self, _: Option<usize>) -> PolarsResult<SchemaRef> {
        Ok(self.empty.schema().clone())
    }
    fn allows_projection_pushdown(&self) -> bool {
        true
    }
}

/// Widens integers to 64 bits, as SQL computes: the difference of two small unsigned integers may be negative.
fn wide(frame: DataFrame) -> PolarsResult<DataFrame> {
    use DataType::{Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32};
    let widened = |column: &Column| match column.dtype() {
        Int8 | Int16 | Int32 | UInt8 | UInt16 | UInt32 => column.cast(&Int64),
        _ => Ok(column.clone()),
    };
    let columns = frame.columns().iter().map(widened).collect::<PolarsResult<Vec<_>>>()?;
    DataFrame::new(frame.height(), columns)
}
