//! Logs the output lines of a program, and keeps its last lines for error messages.

use std::collections::VecDeque;
use std::io::Read;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use trainyard_core::attempt::LogLevel;
use trainyard_core::{Error, Result};

/// Receiver of log lines. It must not block for long.
pub type ProgramLog = Arc<dyn Fn(LogLevel, &str) + Send + Sync>;

/// Maximum bytes of a line.
const MAX_LINE_BYTES: usize = 4 << 10;
/// Maximum lines of one stream of a process in the log.
const MAX_LOGGED_LINES: usize = 10_000;
/// Number of last lines that are kept.
const TAIL_LINES: usize = 12;

/// Returns a log that drops all lines.
pub fn null_log() -> ProgramLog {
    Arc::new(|_, _| {})
}

/// Lines of a process's standard error, or of the standard output of a one-shot program.
pub struct OutputLines {
    log: ProgramLog,
    /// Bytes of the unfinished line.
    partial: Vec<u8>,
    logged: usize,
    last: VecDeque<String>,
}

impl OutputLines {
    pub fn new(log: ProgramLog) -> Self {
        Self { log, partial: Vec::new(), logged: 0, last: VecDeque::new() }
    }
    pub fn take(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let room = MAX_LINE_BYTES.saturating_sub(self.partial.len());
            let (text, ended) = piece.strip_suffix(b"\n").map_or((piece, false), |text| (text, true));
            self.partial.extend_from_slice(&text[..text.len().min(room)]);
            if ended {
                self.end_line();
            }
        }
    }
    /// Returns the last lines, joined by line breaks.
    pub fn last(mut self) -> String {
        if !self.partial.is_empty() {
            self.end_line();
        }
        Vec::from(self.last).join("\n")
    }
    fn end_line(&mut self) {
        let line = String::from_utf8_lossy(&std::mem::take(&mut self.partial)).trim_end().to_string();
        if line.is_empty() {
            return;
        }
        self.logged += 1;
        match self.logged {
            1..=MAX_LOGGED_LINES => (self.log)(LogLevel::Info, &line),
            count if count == MAX_LOGGED_LINES + 1 => {
                (self.log)(LogLevel::Warn, "the program wrote more than 10000 lines; the log omits the rest")
            }
            _ => {}
        }
        if self.last.len() == TAIL_LINES {
            self.last.pop_front();
        }
        self.last.push_back(line);
    }
}

/// Reads a pipe to its end on a separate thread, which then sends the last lines.
pub fn spawn_reader(stream: &str, mut pipe: impl Read + Send + 'static, log: ProgramLog) -> Result<Receiver<String>> {
    let (sender, last) = channel();
    let work = move || {
        let (mut lines, mut chunk) = (OutputLines::new(log), [0; 1 << 14]);
        loop {
            match pipe.read(&mut chunk) {
                Ok(0) => break,
                Ok(count) => lines.take(&chunk[..count]),
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        // The receiver may have been dropped.
        let _ = sender.send(lines.last());
    };
    let thread = std::thread::Builder::new().name(format!("program-{stream}"));
    thread.spawn(work).map_err(|e| Error::retryable(format!("cannot start the thread that reads a program: {e}")))?;
    Ok(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[test]
    fn lines_are_bounded_in_length_and_number() {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&lines);
        let mut output = OutputLines::new(Arc::new(move |_, line| sink.lock().unwrap().push(line.to_string())));
        output.take(b"one\n\ntw");
        output.take(b"o\n");
        output.take("x".repeat(10_000).as_bytes());
        output.take(b"\n");
        assert_eq!(lines.lock().unwrap()[..2], ["one", "two"]);
        assert_eq!(lines.lock().unwrap()[2].len(), MAX_LINE_BYTES);
        for n in 0..2 * MAX_LOGGED_LINES {
            output.take(format!("line {n}\n").as_bytes());
        }
        assert_eq!(lines.lock().unwrap().len(), MAX_LOGGED_LINES + 1);
        output.take(b"the end");
        let last = output.last();
        assert_eq!(last.lines().count(), TAIL_LINES);
        assert!(last.ends_with("line 19999\nthe end"), "{last}");
    }
}
