//! Finds rows by texts in some of their columns, which are the only ones that are read.

use crate::file::{BatchReader, ReadSlice};
use crate::source::TableSource;
use arrow_array::cast::AsArray;
use arrow_array::{Array, StringArray};
use arrow_schema::DataType;
use std::collections::HashSet;
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
    let columns: Vec<String> = columns.iter().map(ToString::to_string).collect();
    let (mut found, mut first) = (Vec::new(), 0);
    if wanted.is_empty() {
        return Ok(found);
    }
    let part = ReadSlice { columns: Some(&columns), ..ReadSlice::default() };
    for batch in BatchReader::open_part(source, &part)? {
        let batch = batch?;
        for row in 0..batch.num_rows() {
            for (field, column) in batch.schema_ref().fields().iter().zip(batch.columns()) {
                for text in texts_at(column.as_ref(), row).filter(|text| wanted.contains(*text)) {
                    found.push(TextMatch { row: first + row, column: field.name().clone(), text: text.to_string() });
                    if found.len() == limit {
                        return Ok(found);
                    }
                }
            }
        }
        first += batch.num_rows();
    }
    Ok(found)
}

/// Returns a column's texts in some rows, given in ascending order; `None` where there is no text, or no such column or
/// row. Errors: those of reading the file.
pub fn texts_of_rows(source: impl Into<TableSource>, column: &str, rows: &[usize]) -> Result<Vec<Option<String>>> {
    let columns = [column.to_string()];
    let (mut texts, mut first) = (Vec::with_capacity(rows.len()), 0);
    for batch in BatchReader::open_part(source, &ReadSlice { columns: Some(&columns), ..ReadSlice::default() })? {
        let batch = batch?;
        let end = first + batch.num_rows();
        while let Some(row) = rows.get(texts.len()).filter(|row| **row < end && batch.num_columns() > 0) {
            texts.push(texts_at(batch.column(0).as_ref(), row - first).next().map(str::to_string));
        }
        if texts.len() == rows.len() {
            break;
        }
        first = end;
    }
    texts.resize(rows.len(), None);
    Ok(texts)
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
        let texts = |column: &str, rows: &[usize]| texts_of_rows(&path, column, rows).unwrap();
        assert_eq!(texts("id", &[0, 2, 9]), [Some("a".to_string()), Some("c".to_string()), None]);
        assert_eq!(texts("none", &[0]), [None]);
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
