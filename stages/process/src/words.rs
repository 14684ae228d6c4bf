//! What a program writes to its standard error: lines of the stage's log, and its last words when it dies.

use std::collections::VecDeque;
use std::sync::Arc;
use trainyard_core::attempt::LogLevel;

/// Where lines of the log go. It must not block for long.
pub type Log = Arc<dyn Fn(LogLevel, &str) + Send + Sync>;

/// Bytes of a line that are kept.
const LINE: usize = 4 << 10;
/// Lines of one process that reach the log.
const LINES: usize = 10_000;
/// Lines that an error repeats.
const LAST: usize = 12;

/// A log that keeps nothing.
pub fn silent() -> Log {
    Arc::new(|_, _| {})
}

/// The words of one process.
pub struct Words {
    log: Log,
    /// Of the line that has not ended.
    started: Vec<u8>,
    told: usize,
    last: VecDeque<String>,
}

impl Words {
    pub fn new(log: Log) -> Self {
        Self { log, started: Vec::new(), told: 0, last: VecDeque::new() }
    }
    pub fn take(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let room = LINE.saturating_sub(self.started.len());
            let (text, ended) = piece.strip_suffix(b"\n").map_or((piece, false), |text| (text, true));
            self.started.extend_from_slice(&text[..text.len().min(room)]);
            if ended {
                self.end_line();
            }
        }
    }
    /// The last lines, one under the other.
    pub fn last(mut self) -> String {
        if !self.started.is_empty() {
            self.end_line();
        }
        Vec::from(self.last).join("\n")
    }
    fn end_line(&mut self) {
        let line = String::from_utf8_lossy(&std::mem::take(&mut self.started)).trim_end().to_string();
        if line.is_empty() {
            return;
        }
        self.told += 1;
        match self.told {
            1..=LINES => (self.log)(LogLevel::Info, &line),
            told if told == LINES + 1 => (self.log)(LogLevel::Warn, "the program writes more lines than the log keeps"),
            _ => {}
        }
        if self.last.len() == LAST {
            self.last.pop_front();
        }
        self.last.push_back(line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[test]
    fn lines_are_bounded_in_length_and_number() {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&heard);
        let mut words = Words::new(Arc::new(move |_, line| sink.lock().unwrap().push(line.to_string())));
        words.take(b"one\n\ntw");
        words.take(b"o\n");
        words.take("x".repeat(10_000).as_bytes());
        words.take(b"\n");
        assert_eq!(heard.lock().unwrap()[..2], ["one", "two"]);
        assert_eq!(heard.lock().unwrap()[2].len(), LINE);
        for n in 0..2 * LINES {
            words.take(format!("line {n}\n").as_bytes());
        }
        assert_eq!(heard.lock().unwrap().len(), LINES + 1);
        words.take(b"the end");
        let last = words.last();
        assert_eq!(last.lines().count(), LAST);
        assert!(last.ends_with("line 19999\nthe end"), "{last}");
    }
}
