//! Reads files of separated cells (CSV and TSV) below a header, in the form of RFC 4180. A cell may be quoted, and then
//! contains separators, line breaks, and quotes written twice.
//!
//! All cells are text. One that contains a JSON object, a list of objects or a list of lists of texts is parsed, since
//! such files have no other form for messages. An empty cell is an absent column.

use super::bytes::{Bytes, read_error};
use super::{MOST_BYTES, RawRow, RowContent, text};
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use trainyard_core::{Error, Result};

/// Columns that stay text, because parsed maps sort their keys and a template shows them to the model.
const TEXTS: [&str; 2] = ["tools", "functions"];

/// Cells of a row, with the names of their columns.
pub struct TextCells {
    names: Arc<Vec<String>>,
    cells: Vec<Vec<u8>>,
}

impl TextCells {
    /// Returns the size in bytes.
    pub fn bytes(&self) -> usize {
        self.cells.iter().map(Vec::len).sum()
    }
    /// Returns the names of all columns of the file.
    pub fn names(&self) -> impl Iterator<Item = &String> {
        self.names.iter().filter(|name| !name.is_empty())
    }
    /// Returns the columns of the row, without empty cells and unnamed columns. Errors: the reason why the row cannot
    /// be read.
    pub fn columns(self) -> Result<Map<String, Value>, String> {
        if self.cells.len() != self.names.len() {
            return Err(format!(
                "the number of cells is {}, but the header has {}",
                self.cells.len(),
                self.names.len()
            ));
        }
        let named = self.names.iter().zip(self.cells).filter(|(name, cell)| !name.is_empty() && !cell.is_empty());
        named.map(|(name, cell)| Ok((name.clone(), value(name, text(&cell)?)))).collect()
    }
}

/// Returns the value of a cell: its text, or the structure that it contains.
fn value(name: &str, cell: &str) -> Value {
    let may_be_json = cell.trim_start().starts_with(['[', '{']) && !TEXTS.contains(&name);
    let parsed = may_be_json.then(|| serde_json::from_str(cell).ok()).flatten();
    parsed.filter(is_structure).unwrap_or_else(|| Value::from(cell))
}

/// Returns whether a value is an object, a list of objects or a list of lists of texts. Other lists are text that looks
/// like JSON, such as the answer `[1, 2]`.
fn is_structure(value: &Value) -> bool {
    let is_list_of_texts = |item: &Value| item.as_array().is_some_and(|list| list.iter().all(Value::is_string));
    match value {
        Value::Object(_) => true,
        Value::Array(items) if items.is_empty() => false,
        Value::Array(items) => items.iter().all(Value::is_object) || items.iter().all(is_list_of_texts),
        _ => false,
    }
}

/// The rows of a file.
pub struct DelimitedReader {
    path: PathBuf,
    bytes: Bytes,
    separator: u8,
    names: Arc<Vec<String>>,
    /// Line of the next byte.
    line: usize,
    ended: bool,
}

/// One record of a file.
#[derive(Default)]
struct Record {
    cells: Vec<Vec<u8>>,
    /// Reason why the record is not valid.
    broken: Option<String>,
}

