//! Reads files with one row on each line. Blank lines are skipped; lines may end with `\r\n`.

use super::bytes::{Bytes, read_error};
use super::{MOST_BYTES, RawRow, RowContent};
use std::path::{Path, PathBuf};
use trainyard_core::Result;

pub struct LineReader {
    path: PathBuf,
    bytes: Bytes,
    line: usize,
    content: fn(Vec<u8>) -> RowContent,
    max_bytes: usize,
    ended: bool,
}

impl LineReader {
    /// Creates a reader of lines, the first of which has the number `line`. `content` converts the bytes of a line.
    pub fn new(path: &Path, bytes: Bytes, line: usize, content: fn(Vec<u8>) -> RowContent) -> Self {
        Self { path: path.to_path_buf(), bytes, line, content, max_bytes: MOST_BYTES, ended: false }
    }
    /// Sets the maximum bytes of a line.
    #[cfg(test)]
    pub fn at_most(self, max_bytes: usize) -> Self {
        Self { max_bytes, ..self }
    }

    /// Skips empty lines, of which a small archive may have billions.
    fn skip_empty_lines(&mut self) -> std::io::Result<()> {
        loop {
            let seen = self.bytes.fill_buf()?;
            let empty = seen.iter().take_while(|byte| **byte == b'\n').count();
            let is_end = empty < seen.len() || seen.is_empty();
            self.bytes.consume(empty);
            self.line += empty;
            if is_end {
                return Ok(());
            }
        }
    }

    /// Returns the next line without its end, and whether the line was longer than its returned part; `None` at the end
    /// of the file.
    fn read(&mut self) -> std::io::Result<Option<(Vec<u8>, bool)>> {
        let (mut line, mut any, mut cut) = (Vec::new(), false, false);
        loop {
            let seen = self.bytes.fill_buf()?;
            if seen.is_empty() {
                return Ok(any.then_some((line, cut)));
            }
            any = true;
            let end = memchr::memchr(b'\n', seen);
            let taken = end.unwrap_or(seen.len());
            cut |= line.len() + taken > self.max_bytes;
            if cut {
                line = Vec::new();
            } else {
                line.extend_from_slice(&seen[..taken]);
            }
            self.bytes.consume(taken + usize::from(end.is_some()));
            if end.is_some() {
                return Ok(Some((line, cut)));
            }
        }
    }
}

impl Iterator for LineReader {
    type Item = Result<RawRow>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.ended {
            let skipped = self.skip_empty_lines();
            let number = self.line;
            self.line += 1;
            match skipped.and_then(|()| self.read()) {
                Ok(None) => self.ended = true,
                Ok(Some((_, true))) => {
                    let reason = format!("longer than {} bytes", self.max_bytes);
                    return Some(Ok(RawRow { line: number, content: RowContent::Unreadable(reason) }));
                }
                Ok(Some((line, false))) if line.trim_ascii().is_empty() => {}
                Ok(Some((mut line, false))) => {
                    if line.last() == Some(&b'\r') {
                        line.pop();
                    }
                    return Some(Ok(RawRow { line: number, content: (self.content)(line) }));
                }
                Err(e) => {
                    self.ended = true;
                    return Some(Err(read_error(&self.path, &e)));
                }
            }
        }
        None
    }
}
