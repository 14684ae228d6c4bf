//! Shows rows of a table: a page from a position on, or chosen ones. Only the shown columns are read, of the row groups
//! that have the rows.

use crate::find::ResolvedOutput;
use crate::table;
use crate::trajectory::PER_TOKEN;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::HashSet;
use trainyard_core::{Error, Result};
use trainyard_spec::diagnostic::nearest;
use trainyard_store::Store;
use trainyard_tables::chosen_rows::ChosenRows;
use trainyard_tables::json::{CellLimits, row_as_json};
use trainyard_tables::{BatchReader, ReadSlice, TableSource, find_texts, read_schema};

/// Columns that are shown if none are chosen and too few of [`TELLING`] exist.
const USUAL: usize = 8;
/// Columns of problems, trajectories and results that are shown if none are chosen.
const TELLING: [&str; 10] =
    ["id", "rollout", "problem_id", "model", "messages", "answer", "reward", "correct", "stop_reason", "level"];
/// Number of them that are enough.
const ENOUGH: usize = 4;
/// Limits on the size of a cell.
const LIMITS: CellLimits = CellLimits { text: 400, items: 12 };
/// Rows of a batch of chosen rows.
const BATCH: usize = 64;
/// Columns that identify a row, in order of preference: `rollout` is the id of a row of `results`.
const ID_COLUMNS: [&str; 2] = ["id", "rollout"];

/// Rows of a table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TableRows {
    /// Number of rows of the table.
    pub total: u64,
    /// Names of all columns.
    pub columns: Vec<String>,
    /// Names of the columns that are shown, in the order of the table.
    pub shown: Vec<String>,
    /// Rows, in the order of the table.
    pub rows: Vec<NumberedRow>,
}

/// Row of a table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NumberedRow {
    /// Number of the row, from 0.
    pub row: u64,
    /// Values of the shown columns; long ones are cut with `…`.
    pub cells: Vec<Value>,
}

/// Selection of rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RowChoice {
    /// A number of rows from a position on.
    From(u64, usize),
    /// Rows by number, in ascending order, each once.
    These(Vec<u64>),
}

/// Reads rows. Without `columns`, the usual ones of problems, trajectories and results are shown, or else the first
/// eight that do not have a value per token.
///
/// Errors: invalid (not a table, no such column), data (a damaged table), those of the store.
pub async fn rows(
    store: &Store,
    artifact: &str,
    found: &ResolvedOutput,
    columns: &[String],
    choice: RowChoice,
) -> Result<TableRows> {
    let table = table::open(store, artifact, found).await?;
    let known: Vec<String> =
        found.output().table.iter().flat_map(|table| table.columns.iter().map(|column| column.name.clone())).collect();
    let (artifact, columns) = (artifact.to_string(), columns.to_vec());
    let work = tokio::task::spawn_blocking(move || {
        let known = if known.is_empty() { names(&table)? } else { known };
        let shown = shown(&artifact, &known, &columns)?;
        read(&table, known, shown, &choice)
    });
    work.await.map_err(|e| Error::bug(format!("reading rows ended early: {e}")))?
}

/// Returns the number of the first row with an id. Only the columns of ids are read.
///
/// Errors: invalid (no such row, a table without ids), those of [`table::open`].
pub async fn row_with_id(store: &Store, artifact: &str, found: &ResolvedOutput, id: &str) -> Result<u64> {
    let table = table::open(store, artifact, found).await?;
    let (artifact, id) = (artifact.to_string(), id.to_string());
    let work = tokio::task::spawn_blocking(move || {
        let names = names(&table)?;
        let Some(column) = ID_COLUMNS.into_iter().find(|column| names.iter().any(|name| name == column)) else {
            return Err(Error::invalid(format!("{artifact} has no column `id`"))
                .help(format!("name a row by its number; the columns are {}", names.join(", "))));
        };
        let matches = find_texts(&table, &[column], &HashSet::from([id.clone()]), 1)?;
        let first = matches.first().map(|found| found.row as u64);
        first.ok_or_else(|| {
            Error::invalid(format!("{artifact} has no row with the {column} `{id}`")).help("copy the id from its rows")
        })
    });
    work.await.map_err(|e| Error::bug(format!("the search for a row ended early: {e}")))?
}

fn names(table: &TableSource) -> Result<Vec<String>> {
    Ok(read_schema(table)?.fields().iter().map(|field| field.name().clone()).collect())
}

