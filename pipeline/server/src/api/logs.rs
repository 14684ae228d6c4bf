//! What a stage logged.

use super::app::App;
use super::error::ApiResult;
use super::pieces::{PieceQuery, read};
use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use trainyard_core::AttemptNumber;
use trainyard_core::attempt::LogRecord;
use trainyard_core::units::format_time;
use trainyard_store::Chunk;

/// A piece of a log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Log {
    /// The attempt; 0 if the stage has none with a log.
    pub attempt: AttemptNumber,
    /// In the order of writing.
    pub records: Vec<LogLine>,
    /// What `from` takes to read on. A running attempt may write more.
    pub next: u32,
    /// Whether there is more already.
    pub more: bool,
}

/// A record of a log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LogLine {
    /// RFC 3339, UTC.
    pub at: Option<String>,
    /// `info`, `warn`, `error`, …
    pub level: String,
    /// What was written.
    pub text: String,
}

pub async fn show(
    State(app): State<Arc<App>>,
    Path(run): Path<String>,
    query: Result<Query<PieceQuery>, QueryRejection>,
) -> ApiResult<Log> {
    let Query(query) = query?;
    let piece = read(&app, &run, query, Chunk::Log).await?;
    let line = |record: LogRecord| LogLine {
        at: record.at.map(format_time),
        level: record.level.name().to_string(),
        text: record.text,
    };
    let records = String::from_utf8_lossy(&piece.bytes).lines().map(|text| line(LogRecord::parse(text))).collect();
    Ok(Json(Log { attempt: piece.attempt, records, next: piece.next, more: piece.more }))
}
