//! Reads the log of an attempt line by line, from its end or from any place, all lines or those with a text.

use std::fmt;
use std::str::FromStr;
use trainyard_core::attempt::LogRecord;
use trainyard_core::{AttemptNumber, Error, Result, RunId, StageKey};
use trainyard_store::{AttemptStream, Store};

/// Chunks before the end of a log at which its last lines are searched.
const TAIL_CHUNKS: u32 = 8;
/// Bytes of a log that one request reads.
const MAX_BYTES: usize = 8 << 20;

/// Place of a line: its chunk, and its number among the lines that begin in this chunk. The text form is `12.5`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogPlace {
    /// Number of the chunk.
    pub chunk: u32,
    /// Number of the line in the chunk, from 0.
    pub line: u32,
}

/// Selects lines of a log.
#[derive(Debug, Clone, PartialEq)]
pub struct LogQuery {
    /// Attempt number.
    pub attempt: AttemptNumber,
    /// First line; `None` for the last lines, or, with a text, for the beginning.
    pub from: Option<LogPlace>,
    /// Text that the lines contain, in any case.
    pub find: Option<String>,
    /// Maximum number of lines.
    pub limit: usize,
}

/// Lines of a log.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LogLines {
    /// Lines in the order of writing.
    pub lines: Vec<PlacedRecord>,
    /// Place of a page of earlier lines; `None` at the beginning.
    pub earlier: Option<LogPlace>,
    /// Place of the lines after these. A running attempt may write more.
    pub next: LogPlace,
    /// Whether more of the log is available already.
    pub more: bool,
}

/// Record of a log and its place.
#[derive(Debug, Clone, PartialEq)]
pub struct PlacedRecord {
    /// Place of its line.
    pub place: LogPlace,
    /// Record.
    pub record: LogRecord,
}

impl fmt::Display for LogPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.chunk, self.line)
    }
}

impl FromStr for LogPlace {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let place = text
            .split_once('.')
            .and_then(|(chunk, line)| Some(Self { chunk: chunk.parse().ok()?, line: line.parse().ok()? }));
        place.ok_or_else(|| {
            Error::invalid(format!("`{text}` is no place in a log")).help("a place is a chunk and a line, as in `12.5`")
        })
    }
}

/// Reads lines of a log; at most 8 MB are searched in one call. Errors: those of the store.
pub async fn read(store: &Store, run: &RunId, stage: &StageKey, query: &LogQuery) -> Result<LogLines> {
    let is_tail = query.from.is_none() && query.find.is_none();
    let from = match query.from {
        Some(place) => place,
        None if is_tail => {
            let end = store.next_chunk(run, stage, query.attempt, AttemptStream::Log).await?;
            LogPlace { chunk: end.saturating_sub(TAIL_CHUNKS), line: 0 }
        }
        None => LogPlace::default(),
    };
    let find = query.find.as_ref().map(|text| text.to_lowercase());
    let mut collector = LineCollector { from, find, limit: query.limit, is_tail, ..LineCollector::default() };
    let mut chunks = store.chunks(run, stage, query.attempt, AttemptStream::Log, from.chunk);
    let (mut chunk, mut bytes) = (from.chunk, 0);
    while let Some(text) = chunks.next().await? {
        bytes += text.len();
        collector.add(chunk, &text);
        chunk += 1;
        if collector.is_full() || bytes >= MAX_BYTES {
            collector.more = true;
            break;
        }
    }
    Ok(collector.finish(chunk))
}

/// Collects the lines of chunks.
#[derive(Default)]
struct LineCollector {
    from: LogPlace,
    find: Option<String>,
    limit: usize,
    /// Whether the last lines are kept instead of the first.
    is_tail: bool,
    /// Line without its end, and its place.
    rest: Option<(LogPlace, Vec<u8>)>,
    lines: Vec<PlacedRecord>,
    more: bool,
    /// Place after the last line that was checked.
    next: Option<LogPlace>,
}

impl LineCollector {
    fn is_full(&self) -> bool {
        !self.is_tail && self.lines.len() >= self.limit
    }

    fn add(&mut self, chunk: u32, text: &[u8]) {
        let mut line = 0;
        for part in text.split_inclusive(|byte| *byte == b'\n') {
            let (place, mut whole) = self.rest.take().unwrap_or_else(|| {
                line += 1;
                (LogPlace { chunk, line: line - 1 }, Vec::new())
            });
            whole.extend_from_slice(part);
            if part.ends_with(b"\n") {
                self.line(place, &whole, LogPlace { chunk, line });
            } else {
                self.rest = Some((place, whole));
            }
        }
    }

    /// Adds a line, unless the page is full. `after` is the place of the next line.
    fn line(&mut self, place: LogPlace, bytes: &[u8], after: LogPlace) {
        if place < self.from || self.is_full() {
            self.more |= self.is_full();
            return;
        }
        self.next = Some(after);
        let text = String::from_utf8_lossy(bytes);
        let record = LogRecord::parse(text.trim_end_matches('\n'));
        if self.find.as_ref().is_none_or(|find| record.text.to_lowercase().contains(find)) {
            self.lines.push(PlacedRecord { place, record });
        }
        if self.is_tail && self.lines.len() >= self.limit * 2 {
            self.lines.drain(..self.lines.len() - self.limit);
        }
    }

