//! Splits the output of a pipe into lines of bounded size, so that a process that writes no newlines cannot exhaust the
//! engine's memory.

use tokio::io::{AsyncRead, AsyncReadExt};

/// Maximum number of bytes kept of a line; the rest is dropped.
const LINE_LIMIT: usize = 1 << 20;
/// Maximum number of text bytes in one log message. JSON escapes may take six bytes per byte, and the escaped message
/// must fit into a line.
pub const TEXT_LIMIT: usize = LINE_LIMIT / 8;

/// Splits the chunks read from a pipe into lines of at most `limit` bytes. Invalid UTF-8 is replaced.
pub struct LineSplitter {
    line: Vec<u8>,
    limit: usize,
}

impl LineSplitter {
    /// Starts at the beginning of a line.
    pub fn new(limit: usize) -> Self {
        Self { line: Vec::new(), limit }
    }
    /// Adds the next bytes and calls `on_line` for every line that ends in them.
    pub fn feed(&mut self, mut bytes: &[u8], on_line: &mut impl FnMut(&str)) {
        while let Some(end) = bytes.iter().position(|b| *b == b'\n') {
            self.keep(&bytes[..end]);
            on_line(&String::from_utf8_lossy(&self.line));
            self.line.clear();
            bytes = &bytes[end + 1..];
        }
        self.keep(bytes);
    }
    /// Calls `on_line` for the last line if it does not end with a newline.
    pub fn finish(self, on_line: &mut impl FnMut(&str)) {
        if !self.line.is_empty() {
            on_line(&String::from_utf8_lossy(&self.line));
        }
    }

    fn keep(&mut self, piece: &[u8]) {
        let free = self.limit.saturating_sub(self.line.len());
        self.line.extend_from_slice(&piece[..piece.len().min(free)]);
    }
}

/// Calls `on_line` for every line until the pipe ends.
pub(super) async fn for_each_line(mut pipe: impl AsyncRead + Unpin, mut on_line: impl FnMut(&str)) {
    let mut lines = LineSplitter::new(LINE_LIMIT);
    let mut piece = vec![0; 64 * 1024];
    // A broken pipe counts as the end; the exit status reports how the process ended.
    while let Ok(size) = pipe.read(&mut piece).await
        && size > 0
    {
        lines.feed(&piece[..size], &mut on_line);
    }
    lines.finish(&mut on_line);
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_core::attempt::{AttemptMessage, LogLevel};

    #[tokio::test]
    async fn lines_are_cut_at_the_limit() {
        let mut text = vec![b'x'; 3 * LINE_LIMIT];
        text.extend_from_slice(b"\nsecond\n\nlast");
        let mut lines = Vec::new();
        for_each_line(text.as_slice(), |l| lines.push(l.to_string())).await;
        assert_eq!(lines[0].len(), LINE_LIMIT);
        assert_eq!(lines[1..], ["second", "", "last"]);
    }

    #[test]
    fn escaped_text_at_the_limit_fits_into_a_line() {
        for byte in [0, b'"', b'x', 0xff] {
            let mut texts = Vec::new();
            let mut lines = LineSplitter::new(TEXT_LIMIT);
            lines.feed(&vec![byte; 2 * TEXT_LIMIT], &mut |_| panic!("no line has ended"));
            lines.finish(&mut |l| texts.push(l.to_string()));
            let message = AttemptMessage::Log { level: LogLevel::Info, text: texts.concat() };
            let size = serde_json::to_vec(&message).unwrap().len();
            assert!((TEXT_LIMIT..LINE_LIMIT).contains(&size), "{size} bytes for {byte}");
        }
    }
}
