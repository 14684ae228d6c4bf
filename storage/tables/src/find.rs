//! Finds rows by texts in some of their columns, which are the only ones that are read.

use crate::file::{BatchReader, ReadSlice};
use crate::source::TableSource;
use arrow_array::cast::AsArray;
use arrow_array::{Array, RecordBatch, StringArray};
use arrow_schema::DataType;
use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use trainyard_core::Result;

/// A row with a wanted text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextMatch {
    /// Number of the row, from 0.
    pub row: usize,
    /// Column that has the text.
    pub column: String,
    /// The text.
    pub text: String,
}

/// Returns where columns of texts, or of lists of texts, have one of the wanted texts, in the order of the rows. Stops
/// after `limit` matches. Absent columns and those of other types have no match. Errors: those of reading the file.
pub fn find_texts(
    source: impl Into<TableSource>,
    columns: &[&str],
    wanted: &HashSet<String>,
    limit: usize,
) -> Result<Vec<TextMatch>> {
    let mut found = Vec::new();
    scan(source.into(), columns, wanted, |batch, at, row| {
        for (field, column) in batch.schema_ref().fields().iter().zip(batch.columns()) {
            for text in wanted_at(column.as_ref(), at, wanted) {
                found.push(TextMatch { row, column: field.name().clone(), text: text.to_string() });
                if found.len() == limit {
                    return ControlFlow::Break(());
                }
            }
        }
        ControlFlow::Continue(())
    })?;
    Ok(found)
}

/// Returns the first row of each wanted text that a column has, in one pass that ends with the last of them. Absent
/// columns and those of other types have no rows. Errors: those of reading the file.
pub fn first_rows(
    source: impl Into<TableSource>,
    column: &str,
    wanted: &HashSet<String>,
) -> Result<HashMap<String, usize>> {
    let mut found = HashMap::new();
    scan(source.into(), &[column], wanted, |batch, at, row| {
        for text in batch.columns().iter().flat_map(|column| wanted_at(column.as_ref(), at, wanted)) {
            found.entry(text.to_string()).or_insert(row);
        }
        break_if(found.len() == wanted.len())
    })?;
    Ok(found)
}

/// Returns the first `limit` rows in which one of the columns has a wanted text, each with its text in the column
/// `shown`, which is one of them; `None` where it is null or absent. Absent columns have no match. Errors: those of
/// reading the file.
pub fn find_rows(
    source: impl Into<TableSource>,
    columns: &[&str],
    wanted: &HashSet<String>,
    shown: &str,
    limit: usize,
) -> Result<Vec<(usize, Option<String>)>> {
    let mut found = Vec::new();
    scan(source.into(), columns, wanted, |batch, at, row| {
        if batch.columns().iter().any(|column| wanted_at(column.as_ref(), at, wanted).next().is_some()) {
            let text = batch.column_by_name(shown).and_then(|column| texts_at(column.as_ref(), at).next());
            found.push((row, text.map(str::to_string)));
        }
        break_if(found.len() == limit)
    })?;
    Ok(found)
}

/// Calls `visit` with the rows of some columns, in order, until it breaks: the batch, the row in the batch and the row
/// in the file. Reads nothing if no text is wanted. Errors: those of reading the file.
fn scan(
    source: TableSource,
    columns: &[&str],
    wanted: &HashSet<String>,
    mut visit: impl FnMut(&RecordBatch, usize, usize) -> ControlFlow<()>,
) -> Result<()> {
    if wanted.is_empty() {
        return Ok(());
    }
    let columns: Vec<String> = columns.iter().map(ToString::to_string).collect();
    let mut first = 0;
    for batch in BatchReader::open_part(source, &ReadSlice { columns: Some(&columns), ..ReadSlice::default() })? {
        let batch = batch?;
        for at in 0..batch.num_rows() {
            if visit(&batch, at, first + at).is_break() {
                return Ok(());
            }
        }
        first += batch.num_rows();
    }
    Ok(())
}

