//! Reads a file to which another process appends lines, while that process runs.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::PathBuf;
use trainyard_core::error::io_error;
use trainyard_core::{Error, Result};

/// Maximum bytes of a line that is not complete yet.
pub const MAX_LINE_BYTES: usize = 1 << 20;
/// Maximum characters of a line in an error.
const EXCERPT: usize = 200;

/// One line that is not blank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppendedLine {
    /// Number of the line in the file, from 1.
    pub number: u64,
    /// Bytes of the line, without its end.
    pub text: Vec<u8>,
}

impl AppendedLine {
    /// Returns the beginning of the line, for an error.
    pub fn excerpt(&self) -> String {
        excerpt(&self.text)
    }
}

/// Reader of a growing file.
pub struct AppendedLines {
    path: PathBuf,
    /// Bytes of the file that were read.
    read: u64,
    /// Bytes of the unfinished last line.
    partial: Vec<u8>,
    /// Complete lines that were read.
    lines: u64,
}

impl AppendedLines {
    /// Creates a reader of the file `path`, which need not exist yet.
    pub fn new(path: PathBuf) -> Self {
        Self { path, read: 0, partial: Vec::new(), lines: 0 }
    }

    /// Reads the lines that were completed since the last call. A file that has become shorter is read from its
    /// beginning. If nothing was written, only the length of the file is read.
    ///
    /// Errors: data (a line of more than [`MAX_LINE_BYTES`] without an end), and those of reading.
    pub fn read_new(&mut self) -> Result<Vec<AppendedLine>> {
        self.read_bytes()?;
        let Some(end) = self.partial.iter().rposition(|byte| *byte == b'\n') else {
            return self.require_short().map(|()| Vec::new());
        };
        let rest = self.partial.split_off(end + 1);
        let complete = std::mem::replace(&mut self.partial, rest);
        let lines = self.number(&complete[..end]);
        self.require_short()?;
        Ok(lines)
    }

    /// Reads all lines that are left, also a last one without an end. For a file to which nothing is appended any more.
    pub fn read_rest(&mut self) -> Result<Vec<AppendedLine>> {
        let mut lines = self.read_new()?;
        let last = std::mem::take(&mut self.partial);
        if !last.is_empty() {
            lines.extend(self.number(&last));
        }
        Ok(lines)
    }

    fn read_bytes(&mut self) -> Result<()> {
        // A file that does not exist or cannot be looked up has no lines yet.
        let Ok(found) = std::fs::metadata(&self.path) else { return Ok(()) };
        if !found.is_file() || found.len() == self.read {
            return Ok(());
        }
        if found.len() < self.read {
            (self.read, self.lines) = (0, 0);
            self.partial.clear();
        }
        let Ok(mut file) = File::open(&self.path) else { return Ok(()) };
        let read = file.seek(SeekFrom::Start(self.read)).and_then(|_| file.read_to_end(&mut self.partial));
        self.read += read.map_err(|e| io_error(&self.path, &e))? as u64;
        Ok(())
    }

    /// Splits a text without the end of its last line, and counts its lines.
    fn number(&mut self, text: &[u8]) -> Vec<AppendedLine> {
        let mut found = Vec::new();
        for line in text.split(|byte| *byte == b'\n') {
            self.lines += 1;
            if !line.trim_ascii().is_empty() {
                found.push(AppendedLine { number: self.lines, text: line.to_vec() });
            }
        }
        found
    }

    fn require_short(&self) -> Result<()> {
        if self.partial.len() <= MAX_LINE_BYTES {
            return Ok(());
        }
        let (number, beginning) = (self.lines + 1, excerpt(&self.partial));
        Err(Error::data(format!("line {number} is longer than 1 MiB: {beginning}")))
    }
}

fn excerpt(line: &[u8]) -> String {
    // A character has at most four bytes.
    let beginning = &line[..line.len().min(4 * EXCERPT)];
    String::from_utf8_lossy(beginning).trim_end().chars().take(EXCERPT).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    fn texts(lines: &[AppendedLine]) -> Vec<(u64, &str)> {
        lines.iter().map(|line| (line.number, std::str::from_utf8(&line.text).unwrap())).collect()
    }

    #[test]
    fn lines_are_read_once_complete_and_numbered() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lines");
        let mut reader = AppendedLines::new(path.clone());
        assert_eq!(reader.read_new().unwrap(), [], "there is no file");
        let mut file = File::create(&path).unwrap();
        file.write_all(b"one\n \n\ntwo\nthr").unwrap();
        assert_eq!(texts(&reader.read_new().unwrap()), [(1, "one"), (4, "two")]);
        assert_eq!(reader.read_new().unwrap(), []);
        file.write_all(b"ee\nfour").unwrap();
        assert_eq!(texts(&reader.read_new().unwrap()), [(5, "three")]);
        assert_eq!(texts(&reader.read_rest().unwrap()), [(6, "four")]);
        assert_eq!(reader.read_rest().unwrap(), []);
    }

    #[test]
    fn replaced_file_is_read_from_its_beginning() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lines");
        std::fs::write(&path, "one\ntwo\nthr").unwrap();
        let mut reader = AppendedLines::new(path.clone());
        assert_eq!(reader.read_new().unwrap().len(), 2);
        std::fs::write(&path, "new\n").unwrap();
        assert_eq!(texts(&reader.read_new().unwrap()), [(1, "new")]);
    }

    #[test]
    fn endless_line_is_an_error_and_its_excerpt_is_short() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lines");
        std::fs::write(&path, format!("one\n{}", "é".repeat(MAX_LINE_BYTES))).unwrap();
        let error = AppendedLines::new(path.clone()).read_new().unwrap_err();
        assert_eq!(error.message, format!("line 2 is longer than 1 MiB: {}", "é".repeat(EXCERPT)));
        std::fs::write(&path, format!("{}\n", "x".repeat(MAX_LINE_BYTES + 1))).unwrap();
        let complete = AppendedLines::new(path).read_new().unwrap();
        assert_eq!((complete.len(), complete[0].excerpt().len()), (1, EXCERPT), "a complete line may be long");
    }

    #[test]
    fn what_is_no_file_has_no_lines() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(AppendedLines::new(folder.path().to_path_buf()).read_rest().unwrap(), []);
    }
}
