//! Names the columns of rows as a format reads them, and keeps the columns that it does not read.

use crate::import::format::{ImportFormat, ImportRow, ImportedRows, RowConverter, names, sorted};
use crate::import::rows::files::ImportFile;
use crate::import::rows::{RawRow, RowContent, RowIter, open};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use trainyard_core::{Error, Result};

/// Rows in which a column is looked for.
const ROWS: usize = 256;

/// A row whose columns have the names that a format reads.
#[derive(Debug, Default, PartialEq)]
pub struct RenamedRow {
    /// The columns.
    pub columns: Map<String, Value>,
    /// Columns whose names other columns have taken.
    displaced: Map<String, Value>,
}

impl RenamedRow {
    /// Renames the columns of a row. `renamed` has the names in the source, by the names that the format reads. A
    /// column that the row lacks is not an error here.
    pub fn new(mut columns: Map<String, Value>, renamed: &BTreeMap<String, String>) -> Self {
        let found: Vec<(&String, Value)> =
            renamed.iter().filter_map(|(name, own)| Some((name, columns.get(own)?.clone()))).collect();
        renamed.values().for_each(|own| drop(columns.remove(own)));
        let displaced =
            found.into_iter().filter_map(|(name, value)| Some((name.clone(), columns.insert(name.clone(), value)?)));
        Self { displaced: displaced.collect(), columns }
    }
    /// Returns the columns that the format does not read, without those that are null.
    pub fn further<'r>(&'r self, format: &'r dyn ImportFormat) -> impl Iterator<Item = (&'r String, &'r Value)> {
        let unread = self.columns.iter().filter(|(name, _)| !format.reads(name, &self.columns));
        unread.chain(&self.displaced).filter(|(_, value)| !value.is_null())
    }
    /// Returns the columns that the format does not read, as JSON text of an object, or `None` without such columns.
    /// Null columns are left out, since files of columns do not distinguish them from missing ones.
    pub fn further_columns(&self, format: &dyn ImportFormat) -> Result<Option<String>> {
        let kept: BTreeMap<&String, Value> = self.further(format).map(|(name, value)| (name, sorted(value))).collect();
        let text = (!kept.is_empty()).then(|| serde_json::to_string(&kept)).transpose();
        text.map_err(|e| Error::bug(format!("columns of a row have no JSON form: {e}")))
    }
}

/// Converts a row by a format, and keeps its further columns. `place` is the row's position for ids. Errors: those of
/// the format; data, naming a renamed column that the row lacks.
pub fn convert(
    row: RawRow,
    place: String,
    format: &dyn ImportFormat,
    renamed: &BTreeMap<String, String>,
    converter: &RowConverter<'_>,
) -> Result<ImportedRows> {
    let line = row.line;
    let has_text_only = matches!(row.content, RowContent::TextCells(_));
    let own = row.content.columns().map_err(Error::data)?;
    let absent = renamed.iter().find(|(_, column)| !own.contains_key(*column));
    let absent = absent.map(|(name, column)| missing_column(name, column, &names(&own)));
    let RenamedRow { mut columns, displaced } = RenamedRow::new(own, renamed);
    if has_text_only {
        columns.iter_mut().for_each(|(name, cell)| read_number(name, cell, format));
    }
    let row = ImportRow { columns, line, place };
    let rows = converter(&row).map_err(|e| absent.unwrap_or(e))?;
    let meta = RenamedRow { columns: row.columns, displaced }.further_columns(format)?;
    Ok(rows.with_meta(meta.as_deref()))
}

/// Column that formats read as a number.
const LEVEL: &str = "level";

/// Replaces the text of a cell by the number or truth value that it is, in the columns that the format does not read
/// and in `level`. Formats read the other columns as text: the answer `1.50` stays as it is.
fn read_number(name: &str, cell: &mut Value, format: &dyn ImportFormat) {
    let is_read = format.columns().is_empty() || format.columns().contains(&name);
    let Value::String(text) = &*cell else { return };
    if is_read && name != LEVEL {
        return;
    }
    if let Ok(value @ (Value::Number(_) | Value::Bool(_))) = serde_json::from_str(&text.trim().to_lowercase()) {
        *cell = value;
    }
}

/// Returns the rows of a file. If the file cannot be opened, the only item is the error.
pub fn rows(file: &ImportFile) -> RowIter {
    open(&file.path, file.max_bytes).unwrap_or_else(|e| Box::new(std::iter::once(Err(e))))
}

fn missing_column(name: &str, column: &str, known: &str) -> Error {
    Error::data(format!("missing column `{column}`, which `columns` names for `{name}`; the columns are: {known}"))
}