    fn finish(mut self, end: u32) -> LogLines {
        // The last line of a log may have no end, because its process was killed.
        if let Some((place, bytes)) = self.rest.take().filter(|_| !self.more) {
            self.line(place, &bytes, LogPlace { chunk: end, line: 0 });
        }
        if self.is_tail {
            let excess = self.lines.len().saturating_sub(self.limit);
            self.lines.drain(..excess);
        }
        let first = self.lines.first().map_or(self.from, |line| line.place);
        let first = if self.find.is_some() { self.from } else { first };
        let next = match self.next {
            Some(next) if self.more => next,
            Some(next) => next.max(LogPlace { chunk: end, line: 0 }),
            None => LogPlace {
                chunk: end.max(self.from.chunk),
                line: if self.from.chunk == end { self.from.line } else { 0 },
            },
        };
        LogLines { earlier: earlier(first), next, more: self.more, lines: self.lines }
    }
}

/// Returns a place about a page before this one.
fn earlier(first: LogPlace) -> Option<LogPlace> {
    match first {
        LogPlace { chunk: 0, line: 0 } => None,
        LogPlace { chunk, line } if line > 0 => Some(LogPlace { chunk, line: line.saturating_sub(200) }),
        LogPlace { chunk, .. } => Some(LogPlace { chunk: chunk - 1, line: 0 }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_core::attempt::LogLevel;
    use trainyard_store::StoreOptions;

    fn line(number: u32) -> String {
        let level = if number.is_multiple_of(10) { LogLevel::Warn } else { LogLevel::Info };
        LogRecord { at: Some(i64::from(number)), level, text: format!("Line {number}") }.to_line() + "\n"
    }

    async fn stored() -> (Store, RunId, StageKey) {
        let store = Store::open("memory://", StoreOptions::default()).await.unwrap();
        let (run, stage) = (RunId("20261121-000000-000000".into()), StageKey("s".into()));
        for chunk in 0..4u32 {
            let text: String = (0..25).map(|n| line(chunk * 25 + n)).collect();
            store.put_chunk(&run, &stage, 1, AttemptStream::Log, chunk, text.into()).await.unwrap();
        }
        (store, run, stage)
    }

    fn texts(lines: &LogLines) -> Vec<&str> {
        lines.lines.iter().map(|line| line.record.text.as_str()).collect()
    }

    #[tokio::test]
    async fn pages_join_without_a_gap() {
        let (store, run, stage) = stored().await;
        let mut query = LogQuery { attempt: 1, from: Some(LogPlace::default()), find: None, limit: 30 };
        let mut read_lines = Vec::new();
        loop {
            let page = read(&store, &run, &stage, &query).await.unwrap();
            read_lines.extend(page.lines.iter().map(|line| line.record.at.unwrap()));
            query.from = Some(page.next);
            if !page.more {
                break;
            }
        }
        assert_eq!(read_lines, (0..100).collect::<Vec<i64>>());
        let none = read(&store, &run, &stage, &query).await.unwrap();
        assert_eq!((none.lines.len(), none.next), (0, LogPlace { chunk: 4, line: 0 }));
        store.put_chunk(&run, &stage, 1, AttemptStream::Log, 4, line(100).into()).await.unwrap();
        assert_eq!(texts(&read(&store, &run, &stage, &query).await.unwrap()), ["Line 100"]);
    }

    #[tokio::test]
    async fn last_lines_are_first_shown() {
        let (store, run, stage) = stored().await;
        let query = LogQuery { attempt: 1, from: None, find: None, limit: 3 };
        let tail = read(&store, &run, &stage, &query).await.unwrap();
        assert_eq!(texts(&tail), ["Line 97", "Line 98", "Line 99"]);
        assert_eq!((tail.next, tail.more), (LogPlace { chunk: 4, line: 0 }, false));
        assert_eq!(tail.earlier, Some(LogPlace { chunk: 3, line: 0 }));
        assert_eq!(tail.lines[0].place.to_string(), "3.22");
    }

    #[tokio::test]
    async fn lines_are_found_in_any_case() {
        let (store, run, stage) = stored().await;
        let mut query = LogQuery { attempt: 1, from: None, find: Some("LINE 9".into()), limit: 4 };
        let found = read(&store, &run, &stage, &query).await.unwrap();
        assert_eq!((texts(&found), found.more), (vec!["Line 9", "Line 90", "Line 91", "Line 92"], true));
        query.from = Some(found.next);
        let rest = read(&store, &run, &stage, &query).await.unwrap();
        assert_eq!(texts(&rest), ["Line 93", "Line 94", "Line 95", "Line 96"]);
    }

    #[tokio::test]
    async fn lines_across_chunks_and_without_an_end_are_whole() {
        let store = Store::open("memory://", StoreOptions::default()).await.unwrap();
        let (run, stage) = (RunId("20261121-000000-000000".into()), StageKey("s".into()));
        for (number, text) in [(0, "a\nhal"), (1, "f\nb\nla"), (2, "st")] {
            store.put_chunk(&run, &stage, 1, AttemptStream::Log, number, text.into()).await.unwrap();
        }
        let query = LogQuery { attempt: 1, from: None, find: None, limit: 9 };
        assert_eq!(texts(&read(&store, &run, &stage, &query).await.unwrap()), ["a", "half", "b", "last"]);
    }

    #[test]
    fn places_have_a_text_form() {
        assert_eq!("12.5".parse::<LogPlace>().unwrap(), LogPlace { chunk: 12, line: 5 });
        assert!("12".parse::<LogPlace>().unwrap_err().message.contains("`12` is no place"));
    }
}