/// Returns the columns to show, in the order of the table.
fn shown(artifact: &str, known: &[String], columns: &[String]) -> Result<Vec<String>> {
    if columns.is_empty() {
        let telling: Vec<String> = known.iter().filter(|name| TELLING.contains(&name.as_str())).cloned().collect();
        if telling.len() >= ENOUGH {
            return Ok(telling);
        }
        let readable = known.iter().filter(|name| !PER_TOKEN.contains(&name.as_str()));
        return Ok(readable.take(USUAL).cloned().collect());
    }
    if let Some(unknown) = columns.iter().find(|name| !known.contains(name)) {
        let names: Vec<&str> = known.iter().map(String::as_str).collect();
        let near = nearest(unknown, names.iter().copied()).map(|near| format!("did you mean `{near}`? "));
        let help = format!("{}the columns are {}", near.unwrap_or_default(), names.join(", "));
        return Err(Error::invalid(format!("{artifact} has no column `{unknown}`")).help(help));
    }
    Ok(known.iter().filter(|name| columns.contains(name)).cloned().collect())
}

fn read(table: &TableSource, columns: Vec<String>, shown: Vec<String>, choice: &RowChoice) -> Result<TableRows> {
    let part = match choice {
        RowChoice::From(from, limit) => ReadSlice {
            offset: usize::try_from(*from).unwrap_or(usize::MAX),
            limit: Some(*limit),
            columns: Some(&shown),
        },
        RowChoice::These(_) => ReadSlice { offset: 0, limit: Some(0), columns: Some(&shown) },
    };
    let reader = BatchReader::open_part(table, &part)?;
    let total = reader.rows();
    let mut rows = Vec::new();
    match choice {
        RowChoice::From(from, _) => {
            for batch in reader {
                let batch = batch?;
                let cells = (0..batch.num_rows()).map(|at| row_as_json(&batch, at, LIMITS));
                let first = *from + rows.len() as u64;
                rows.extend((first..).zip(cells));
            }
        }
        RowChoice::These(chosen) => {
            let names: Vec<&str> = shown.iter().map(String::as_str).collect();
            for batch in ChosenRows::open(table, &names, chosen, BATCH)? {
                let batch = batch?;
                let cells = (0..batch.num_rows()).map(|at| row_as_json(&batch, at, LIMITS));
                let numbers = chosen[rows.len()..].iter().copied();
                rows.extend(numbers.zip(cells));
            }
        }
    }
    let cells = |mut row: Value| shown.iter().map(|name| row[name.as_str()].take()).collect();
    let rows = rows.into_iter().map(|(row, object)| NumberedRow { row, cells: cells(object) }).collect();
    Ok(TableRows { total, columns, shown, rows })
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_tables::TableBuilder;

    fn table(folder: &tempfile::TempDir) -> TableSource {
        let path = folder.path().join("data.parquet");
        let texts = (0..20_000).map(|n| format!("text {n}"));
        let table = TableBuilder::new().i64("n", 0..20_000).string("text", texts).i64("turn", 0..20_000);
        table.write(&path).unwrap();
        TableSource::from(&path)
    }

    fn read_rows(table: &TableSource, columns: &[&str], choice: RowChoice) -> Result<TableRows> {
        let known = names(table)?;
        let columns: Vec<String> = columns.iter().map(ToString::to_string).collect();
        let shown = shown("r/s/rows", &known, &columns)?;
        read(table, known, shown, &choice)
    }

    fn numbers(rows: &TableRows) -> Vec<(u64, Value)> {
        rows.rows.iter().map(|row| (row.row, row.cells[0].clone())).collect()
    }

    #[test]
    fn a_page_begins_at_its_row() {
        let folder = tempfile::tempdir().unwrap();
        let table = table(&folder);
        let page = read_rows(&table, &[], RowChoice::From(16_383, 2)).unwrap();
        assert_eq!((page.total, page.shown.join(",").as_str()), (20_000, "n,text"), "`turn` has a value per token");
        assert_eq!(numbers(&page), [(16_383, 16_383.into()), (16_384, 16_384.into())]);
        assert_eq!(page.rows[1].cells[1], "text 16384");
        assert!(read_rows(&table, &[], RowChoice::From(20_000, 5)).unwrap().rows.is_empty());
    }

    #[test]
    fn chosen_rows_keep_their_numbers() {
        let folder = tempfile::tempdir().unwrap();
        let page = read_rows(&table(&folder), &["turn", "n"], RowChoice::These(vec![3, 17_000, 99_999])).unwrap();
        assert_eq!(page.shown, ["n", "turn"], "columns have the order of the table");
        assert_eq!(numbers(&page), [(3, 3.into()), (17_000, 17_000.into())]);
    }

    #[test]
    fn unknown_columns_are_errors_that_list_the_columns() {
        let folder = tempfile::tempdir().unwrap();
        let error = read_rows(&table(&folder), &["texts"], RowChoice::From(0, 1)).unwrap_err();
        assert_eq!(error.message, "r/s/rows has no column `texts`");
        assert_eq!(error.help.as_deref(), Some("did you mean `text`? the columns are n, text, turn"));
    }
}