/// Checks that each renamed column occurs in one of the first rows. Errors: data, with the columns that exist.
pub fn expect_columns(files: &[ImportFile], renamed: &BTreeMap<String, String>) -> Result<()> {
    absent_column(files, renamed)?.map_or(Ok(()), |(_, error)| Err(error))
}

/// Returns the first renamed column that none of the first rows has: the name that the format reads, and the error with
/// the columns that exist. Errors: those of reading.
pub fn absent_column(files: &[ImportFile], renamed: &BTreeMap<String, String>) -> Result<Option<(String, Error)>> {
    if renamed.is_empty() {
        return Ok(None);
    }
    let mut known = BTreeSet::new();
    for row in files.iter().flat_map(rows).take(ROWS) {
        known.extend(row?.content.names());
        if renamed.values().all(|column| known.contains(column)) {
            return Ok(None);
        }
    }
    let absent = renamed.iter().find(|(_, column)| !known.contains(*column));
    let known = known.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
    Ok(absent.map(|(name, column)| {
        let error = missing_column(name, column, &known);
        (name.clone(), error.help("`columns` maps a name that the format reads to a column of the source"))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::registry::format;
    use serde_json::json;

    fn renamed(row: Value, names: &[(&str, &str)]) -> RenamedRow {
        let names = names.iter().map(|(name, own)| ((*name).to_string(), (*own).to_string())).collect();
        RenamedRow::new(serde_json::from_value(row).unwrap(), &names)
    }

    fn kept(format_name: &str, row: Value, names: &[(&str, &str)]) -> Option<String> {
        renamed(row, names).further_columns(format(format_name).unwrap()).unwrap()
    }

    #[test]
    fn columns_get_the_names_of_the_format_and_may_be_exchanged() {
        let columns = |row: Value, names: &[(&str, &str)]| Value::Object(renamed(row, names).columns);
        assert_eq!(columns(json!({"q": 1, "x": 2}), &[("prompt", "q"), ("answer", "a")]), json!({"prompt": 1, "x": 2}));
        assert_eq!(columns(json!({"a": 1, "b": 2}), &[("a", "b"), ("b", "a")]), json!({"a": 2, "b": 1}));
        assert_eq!(columns(json!({"q": 1}), &[("prompt", "q"), ("id", "q")]), json!({"prompt": 1, "id": 1}));
    }

    #[test]
    fn columns_that_no_format_reads_are_kept() {
        let row = json!({"messages": [], "quality": 0.5, "lang": "de", "none": null, "tools": []});
        assert_eq!(kept("openai", row, &[]).as_deref(), Some(r#"{"lang":"de","quality":0.5}"#));
        assert_eq!(kept("openai", json!({"messages": [], "system": "s"}), &[]), None);
        // Only the first of several names is read.
        let row = json!({"prompt": "p", "question": "q", "answer": "a", "solution": "s", "id": "i"});
        assert_eq!(kept("jsonl", row, &[]).as_deref(), Some(r#"{"question":"q","solution":"s"}"#));
        // A column whose name another one takes is kept.
        let row = json!({"question": "q", "prompt": "p", "gold": "a"});
        let names = [("prompt", "question"), ("answer", "gold")];
        assert_eq!(kept("jsonl", row, &names).as_deref(), Some(r#"{"prompt":"p"}"#));
        let exported = json!({"prompt": [], "ability": "x", "extra_info": {"index": 1, "problem": {}}});
        assert_eq!(kept("verl", exported, &[]), None);
        let own = json!({"prompt": [], "ability": "math", "extra_info": {"index": 1, "topic": "sums"}});
        let all = r#"{"ability":"math","extra_info":{"index":1,"topic":"sums"}}"#;
        assert_eq!(kept("verl", own, &[]).as_deref(), Some(all));
    }

    #[test]
    fn cells_become_numbers_where_formats_read_no_text() {
        let read = |format_name: &str, name: &str, text: &str| {
            let mut cell = Value::from(text);
            read_number(name, &mut cell, format(format_name).unwrap());
            cell
        };
        assert_eq!(read("jsonl", "quality", "0.5"), json!(0.5));
        assert_eq!(read("jsonl", "checked", "TRUE"), json!(true));
        assert_eq!(read("jsonl", "level", " 3"), json!(3));
        for (name, text) in [("answer", "1.50"), ("question", "12"), ("id", "7"), ("lang", "de"), ("zip", "01234")] {
            assert_eq!(read("jsonl", name, text), json!(text), "{name}");
        }
        assert_eq!(read("openai", "lang", "null"), json!("null"));
    }
}
