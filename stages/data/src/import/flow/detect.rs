//! Detects the format of files by the columns of their first rows, if the options name no format.

use super::columns::{RenamedRow, rows};
use crate::import::format::{ImportFormat, names};
use crate::import::rows::files::ImportFile;
use std::collections::BTreeMap;
use trainyard_core::{Error, Result};

/// Maximum rows to examine.
const ROWS: usize = 256;

/// Returns the only format that recognizes the first readable row that any format recognizes. Errors: data, if no
/// format or more than one format recognizes such a row; those of reading. `renamed`: see [`RenamedRow::new`].
pub fn detect(
    files: &[ImportFile],
    formats: &[&'static dyn ImportFormat],
    renamed: &BTreeMap<String, String>,
) -> Result<&'static dyn ImportFormat> {
    let mut seen = None;
    for row in files.iter().flat_map(rows).take(ROWS) {
        let Ok(columns) = row?.content.columns() else { continue };
        let columns = RenamedRow::new(columns, renamed).columns;
        let fitting: Vec<&'static dyn ImportFormat> =
            formats.iter().copied().filter(|f| f.recognizes(&columns)).collect();
        match fitting[..] {
            [] => seen = seen.or_else(|| Some(names(&columns))),
            [format] => return Ok(format),
            _ => {
                let fitting: Vec<&str> = fitting.iter().map(|f| f.name()).collect();
                return Err(Error::data(format!("the rows may be of these formats: {}", fitting.join(", ")))
                    .help("set `format` to one of them"));
            }
        }
    }
    let known: Vec<&str> = formats.iter().map(|f| f.name()).collect();
    let error = match seen {
        Some(columns) => format!("no import format has the columns of these rows: {columns}"),
        None => format!("{}: no row can be read", files.first().map_or("", |file| &file.name)),
    };
    Err(Error::data(error).help(format!(
        "name their columns, as in `columns: {{prompt: question, answer: gold}}`, or set `format` to one of: {}",
        known.join(", ")
    )))
}
