//! Reads a JSON list item by item. Only brackets, commas and quotes separate the items, so an invalid item affects only
//! itself, and the list may be larger than memory.

use super::bytes::{Bytes, read_error};
use super::{MOST_BYTES, RawRow, RowContent};
use std::path::{Path, PathBuf};
use trainyard_core::Result;

/// The items of a list whose `[` has been read.
pub struct JsonListReader {
    path: PathBuf,
    bytes: Bytes,
    item: usize,
    ended: bool,
}

/// End of an item.
enum ItemEnd {
    Comma,
    Bracket,
    File,
}

/// Nesting state of the scanner.
#[derive(Default)]
struct Nesting {
    depth: usize,
    in_text: bool,
    escaped: bool,
}

impl Nesting {
    /// Processes a byte; returns whether it ends the item.
    fn take(&mut self, byte: u8) -> Option<ItemEnd> {
        match byte {
            _ if self.escaped => self.escaped = false,
            b'\\' if self.in_text => self.escaped = true,
            b'"' => self.in_text = !self.in_text,
            _ if self.in_text => {}
            b'[' | b'{' => self.depth += 1,
            b']' if self.depth == 0 => return Some(ItemEnd::Bracket),
            b',' if self.depth == 0 => return Some(ItemEnd::Comma),
            b']' | b'}' => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        None
    }
}

impl JsonListReader {
    pub fn new(path: &Path, bytes: Bytes) -> Self {
        Self { path: path.to_path_buf(), bytes, item: 0, ended: false }
    }

    fn read(&mut self) -> std::io::Result<(Vec<u8>, ItemEnd)> {
        let mut item = Vec::new();
        let mut nesting = Nesting::default();
        loop {
            let seen = self.bytes.fill_buf()?;
            if seen.is_empty() {
                return Ok((item, ItemEnd::File));
            }
            let end = seen.iter().enumerate().find_map(|(i, byte)| Some((i, nesting.take(*byte)?)));
            let taken = end.as_ref().map_or(seen.len(), |(i, _)| *i);
            // An item that is too long is only skipped.
            if item.len() <= MOST_BYTES {
                item.extend_from_slice(&seen[..taken]);
            }
            self.bytes.consume(taken + usize::from(end.is_some()));
            if let Some((_, end)) = end {
                return Ok((item, end));
            }
        }
    }

    fn row(&mut self, content: RowContent) -> RawRow {
        self.item += 1;
        RawRow { line: self.item, content }
    }
}

impl Iterator for JsonListReader {
    type Item = Result<RawRow>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let (item, end) = match self.read() {
            Ok(read) => read,
            Err(e) => {
                self.ended = true;
                return Some(Err(read_error(&self.path, &e)));
            }
        };
        self.ended = !matches!(end, ItemEnd::Comma);
        let content = match end {
            ItemEnd::File => RowContent::Unreadable("the list has no end; the file may be cut off".into()),
            _ if item.len() > MOST_BYTES => RowContent::Unreadable(format!("longer than {MOST_BYTES} bytes")),
            ItemEnd::Bracket if item.trim_ascii().is_empty() => return None,
            _ => RowContent::Json(item),
        };
        Some(Ok(self.row(content)))
    }
}
