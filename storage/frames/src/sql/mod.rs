//! Runs one SQL SELECT over named tables: joins, groups, windows, sorts, samples.
//!
//! Polars reads the SQL (`polars-sql`) and computes the result in memory. Of the tables, only the columns that the
//! statement needs are read. The order of the rows is a function of the tables: all steps keep the order of their
//! input ([`plan`]). Joins are counted before they are made ([`joins`]).

mod conditions;
mod joins;
mod plan;
mod random;
mod result;
mod scan;
mod small_offsets;
mod statement;
mod table;
#[cfg(test)]
mod tests;

pub use result::FrameResult;
pub use statement::{FrameStatement, SOURCE_ID};
pub use table::FrameTable;

use polars::error::PolarsError;
use polars::prelude::LazyFrame;
use polars::sql::SQLContext;
use scan::ScanState;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use trainyard_core::suggest::nearest;
use trainyard_core::{Error, Result};

/// Function that is called after each batch of an input; its error ends the statement.
pub type AfterBatch = Arc<dyn Fn() -> Result<()> + Send + Sync>;

/// Settings of a run of a statement.
#[derive(Clone)]
pub struct FrameSettings {
    /// Seed of the function `random`.
    pub seed: u64,
    /// Maximum rows of the result and of every join.
    pub max_rows: u64,
    /// Called after each batch that is read.
    pub after_batch: AfterBatch,
}

impl FrameSettings {
    /// Creates settings that nothing interrupts.
    pub fn new(seed: u64, max_rows: u64) -> Self {
        Self { seed, max_rows, after_batch: Arc::new(|| Ok(())) }
    }
}

impl FrameStatement {
    /// Runs the statement over the tables that it names; others are not read.
    ///
    /// Errors: invalid (an unknown column, table or function, unsupported SQL, more rows than the limit), data (a
    /// damaged file, a cell that cannot be converted).
    pub fn run(&self, tables: &[FrameTable], settings: &FrameSettings) -> Result<FrameResult> {
        let state = Arc::new(ScanState::new(settings.after_batch.clone()));
        let run = || self.run_lazily(tables, settings, &state);
        // Some statements that polars does not support end in a panic.
        let ran = catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| {
            Err(RunError::Own(Error::invalid("this SQL is not supported").help("write the statement in simpler steps")))
        });
        match ran {
            Ok(result) => Ok(result),
            Err(RunError::Own(error)) => Err(error),
            Err(RunError::Polars(error)) => Err(state.take_error().unwrap_or_else(|| self.explain(&error, tables))),
        }
    }

    fn run_lazily(
        &self,
        tables: &[FrameTable],
        settings: &FrameSettings,
        state: &Arc<ScanState>,
    ) -> Result<FrameResult, RunError> {
        let mut context = SQLContext::new().with_function_registry(random::functions(settings.seed));
        for table in tables.iter().filter(|table| self.tables().contains(table.name())) {
            context.register(table.name(), table.scan(state)?);
        }
        let plan = plan::in_order(context.execute(&self.text())?.logical_plan);
        joins::check(&plan, settings.max_rows)?;
        // One row more than allowed shows that there are too many.
        let most = settings.max_rows.saturating_add(1).min(u64::from(u32::MAX));
        let rows = LazyFrame::from(plan).limit(most as u32).collect()?;
        if rows.height() as u64 > settings.max_rows {
            return Err(RunError::Own(too_many_rows(&format!("the result has more than {} rows", settings.max_rows))));
        }
        Ok(FrameResult::new(rows))
    }

    /// Converts an error of polars: a mistake in the statement, or a cell that cannot be converted.
    fn explain(&self, error: &PolarsError, tables: &[FrameTable]) -> Error {
        let text = error.to_string();
        let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or("unknown error").trim();
        let message = format!("this SQL cannot be run: {first}");
        let is_of_data = matches!(
            error,
            PolarsError::ComputeError(_) | PolarsError::InvalidOperation(_) | PolarsError::OutOfBounds(_)
        );
        let columns = self.columns_of(tables);
        let quoted = first.split(['"', '\'', '`']).nth(1);
        let near = quoted.and_then(|word| nearest(word, columns.iter().flat_map(|(_, names)| names.iter().copied())));
        let near = near.map(|near| format!("did you mean `{near}`? ")).unwrap_or_default();
        let lists: Vec<String> =
            columns.iter().map(|(name, columns)| format!("`{name}` has {}", columns.join(", "))).collect();
        let error = if is_of_data { Error::data(message) } else { Error::invalid(message) };
        error.help(format!("{near}{}", lists.join("; ")))
    }

    fn columns_of<'t>(&self, tables: &'t [FrameTable]) -> Vec<(&'t str, Vec<&'t str>)> {
        let named = tables.iter().filter(|table| self.tables().contains(table.name()));
        named.map(|table| (table.name(), table.columns().collect())).collect()
    }
}

/// An error of polars, or one that is already explained.
pub(crate) enum RunError {
    Polars(PolarsError),
    Own(Error),
}

impl From<PolarsError> for RunError {
    fn from(error: PolarsError) -> Self {
        Self::Polars(error)
    }
}

impl From<Error> for RunError {
    fn from(error: Error) -> Self {
        Self::Own(error)
    }
}

fn too_many_rows(what: &str) -> Error {
    Error::invalid(format!("{what}, which is the limit `max_rows`"))
        .help("filter or group the rows before, join by more columns, or raise `max_rows`")
}
