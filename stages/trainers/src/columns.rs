//! Writes the rows of input ports as JSON Lines in the columns of an engine.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use trainyard_api::StageContext;
use trainyard_core::Result;
use trainyard_core::error::io_error;
use trainyard_data::export::{ExportForm, ExportFormat, ExportOmissions, ExportSource, export};
use trainyard_tables::ordered;

/// Name of an input port and the form of its rows; `None` = the default form of the artifact.
pub type RowPort = (&'static str, Option<ExportForm>);

/// Writes a file for each connected port into `folder`. Returns the files by port and the total number of rows. The log
/// reports the number of fields that the format cannot express.
///
/// Errors: data (invalid rows, or no row), invalid (a form that the artifact or the format lacks).
pub fn write(
    context: &StageContext,
    ports: &[RowPort],
    format: &dyn ExportFormat,
    folder: &Path,
) -> Result<(BTreeMap<String, PathBuf>, u64)> {
    let (mut files, mut rows) = (BTreeMap::new(), 0);
    for (port, form) in ports {
        let inputs = context.many(port);
        if inputs.is_empty() {
            continue;
        }
        let path = folder.join(format!("{port}.jsonl"));
        let mut file = BufWriter::new(File::create(&path).map_err(|e| io_error(&path, &e))?);
        let mut omissions = ExportOmissions::default();
        for input in inputs {
            let table = input.parquet();
            let source = ExportSource { table: &table, kind: input.kind };
            let form = ExportForm::choose(*form, source.forms()?, format.forms(), input.kind, format.name())?;
            let written = export(source, form, format, &mut omissions, &mut |row| ordered::write_line(&row, &mut file));
            rows += written.map_err(|e| e.at(format!("input `{port}`")))?;
            context.stop_if_cancelled()?;
        }
        file.flush().map_err(|e| io_error(&path, &e))?;
        for (description, count) in omissions.counts() {
            context.log(format!("input `{port}`: left out: {count} {description}"));
        }
        files.insert((*port).to_string(), path);
    }
    Ok((files, rows))
}