/// Scanner of one record.
struct RecordScanner {
    separator: u8,
    cells: Vec<Vec<u8>>,
    cell: Vec<u8>,
    state: CellState,
    bytes: usize,
    broken: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum CellState {
    Start,
    Plain,
    Quoted,
    /// After a quote inside a quoted cell: the end of the cell, or the first of two quotes.
    Quote,
}

impl RecordScanner {
    fn new(separator: u8) -> Self {
        Self { separator, cells: Vec::new(), cell: Vec::new(), state: CellState::Start, bytes: 0, broken: None }
    }
    /// Processes a byte; returns whether it ends the record.
    fn take(&mut self, byte: u8) -> bool {
        match (self.state, byte) {
            (CellState::Start, b'"') => self.state = CellState::Quoted,
            (CellState::Quoted, b'"') => self.state = CellState::Quote,
            (CellState::Quoted, byte) => self.push(byte),
            (CellState::Quote, b'"') => {
                self.state = CellState::Quoted;
                self.push(byte);
            }
            (_, b'\n') => return true,
            (_, byte) if byte == self.separator => self.end_cell(),
            (CellState::Quote, b'\r') => {}
            (CellState::Quote, byte) => {
                self.broken.get_or_insert_with(|| "text follows the closing quote of a cell".into());
                self.push(byte);
            }
            (CellState::Start | CellState::Plain, byte) => {
                self.state = CellState::Plain;
                self.push(byte);
            }
        }
        false
    }
    /// Counts a byte; returns whether the record is short enough to keep it.
    fn count(&mut self) -> bool {
        self.bytes += 1;
        if self.bytes > MOST_BYTES {
            self.broken.get_or_insert_with(|| format!("longer than {MOST_BYTES} bytes"));
        }
        self.bytes <= MOST_BYTES
    }
    fn push(&mut self, byte: u8) {
        if self.count() {
            self.cell.push(byte);
        }
    }
    fn end_cell(&mut self) {
        let cell = std::mem::take(&mut self.cell);
        if self.count() {
            self.cells.push(cell);
        }
        self.state = CellState::Start;
    }
    /// Returns the record at its end or at the end of the file.
    fn finish(mut self) -> Record {
        if self.state == CellState::Quoted {
            self.broken.get_or_insert_with(|| "a quoted cell has no end; the file may be cut off".into());
        }
        if self.state == CellState::Plain && self.cell.last() == Some(&b'\r') {
            self.cell.pop();
        }
        self.end_cell();
        Record { cells: self.cells, broken: self.broken }
    }
}

impl DelimitedReader {
    /// Reads the header. `separator` is that of the file's kind; commas give way to semicolons if only these occur in
    /// the first line, as spreadsheets of many languages write them. Errors: data, for a header that is not valid.
    pub fn open(path: &Path, mut bytes: Bytes, separator: u8) -> Result<Self> {
        let seen = bytes.fill_buf().map_err(|e| read_error(path, &e))?;
        let first = seen.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let by_semicolon = separator == b',' && !first.contains(&b',') && first.contains(&b';');
        let separator = if by_semicolon { b';' } else { separator };
        let names = Arc::new(Vec::new());
        let mut reader = Self { path: path.to_path_buf(), bytes, separator, names, line: 1, ended: false };
        if let Some((_, header)) = reader.record()? {
            reader.names = Arc::new(header_names(path, header)?);
        }
        Ok(reader)
    }

    /// Returns the next record that is not a blank line, with its first line; `None` at the end of the file.
    fn record(&mut self) -> Result<Option<(usize, Record)>> {
        loop {
            let line = self.line;
            let Some(record) = self.next_record().map_err(|e| read_error(&self.path, &e))? else { return Ok(None) };
            let is_blank =
                record.broken.is_none() && record.cells.len() == 1 && record.cells[0].trim_ascii().is_empty();
            if !is_blank {
                return Ok(Some((line, record)));
            }
        }
    }

    fn next_record(&mut self) -> std::io::Result<Option<Record>> {
        let (mut scanner, mut any) = (RecordScanner::new(self.separator), false);
        loop {
            let seen = self.bytes.fill_buf()?;
            if seen.is_empty() {
                return Ok(any.then(|| scanner.finish()));
            }
            any = true;
            let end = seen.iter().position(|byte| scanner.take(*byte));
            let taken = end.map_or(seen.len(), |at| at + 1);
            self.line += memchr::memchr_iter(b'\n', &seen[..taken]).count();
            self.bytes.consume(taken);
            if end.is_some() {
                return Ok(Some(scanner.finish()));
            }
        }
    }
}

/// Returns the names of a header. Unnamed columns, such as the index that pandas writes, have empty names. Errors:
/// data.
fn header_names(path: &Path, header: Record) -> Result<Vec<String>> {
    let invalid = |reason: &str| {
        let error = Error::data(format!("{}: the header is not valid: {reason}", path.display()));
        error.help("the first line names the columns, each once")
    };
    if let Some(reason) = &header.broken {
        return Err(invalid(reason));
    }
    let name = |cell: Vec<u8>| text(&cell).map(|name| name.trim().to_string()).map_err(|reason| invalid(&reason));
    let names = header.cells.into_iter().map(name).collect::<Result<Vec<_>>>()?;
    let mut known = BTreeSet::new();
    match names.iter().filter(|name| !name.is_empty()).find(|name| !known.insert(name.as_str())) {
        Some(twice) => Err(invalid(&format!("two columns are named `{twice}`"))),
        None => Ok(names),
    }
}

impl Iterator for DelimitedReader {
    type Item = Result<RawRow>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let record = self.record().transpose();
        self.ended = !matches!(record, Some(Ok(_)));
        Some(record?.map(|(line, Record { cells, broken })| {
            let cells = || RowContent::TextCells(TextCells { names: Arc::clone(&self.names), cells });
            RawRow { line, content: broken.map_or_else(cells, RowContent::Unreadable) }
        }))
    }
}