fn break_if(is_done: bool) -> ControlFlow<()> {
    if is_done { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}

/// Returns the wanted texts of a cell.
fn wanted_at<'a>(column: &'a dyn Array, row: usize, wanted: &'a HashSet<String>) -> impl Iterator<Item = &'a str> {
    texts_at(column, row).filter(|text| wanted.contains(*text))
}

/// Returns the texts of a cell: one, those of a list, or none.
fn texts_at(column: &dyn Array, row: usize) -> impl Iterator<Item = &str> {
    let (texts, range): (Option<&StringArray>, _) = match column.data_type() {
        DataType::Utf8 => (Some(column.as_string::<i32>()), row..row + 1),
        DataType::List(field) if field.data_type() == &DataType::Utf8 && !column.is_null(row) => {
            let lists = column.as_list::<i32>();
            let offsets = lists.value_offsets();
            (Some(lists.values().as_string::<i32>()), offsets[row] as usize..offsets[row + 1] as usize)
        }
        _ => (None, 0..0),
    };
    texts
        .into_iter()
        .flat_map(move |texts| range.clone().filter(move |at| !texts.is_null(*at)).map(move |at| texts.value(at)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{TableBuilder, Trajectory, write_trajectories};

    fn wanted(texts: &[&str]) -> HashSet<String> {
        texts.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn texts_are_found_in_columns_and_lists() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data.parquet");
        let row = |id: &str, problem: &str, parents: &[&str]| Trajectory {
            id: id.into(),
            problem_id: problem.into(),
            parents: parents.iter().map(ToString::to_string).collect(),
            ..Trajectory::default()
        };
        let rows = [row("a", "p1", &["p1"]), row("b", "p2", &["p2", "a"]), row("c", "p2", &[])];
        write_trajectories(&path, &rows).unwrap();
        let found = |columns: &[&str], texts: &[&str], limit| -> Vec<(usize, String)> {
            let found = find_texts(&path, columns, &wanted(texts), limit).unwrap();
            found.into_iter().map(|found| (found.row, format!("{}={}", found.column, found.text))).collect()
        };
        assert_eq!(found(&["id"], &["b", "x"], 9), [(1, "id=b".to_string())]);
        let links = found(&["id", "parents"], &["a"], 9);
        assert_eq!(links, [(0, "id=a".to_string()), (1, "parents=a".to_string())]);
        assert_eq!(found(&["problem_id"], &["p2"], 1).len(), 1);
        assert_eq!(found(&["problem_id"], &["p2"], 9).len(), 2);
        assert!(found(&["none", "reward"], &["p2"], 9).is_empty());
        assert!(found(&["id"], &[], 9).is_empty());
        let rows = |columns: &[&str], texts: &[&str], shown: &str, limit| {
            find_rows(&path, columns, &wanted(texts), shown, limit).unwrap()
        };
        let row = |row: usize, text: &str| (row, Some(text.to_string()));
        assert_eq!(rows(&["id", "parents"], &["a", "p2"], "id", 9), [row(0, "a"), row(1, "b")], "each row once");
        assert_eq!(rows(&["id", "problem_id"], &["p2", "p1"], "id", 2), [row(0, "a"), row(1, "b")]);
        assert_eq!(rows(&["problem_id"], &["p1"], "none", 9), [(0, None)]);
        assert!(rows(&["id"], &[], "id", 9).is_empty() && rows(&["none"], &["a"], "id", 9).is_empty());
    }

    #[test]
    fn first_rows_of_texts_are_found_in_one_pass() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data.parquet");
        let ids = (0..5_000).map(|row| format!("r{}", row % 3_000));
        TableBuilder::new().string("id", ids).i64("n", 0..5_000).write(&path).unwrap();
        let found = |column: &str, texts: &[&str]| {
            let mut found: Vec<_> = first_rows(&path, column, &wanted(texts)).unwrap().into_iter().collect();
            found.sort();
            found
        };
        let row = |text: &str, row: usize| (text.to_string(), row);
        assert_eq!(found("id", &["r2999", "r0", "x", "r7"]), [row("r0", 0), row("r2999", 2_999), row("r7", 7)]);
        assert!(found("none", &["r0"]).is_empty() && found("n", &["r0"]).is_empty() && found("id", &[]).is_empty());
    }

    #[test]
    fn nulls_have_no_texts() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data.parquet");
        TableBuilder::new().optional_string("rollout", [None, Some("a"), None]).write(&path).unwrap();
        let found = find_texts(&path, &["rollout"], &wanted(&["a", ""]), 9).unwrap();
        assert_eq!(found.iter().map(|found| found.row).collect::<Vec<_>>(), [1]);
    }
}
