//! Reads from the first rows of a local source what later stages need to know before the run.

use super::columns::{RenamedRow, rows};
use super::detect::detect;
use crate::import::format::ImportFormat;
use crate::import::rows::files::ImportFile;
use std::collections::{BTreeMap, BTreeSet};
use trainyard_core::Result;

/// Maximum rows to read.
const ROWS: usize = 256;

/// Facts about the rows of a source, taken from the first ones.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct FirstRows {
    /// Environment that the format gives the problems of these rows; `None` if they do not have a common one.
    pub environment: Option<&'static str>,
    /// Names of the further columns of these rows, as SQL has them: `meta_<name>`.
    pub meta_columns: BTreeSet<String>,
}

impl FirstRows {
    /// Reads the rows. The format is detected if it is not given. Errors: those of reading and of the detection.
    pub fn read(
        files: &[ImportFile],
        format: Option<&'static dyn ImportFormat>,
        formats: &[&'static dyn ImportFormat],
        renamed: &BTreeMap<String, String>,
    ) -> Result<Self> {
        let format = format.map_or_else(|| detect(files, formats, renamed), Ok)?;
        let (mut environments, mut meta_columns) = (BTreeSet::new(), BTreeSet::new());
        for row in files.iter().flat_map(rows).take(ROWS) {
            let Ok(columns) = row?.content.columns() else { continue };
            let row = RenamedRow::new(columns, renamed);
            environments.insert(format.environment(&row.columns));
            meta_columns.extend(row.further(format).map(|(name, _)| format!("meta_{name}")));
        }
        let common = if environments.len() == 1 { environments.pop_first().flatten() } else { None };
        Ok(Self { environment: common, meta_columns })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::registry::format;

    fn first_rows(name: &str, text: &str, renamed: &[(&str, &str)]) -> FirstRows {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.jsonl");
        std::fs::write(&path, text).unwrap();
        let files = [ImportFile::new(path, "rows.jsonl".into())];
        let renamed = renamed.iter().map(|(name, own)| ((*name).to_string(), (*own).to_string())).collect();
        FirstRows::read(&files, Some(format(name).unwrap()), &[], &renamed).unwrap()
    }

    #[test]
    fn further_columns_of_any_of_the_rows_are_known() {
        let text =
            "{\"q\": \"1+1?\", \"answer\": 2, \"lang\": \"en\"}\n{\"q\": \"2+1?\", \"answer\": 3, \"by\": \"me\"}\n";
        let found = first_rows("jsonl", text, &[("prompt", "q")]);
        assert_eq!(found.meta_columns.iter().map(String::as_str).collect::<Vec<_>>(), ["meta_by", "meta_lang"]);
        assert_eq!(found.environment, Some("math-problems"));
    }

    #[test]
    fn environment_is_unknown_if_rows_name_their_own() {
        let own =
            "{\"prompt\": \"a\", \"answer\": 2}\n{\"prompt\": \"b\", \"answer\": 3, \"environment\": \"countdown\"}\n";
        assert_eq!(first_rows("jsonl", own, &[]).environment, None);
        let grade_school = "{\"question\": \"1+1?\", \"answer\": \"<<1+1=2>>2\\n#### 2\"}\n";
        assert_eq!(first_rows("gsm8k", grade_school, &[]).environment, Some("math-problems"));
    }
}
