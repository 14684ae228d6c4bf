//! Defines the records of an attempt's stored log.

use serde::{Deserialize, Serialize};

/// Severity of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// Normal progress.
    Info,
    /// Unusual event that did not stop the attempt.
    Warn,
    /// Cause of the attempt's failure.
    Error,
}

impl LogLevel {
    /// Returns the lower-case name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Error => "error",
        }
    }
}

/// One entry of an attempt's stored log: a line of JSON in a log chunk.
///
/// ```
/// use trainyard_core::attempt::{LogLevel, LogRecord};
///
/// let record = LogRecord { at: Some(1_700_000_000_000), level: LogLevel::Warn, text: "slow store".into() };
/// assert_eq!(LogRecord::parse(&record.to_line()), record);
/// let old = LogRecord::parse("warning: slow store");
/// assert_eq!((old.at, old.level, old.text.as_str()), (None, LogLevel::Warn, "slow store"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogRecord {
    /// Time of receipt by the engine, in milliseconds since 1970-01-01 UTC; `None` in logs written before version 0.2.
    pub at: Option<i64>,
    /// Severity.
    pub level: LogLevel,
    /// Message; may have several lines.
    pub text: String,
}

impl LogRecord {
    /// Returns the stored form: one line of JSON without the line feed.
    pub fn to_line(&self) -> String {
        serde_json::json!({"at": self.at, "level": self.level.name(), "text": self.text}).to_string()
    }
    /// Parses a line of a log chunk. Chunks of earlier versions contain plain text without times, with `warning: ` or
    /// `error: ` before lines above [`LogLevel::Info`].
    pub fn parse(line: &str) -> Self {
        match serde_json::from_str::<Self>(line) {
            Ok(record) if record.at.is_some() => record,
            _ => Self::plain(line),
        }
    }
    fn plain(line: &str) -> Self {
        let levels = [("warning: ", LogLevel::Warn), ("error: ", LogLevel::Error)];
        let marked = levels.into_iter().find_map(|(mark, level)| Some((level, line.strip_prefix(mark)?)));
        let (level, text) = marked.unwrap_or((LogLevel::Info, line));
        Self { at: None, level, text: text.to_string() }
    }
}
