//! Opens a file of rows, and detects its compression and layout.

use super::bytes::{Bytes, is_packed, open_decompressed, read_error, skip_mark};
use super::delimited::DelimitedReader;
use super::lines::LineReader;
use super::list::JsonListReader;
use super::table::{JsonObjectReader, cells};
use super::{RawRow, RowContent, RowIter};
use std::fs::File;
use std::io::{BufRead as _, Cursor, Read as _};
use std::path::Path;
use trainyard_core::error::io_error;
use trainyard_core::units::format_size;
use trainyard_core::{Error, Result};

/// Extensions of files of rows.
pub const ENDINGS: [&str; 16] = [
    ".json",
    ".json.gz",
    ".json.zst",
    ".jsonl",
    ".jsonl.gz",
    ".jsonl.zst",
    ".ndjson",
    ".ndjson.gz",
    ".ndjson.zst",
    ".parquet",
    ".txt",
    ".txt.gz",
    ".txt.zst",
    ".json.zstd",
    ".jsonl.zstd",
    ".ndjson.zstd",
];

/// Extensions of files of separated cells.
pub const DELIMITED_ENDINGS: [&str; 8] =
    [".csv", ".csv.gz", ".csv.zst", ".csv.zstd", ".tsv", ".tsv.gz", ".tsv.zst", ".tsv.zstd"];

const PARQUET: [u8; 4] = *b"PAR1";
/// Maximum bytes of a file that is one JSON object, which is read as a whole.
const MAX_OBJECT_BYTES: u64 = 1 << 30;

/// Opens a file of rows. The first bytes determine the compression, and the first bytes or the name determine Parquet.
/// All other files contain JSON, text if the name ends with `.txt`, or separated cells if it ends with `.csv` or
/// `.tsv`. The rows end with an error if they have more than `max_bytes` decompressed. Errors: those of the disk; data,
/// if the file is damaged; invalid, for compressed Parquet.
pub fn open(path: &Path, max_bytes: u64) -> Result<RowIter> {
    let mut start = Vec::new();
    let file = File::open(path).map_err(|e| io_error(path, &e))?;
    file.take(4).read_to_end(&mut start).map_err(|e| io_error(path, &e))?;
    let packed = is_packed(&start);
    let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().to_lowercase());
    let name = name.trim_end_matches(".gz").trim_end_matches(".zst").trim_end_matches(".zstd");
    if start == PARQUET || (name.ends_with(".parquet") && !packed) {
        return cells(path, max_bytes);
    }
    if name.ends_with(".parquet") {
        return Err(Error::invalid(format!("{}: a Parquet file inside of an archive cannot be read", path.display()))
            .help("unpack it first: Parquet files are compressed already"));
    }
    let bytes = open_decompressed(path, &start, max_bytes)?;
    if name.ends_with(".txt") {
        return Ok(Box::new(LineReader::new(path, skip_mark(path, bytes)?, 1, RowContent::Text)));
    }
    if let Some(separator) = separator(name) {
        return Ok(Box::new(DelimitedReader::open(path, skip_mark(path, bytes)?, separator)?));
    }
    json(path, skip_mark(path, bytes)?, name.ends_with(".json"))
}

/// Returns the separator of cells by the extension of a file.
fn separator(name: &str) -> Option<u8> {
    let separators = [(".csv", b','), (".tsv", b'\t')];
    separators.into_iter().find(|(ending, _)| name.ends_with(ending)).map(|(_, separator)| separator)
}

/// Reads a list if the text begins with `[`, else lines. A file whose name ends with `.json` may also be one object.
fn json(path: &Path, mut bytes: Bytes, named_json: bool) -> Result<RowIter> {
    let seen = bytes.fill_buf().map_err(|e| read_error(path, &e))?;
    let blank = seen.iter().take_while(|b| b.is_ascii_whitespace()).count();
    match seen.get(blank).copied() {
        Some(b'[') => {
            bytes.consume(blank + 1);
            Ok(Box::new(JsonListReader::new(path, bytes)))
        }
        Some(b'{') if named_json => object_or_lines(path, bytes),
        _ => Ok(lines(path, bytes)),
    }
}

fn lines(path: &Path, bytes: Bytes) -> RowIter {
    Box::new(LineReader::new(path, bytes, 1, RowContent::Json))
}

/// Reads lines if the first one is an object and not the last one; else the whole file is one object.
fn object_or_lines(path: &Path, mut bytes: Bytes) -> Result<RowIter> {
    let mut first = Vec::new();
    let unreadable = |e| read_error(path, &e);
    while first.trim_ascii().is_empty()
        && bytes.by_ref().take(MAX_OBJECT_BYTES).read_until(b'\n', &mut first).map_err(unreadable)? > 0
    {}
    let is_object = serde_json::from_slice::<serde::de::IgnoredAny>(&first).is_ok();
    let more = !bytes.fill_buf().map_err(unreadable)?.trim_ascii().is_empty();
    if is_object && more {
        return Ok(lines(path, Box::new(Cursor::new(first).chain(bytes))));
    }
    bytes.by_ref().take(MAX_OBJECT_BYTES).read_to_end(&mut first).map_err(unreadable)?;
    if !bytes.fill_buf().map_err(unreadable)?.is_empty() {
        let size = format_size(MAX_OBJECT_BYTES);
        return Err(Error::data(format!("{}: a JSON object of more than {size}", path.display()))
            .help("write its rows as JSON Lines, one object on each line"));
    }
    match RowContent::Json(first).columns() {
        Ok(columns) => Ok(Box::new(JsonObjectReader::new(columns))),
        Err(reason) => Ok(Box::new(std::iter::once(Ok(RawRow { line: 1, content: RowContent::Unreadable(reason) })))),
    }
}
