//! Writes the rows of an export to a file. The file exists only when it is complete.
//!
//! The memory is that of one batch of rows of the source. Parquet takes that of one row group more, and reads the
//! source twice: the types of the columns are known only after all rows.

use super::ExportForm;
use super::format::{ExportFormat, FileKind};
use super::inspect;
use super::items::{ExportSource, export};
use super::omissions::ExportOmissions;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;
use trainyard_core::Result;
use trainyard_core::error::io_error;
use trainyard_tables::{OrderedRowTypes, OrderedRowWriter, ordered, write_complete};

/// Writes the rows of `source` in a form of a format to `file`. Returns their number. After an error, `file` is as
/// before.
///
/// Errors: data (a broken row, or no row of this form), those of reading and writing, naming `file`.
pub fn write_export(
    source: ExportSource<'_>,
    (form, format): (ExportForm, &dyn ExportFormat),
    (file, kind): (&Path, FileKind),
    omissions: &mut ExportOmissions,
) -> Result<u64> {
    write_complete(file, |partial| match kind {
        FileKind::JsonLines => json_lines(source, (form, format), partial, omissions),
        FileKind::Parquet => parquet(source, (form, format), partial, omissions),
        FileKind::InspectLog => inspect::write_log(partial, |sample| export(source, form, format, omissions, sample)),
    })
}

fn json_lines(
    source: ExportSource<'_>,
    (form, format): (ExportForm, &dyn ExportFormat),
    file: &Path,
    omissions: &mut ExportOmissions,
) -> Result<u64> {
    let mut out = BufWriter::new(File::create(file).map_err(|e| io_error(file, &e))?);
    let rows = export(source, form, format, omissions, &mut |row| ordered::write_line(&row, &mut out))?;
    out.flush().map_err(|e| io_error(file, &e))?;
    Ok(rows)
}

fn parquet(
    source: ExportSource<'_>,
    (form, format): (ExportForm, &dyn ExportFormat),
    file: &Path,
    omissions: &mut ExportOmissions,
) -> Result<u64> {
    let mut types = OrderedRowTypes::default();
    export(source, form, format, omissions, &mut |row| types.add(&row))?;
    let mut writer = OrderedRowWriter::create(file, types)?;
    // The first pass counted the omissions.
    export(source, form, format, &mut ExportOmissions::default(), &mut |row| writer.write(row))?;
    writer.finish()
}
