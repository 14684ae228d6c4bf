//! Runs statements over tables.

use super::result::FrameResult;
use super::run_error::{RunError, too_many_rows};
use super::scan::ScanState;
use super::settings::FrameSettings;
use super::statement::FrameStatement;
use super::table::FrameTable;
use super::{joins, plan, random};
use polars::error::PolarsError;
use polars::prelude::LazyFrame;
use polars::sql::SQLContext;
use std::sync::Arc;
use trainyard_core::panics::catch_quietly_with_pool;
use trainyard_core::suggest::nearest;
use trainyard_core::{Error, Result};

/// Prefix of the names of the threads of polars, if `POLARS_THREAD_NAME` does not say otherwise.
const POOL: &str = "polars";

impl FrameStatement {
    /// Runs the statement over the tables that it names; others are not read.
    ///
    /// Errors: invalid (an unknown column, table or function, unsupported SQL, more rows than the limit), data (a
    /// damaged file, a cell that cannot be converted).
    pub fn run(&self, tables: &[FrameTable], settings: &FrameSettings) -> Result<FrameResult> {
        let state = Arc::new(ScanState::new(settings.after_batch.clone()));
        let run = || self.run_lazily(tables, settings, &state);
        // Some statements that polars does not support end in a panic.
        let ran = catch_quietly_with_pool(POOL, run).unwrap_or_else(|_| {
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
