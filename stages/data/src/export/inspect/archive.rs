//! Writes a log of Inspect as a zip archive whose bytes depend only on the samples.

use super::log::{LogFile, SampleLog};
use std::fs::File;
use std::io::{self, BufWriter, Seek, Write};
use std::path::Path;
use trainyard_core::Result;
use trainyard_core::error::io_error;
use trainyard_tables::OrderedValue;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipWriter};

/// Writes the samples that `rows` passes to its argument, and then the summaries and the header. Returns the number
/// that `rows` returns. Errors: those of `rows`, and those of the disk.
pub fn write_log(
    file: &Path,
    rows: impl FnOnce(&mut dyn FnMut(OrderedValue) -> Result<()>) -> Result<u64>,
) -> Result<u64> {
    let out = File::create(file).map_err(|e| io_error(file, &e))?;
    let mut archive = ZipWriter::new(BufWriter::new(out));
    let mut log = SampleLog::default();
    let mut put = |entry: &LogFile| write_entry(&mut archive, entry).map_err(|e| io_error(file, &e));
    let count = rows(&mut |sample| put(&log.add(sample)?))?;
    log.finish()?.iter().try_for_each(put)?;
    finish(archive).map_err(|e| io_error(file, &e))?;
    Ok(count)
}

/// Writes an entry with a fixed time and fixed permissions.
fn write_entry(archive: &mut ZipWriter<impl Write + Seek>, entry: &LogFile) -> io::Result<()> {
    let options = SimpleFileOptions::default()
        .compression_method(CompressionMethod::Deflated)
        .last_modified_time(DateTime::default())
        .unix_permissions(0o644)
        .large_file(u32::try_from(entry.json.len()).is_err());
    archive.start_file(entry.name.as_str(), options)?;
    archive.write_all(entry.json.as_bytes())
}

fn finish(archive: ZipWriter<BufWriter<File>>) -> io::Result<()> {
    archive.finish()?.flush()
}
