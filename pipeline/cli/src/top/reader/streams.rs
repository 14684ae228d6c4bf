//! Follows the log of attempts, with bounded memory and a bounded number of chunks per turn.

use std::collections::VecDeque;
use std::sync::Arc;
use trainyard_core::attempt::{LogLevel, LogRecord};
use trainyard_core::units::format_time;
use trainyard_core::{AttemptNumber, Result, RunId, StageKey};
use trainyard_store::{AttemptStream, Store};

/// Chunks read in one turn.
pub const CHUNKS_PER_TURN: usize = 32;
/// Chunks before the end of a log from which it is followed.
const TAIL_CHUNKS: u32 = 16;
/// Maximum lines kept.
const MAX_LINES: usize = 2_000;
/// Maximum characters of a line.
const MAX_LINE: usize = 2_000;
/// Maximum bytes of an unfinished line.
const MAX_REST: usize = 1 << 20;

/// Splits chunks into complete lines.
#[derive(Default)]
struct LineBuffer(Vec<u8>);

impl LineBuffer {
    /// Adds a chunk, and returns the lines that are complete now.
    fn add(&mut self, chunk: &[u8]) -> Vec<u8> {
        self.0.extend_from_slice(chunk);
        let complete = self.0.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let rest = self.0.split_off(complete);
        let lines = std::mem::replace(&mut self.0, rest);
        // The end of an extremely long line is shown as a separate line.
        if self.0.len() > MAX_REST { std::mem::take(&mut self.0) } else { lines }
    }
}

/// End of an attempt's log.
pub struct LogTail {
    pub attempt: AttemptNumber,
    next: u32,
    /// Whether the first line is still to be left out, because the chunks before it were not read.
    is_cut: bool,
    buffer: LineBuffer,
    lines: VecDeque<String>,
    shown: Arc<Vec<String>>,
}

impl LogTail {
    /// Finds the last chunks of a log.
    pub async fn open(store: &Store, run: &RunId, stage: &StageKey, attempt: AttemptNumber) -> Result<Self> {
        let end = store.next_chunk(run, stage, attempt, AttemptStream::Log).await?;
        let next = end.saturating_sub(TAIL_CHUNKS);
        let (buffer, lines, shown) = Default::default();
        Ok(Self { attempt, next, is_cut: next > 0, buffer, lines, shown })
    }

    /// Reads new chunks.
    pub async fn turn(&mut self, store: &Store, run: &RunId, stage: &StageKey) -> Result<()> {
        let mut chunks = store.chunks(run, stage, self.attempt, AttemptStream::Log, self.next);
        let mut has_news = false;
        for _ in 0..CHUNKS_PER_TURN {
            let Some(chunk) = chunks.next().await? else { break };
            self.next += 1;
            has_news |= self.add(&chunk);
        }
        if has_news {
            self.shown = Arc::new(self.lines.iter().cloned().collect());
        }
        Ok(())
    }

    /// Adds a chunk; returns whether it completed lines.
    fn add(&mut self, chunk: &[u8]) -> bool {
        let lines = self.buffer.add(chunk);
        let text = String::from_utf8_lossy(&lines);
        let skipped = usize::from(self.is_cut && !lines.is_empty());
        self.is_cut &= lines.is_empty();
        self.lines.extend(text.lines().skip(skipped).map(|line| log_line(&LogRecord::parse(line))));
        let excess = self.lines.len().saturating_sub(MAX_LINES);
        self.lines.drain(..excess);
        !lines.is_empty()
    }

    /// Returns the lines, oldest first.
    pub fn lines(&self) -> Arc<Vec<String>> {
        self.shown.clone()
    }
}

/// Formats a record: `04:15:30 text`, with its level if that is not `info`.
fn log_line(record: &LogRecord) -> String {
    let time = record.at.map(format_time).and_then(|at| Some(format!("{} ", at.get(11..19)?))).unwrap_or_default();
    let level = match record.level {
        LogLevel::Info => String::new(),
        level => format!("{} ", level.name()),
    };
    let text: String = record.text.chars().take(MAX_LINE).collect();
    format!("{time}{level}{text}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_store::StoreOptions;

    fn names() -> (RunId, StageKey) {
        (RunId("20261121-000000-000000".into()), StageKey("rl".into()))
    }

    #[tokio::test]
    async fn log_is_read_from_its_last_chunks_and_followed() {
        let store = Store::open("memory://", StoreOptions::default()).await.unwrap();
        let (run, stage) = names();
        let put = async |number: u32, text: String| {
            store.put_chunk(&run, &stage, 1, AttemptStream::Log, number, text.into()).await.unwrap();
        };
        for number in 0..40 {
            put(number, format!("{number} begin\n{number} ")).await;
        }
        let mut log = LogTail::open(&store, &run, &stage, 1).await.unwrap();
        log.turn(&store, &run, &stage).await.unwrap();
        let lines = log.lines();
        assert_eq!(lines.first().map(String::as_str), Some("24 25 begin"), "the line before it is incomplete");
        assert_eq!((lines.len(), lines.last().map(String::as_str)), (15, Some("38 39 begin")));
        put(40, "end\n".into()).await;
        log.turn(&store, &run, &stage).await.unwrap();
        assert_eq!(log.lines().last().map(String::as_str), Some("39 end"));
    }

    #[test]
    fn levels_other_than_info_are_named() {
        let record = LogRecord { at: Some(1_795_234_530_042), level: LogLevel::Warn, text: "slow".into() };
        assert_eq!(log_line(&record), "04:15:30 warn slow");
    }
}
