//! Shows the log of a stage.

use super::error::ApiResult;
use super::state::ApiState;
use super::stream_page::{StreamQuery, read};
use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use trainyard_core::AttemptNumber;
use trainyard_core::attempt::LogRecord;
use trainyard_core::units::format_time;
use trainyard_store::AttemptStream;

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

pub async fn show(
    State(app): State<Arc<ApiState>>,
    Path(run): Path<String>,
    query: Result<Query<StreamQuery>, QueryRejection>,
) -> ApiResult<LogPage> {
    let Query(query) = query?;
    let page = read(&app, &run, query, AttemptStream::Log).await?;
    let line = |record: LogRecord| LogLine {
        at: record.at.map(format_time),
        level: record.level.name().to_string(),
        text: record.text,
    };
    let records = String::from_utf8_lossy(&page.bytes).lines().map(|text| line(LogRecord::parse(text))).collect();
    Ok(Json(LogPage { attempt: page.attempt, records, next: page.next, more: page.more }))
}
