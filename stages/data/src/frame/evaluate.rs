//! Evaluates the statement of some options over tables.

use super::config::{FrameConfig, FrameOutput};
use super::output::OutputRows;
use trainyard_core::Result;
use trainyard_frames::sql::{FrameResult, FrameSettings, FrameStatement, FrameTable};

/// Runs the statement of some options. Errors: those of the statement, and of a result that is not of its kind.
pub fn rows(config: &FrameConfig, tables: &[FrameTable], settings: &FrameSettings) -> Result<OutputRows> {
    let statement = FrameStatement::parse(&config.sql)?;
    let has_id = |name: &String| tables.iter().any(|table| table.name() == name && table.columns().any(|c| c == "id"));
    let of_one = statement.tables().iter().all(has_id).then(|| statement.with_source_ids()).flatten();
    let of_one = of_one.filter(|_| config.output != FrameOutput::Problems);
    let result: FrameResult = of_one.unwrap_or(statement).run(tables, settings)?;
    OutputRows::new(result, config.output)
}
