//! Shows the log of a stage.

use crate::stream_page::{StreamQuery, read};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_core::attempt::LogRecord;
use trainyard_core::units::format_time;
use trainyard_core::{AttemptNumber, Result, RunId};
use trainyard_store::{AttemptStream, Store};

/// Page of a log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LogPage {
    /// Attempt number; 0 if no attempt of the stage has a log.
    pub attempt: AttemptNumber,
    /// Records in the order of writing.
    pub records: Vec<LogLine>,
    /// Value of `from` for the next page. A running attempt may write more.
    pub next: u32,
    /// Whether more records are available already.
    pub more: bool,
}

/// Record of a log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LogLine {
    /// Time; RFC 3339, UTC.
    pub at: Option<String>,
    /// `info`, `warn`, `error`, …
    pub level: String,
    /// Text of the record.
    pub text: String,
}

/// Shows a page of a stage's log. Errors: invalid (no such run or stage), those of the store.
pub async fn show(store: &Store, run: &RunId, query: &StreamQuery) -> Result<LogPage> {
    let page = read(store, run, query, AttemptStream::Log).await?;
    let line = |record: LogRecord| LogLine {
        at: record.at.map(format_time),
        level: record.level.name().to_string(),
        text: record.text,
    };
    let records = String::from_utf8_lossy(&page.bytes).lines().map(|text| line(LogRecord::parse(text))).collect();
    Ok(LogPage { attempt: page.attempt, records, next: page.next, more: page.more })
}
