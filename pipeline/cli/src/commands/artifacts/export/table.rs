//! Exports the rows of a table unchanged to one file.

use super::export_result::{ExportResult, expect_no_card};
use crate::args::ExportArgs;
use crate::commands::artifacts::fetch;
use crate::session::AppSession;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;
use trainyard_core::error::io_error;
use trainyard_core::{Error, Result};
use trainyard_tables::{BatchBounds, BatchWriter, CsvFormulas, GroupReader};
use trainyard_views::find::ResolvedOutput;
use trainyard_views::trajectory::PER_TOKEN;

/// Exports the rows of a table to the file `to`, in the format of the extension `ending`. CSV and JSON Lines omit the
/// columns with a value per token unless `--columns` names them: they are most of the bytes and meaningless without the
/// tokenizer.
pub fn table(
    session: &AppSession,
    args: &ExportArgs,
    found: &ResolvedOutput,
    ending: &str,
    to: &Path,
) -> Result<ExportResult> {
    expect_no_card(args)?;
    let (_folder, table) = fetch::table(session, &args.artifact, found)?;
    let all: Vec<String> = trainyard_tables::read_schema(&table)?.fields().iter().map(|f| f.name().clone()).collect();
    let selected = columns(&all, &args.columns, ending)?;
    let left_out =
        if args.columns.is_empty() { all.into_iter().filter(|c| !selected.contains(c)).collect() } else { Vec::new() };
    let formulas = if args.keep_formulas { CsvFormulas::Unchanged } else { CsvFormulas::Escaped };
    let rows = trainyard_tables::write_complete(to, |partial| write(&table, &selected, (ending, formulas), partial))?;
    Ok(ExportResult { files: vec![to.display().to_string()], rows: Some(rows), left_out, ..ExportResult::default() })
}

fn columns(all: &[String], requested: &[String], ending: &str) -> Result<Vec<String>> {
    if let Some(unknown) = requested.iter().find(|name| !all.contains(name)) {
        return Err(Error::invalid(format!("the table has no column `{unknown}`"))
            .help(format!("its columns are {}", all.join(", "))));
    }
    if !requested.is_empty() {
        return Ok(requested.to_vec());
    }
    let is_kept = |name: &&String| ending == "parquet" || !PER_TOKEN.contains(&name.as_str()) || !is_trajectories(all);
    Ok(all.iter().filter(is_kept).cloned().collect())
}

fn is_trajectories(all: &[String]) -> bool {
    all.iter().any(|name| name == "token_ids")
}

/// Writes columns of a table in the format of an extension, batch by batch.
fn write(table: &Path, columns: &[String], (ending, formulas): (&str, CsvFormulas), to: &Path) -> Result<u64> {
    if ending == "parquet" {
        return copy_table(table, columns, to);
    }
    let mut out = BufWriter::new(File::create(to).map_err(|e| io_error(to, &e))?);
    let rows = match ending {
        "csv" => trainyard_tables::export_csv(table, Some(columns), formulas, &mut out)?,
        _ => trainyard_tables::export_jsonl(table, Some(columns), &mut out)?,
    };
    out.flush().map_err(|e| io_error(to, &e))?;
    Ok(rows)
}

fn copy_table(table: &Path, columns: &[String], to: &Path) -> Result<u64> {
    let reader = GroupReader::open(table, Some(columns), BatchBounds::default())?;
    let mut writer = BatchWriter::create(to, reader.schema())?;
    for batch in reader {
        writer.write(&batch?)?;
    }
    writer.finish()
}
